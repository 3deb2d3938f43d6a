"""Reconciliation against real PostgreSQL: what a platform lists becomes events, what it cannot tell changes nothing.

The platform is a plain class that answers what a test puts into it.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tally.domain.drift import Listing, judge
from tally.domain.errors import NotFound, Refused
from tally.domain.instants import format_instant
from tally.domain.inventory import Gap, Listed, Unknown
from tally.services.listing import take
from tally.services.reconcile import SyncReport, last_listings, last_syncs, sync
from tally.services.synthetic import Differences
from tally.store.database import Connection, connected
from tally.store.reporting import syncs as syncs_store
from tests.integration.fake_platform import Platform, disk, volumes
from tests.integration.sending import (
    CLOUD,
    CREATE,
    DELETE,
    LARGE,
    NOW,
    RESIZE,
    at,
    count,
    current,
    dead_letters,
    event,
    projection,
    send,
    statuses,
    stored,
    volume,
)


def reconcile(reporting: Connection, platform: Platform, when: str, **options: Any) -> SyncReport:
    """Sync the cloud at an instant of March."""
    given = {"max_deleted_percent": 10, "actor": "test"} | options
    return sync(reporting, CLOUD, platform, clock=lambda: at(when), clock_skew=timedelta(minutes=5), **given)


def numbers(report: SyncReport) -> tuple[int, int, int]:
    """How many a sync created, updated and deleted."""
    return report.total("created"), report.total("updated"), report.total("deleted")


def synthetic(reporting: Connection) -> list[tuple[str, str, datetime]]:
    """(resource_id, event_type, timestamp) of what reconciliation wrote, in order of time."""
    return reporting.execute(
        "select resource_id, event_type, timestamp from reporting.events where source = 'reconciliation'"
        " order by timestamp, resource_id"
    ).fetchall()


@pytest.fixture
def with_volume(reporting: Connection) -> Connection:
    """A cloud with one volume of 10 GB since March 1."""
    assert statuses(send(reporting, volume("c", "01T00:00:00", CREATE, 10))) == ["accepted"]
    return reporting


def many(reporting: Connection, number: int, resource_type: str = "volume") -> list[Listed]:
    """Let a cloud have so many resources of 10 GB, and return them as they are listed."""
    name = {"volume": CREATE, "image": "image.create"}[resource_type]
    sent = [
        volume(f"{resource_type}-{no}", "01T00:00:00", name, 10, resource_id=f"{no:03d}", resource_type=resource_type)
        for no in range(number)
    ]
    assert set(statuses(send(reporting, *sent))) == {"accepted"}
    return [disk(f"{no:03d}", state=None) for no in range(number)]


# What is there, what is gone, what has changed


def test_a_resource_that_no_event_told_is_created_when_its_platform_says(with_volume: Connection) -> None:
    """Rule 9: the platform's own instant if it tells one, else the start of the listing."""
    platform = volumes(disk(state=None), disk("old", created_at=at("02T03:04:05.000006")), disk("new"))
    report = reconcile(with_volume, platform, "20T10:10:00")
    assert (report.status, numbers(report)) == ("completed", (2, 0, 0))
    assert synthetic(with_volume) == [
        ("old", "reconcile.create", at("02T03:04:05.000006")),
        ("new", "reconcile.create", at("20T10:10:00")),
    ]
    row = current(with_volume, "new")
    assert (row["project_id"], row["state"], row["size"]) == ("p-1", "available", {"size_gb": 10})


def test_a_resource_that_is_not_listed_is_closed_when_the_listing_started(with_volume: Connection) -> None:
    """Rule 9: absent from a complete listing is gone."""
    report = reconcile(with_volume, volumes(), "20T10:10:00")
    assert (report.status, numbers(report)) == ("completed", (0, 0, 1))
    assert (current(with_volume)["state"], current(with_volume)["deleted_at"]) == ("deleted", at("20T10:10:00"))


def test_a_resource_that_the_platform_says_is_deleted_is_closed_at_its_instant(with_volume: Connection) -> None:
    """Rule 9: nova's ?deleted=true tells when."""
    reconcile(with_volume, volumes(disk(deleted_at=at("20T10:02:00"))), "20T10:10:00")
    assert current(with_volume)["deleted_at"] == at("20T10:02:00")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"size_gb": 20}, ("p-1", "available", {"size_gb": 20})),
        ({"state": "IN-USE"}, ("p-1", "in-use", {"size_gb": 10})),
        ({"project_id": "p-2"}, ("p-2", "available", {"size_gb": 10})),
        ({"project_id": None, "state": None, "size": {"size_gb": 30}}, ("p-1", "available", {"size_gb": 30})),
    ],
)
def test_what_differs_is_updated(
    with_volume: Connection, changed: dict[str, Any], expected: tuple[str, str, dict[str, int]]
) -> None:
    """Size, state and owner; what the platform does not tell stays."""
    reconcile(with_volume, volumes(disk()), "10T00:00:00")  # which tells the state
    report = reconcile(with_volume, volumes(disk(**changed)), "20T10:10:00")
    assert numbers(report) == (0, 1, 0)
    row = current(with_volume)
    assert (row["project_id"], row["state"], row["size"]) == expected
    assert synthetic(with_volume)[-1] == ("v-1", "reconcile.update", at("20T10:10:00"))


def test_a_platform_that_tells_nothing_new_changes_nothing(with_volume: Connection) -> None:
    """10 is 10.0, an empty text says nothing, and so does None."""
    before = projection(with_volume)
    report = reconcile(with_volume, volumes(Listed("v-1", "", "", None)), "20T10:10:00")
    assert (report.status, numbers(report)) == ("completed", (0, 0, 0))
    assert projection(with_volume) == before


def test_a_second_sync_without_a_change_writes_nothing(with_volume: Connection) -> None:
    """Whatever the first one has written; neither events nor dead letters nor lines of the audit log."""
    bad, whose = disk("bad", size={"size_gb": "ten"}), disk("whose", project_id=None)
    gone = Listed("gone", "p-1", None, None, deleted_at=at("02T00:00:00"))
    platform = Platform({"volume": [disk(size_gb=20), disk("new"), bad, whose], "image": [gone]})
    first = reconcile(with_volume, platform, "20T10:10:00")
    assert numbers(first) == (1, 1, 0)
    written = [count(with_volume, table) for table in ("events", "rejected_events")]
    second = reconcile(with_volume, platform, "20T10:20:00")
    assert numbers(second) == (0, 0, 0)
    assert [count(with_volume, table) for table in ("events", "rejected_events")] == written == [3, 2]


def test_resources_of_other_types_and_other_clouds_are_left_alone(with_volume: Connection) -> None:
    """An adapter answers for the types that it lists, of its own cloud."""
    other = volume("o", "01T00:00:00", CREATE, 10, cloud="os-other", resource_id="v-9")
    image = volume("i", "01T00:00:00", "image.create", 10, resource_type="image", resource_id="i-1")
    send(with_volume, other, image)
    assert numbers(reconcile(with_volume, volumes(disk(state=None)), "20T10:10:00")) == (0, 0, 0)


# What a listing cannot say


def test_an_unknown_answer_never_closes_and_never_changes(with_volume: Connection) -> None:
    """A cell is down: nova answers UNKNOWN, with flavor and image null."""
    report = reconcile(with_volume, volumes(Unknown("v-1"), Unknown("v-2")), "20T10:10:00")
    assert (report.status, numbers(report), report.total("unknown")) == ("completed", (0, 0, 0), 2)
    assert stored(with_volume) == ["c"]


@pytest.mark.parametrize(
    "platform",
    [
        volumes(Gap("page 2 answered 503")),
        volumes(Gap("")),
        volumes(failures={"volume": RuntimeError("page 2 answered 503")}),
        volumes(Listed("")),
        volumes(disk("v-9\x00")),
        volumes(disk("v-9", size={"size_gb": 1.5})),
        volumes(disk("v-9", created_at=datetime(2026, 3, 1))),  # noqa: DTZ001
    ],
)
def test_a_listing_that_is_not_complete_never_closes(with_volume: Connection, platform: Platform) -> None:
    """A page failed, or an answer cannot be read: what is missing may be in it."""
    report = reconcile(with_volume, platform, "20T10:10:00")
    assert (report.status, numbers(report)) == ("incomplete", (0, 0, 0))
    assert report.errors[0].startswith("volume: the listing is not complete: ")
    assert stored(with_volume) == ["c"]


def test_what_an_incomplete_listing_does_say_is_written(with_volume: Connection) -> None:
    """Only absence means nothing: what is listed is there, and what is listed as deleted is gone."""
    send(with_volume, volume("d", "01T00:00:00", CREATE, 10, resource_id="v-2"))
    gone = disk("v-2", deleted_at=at("05T00:00:00"))
    platform = volumes(disk("v-3"), Gap("project p-9 answered 503"), disk(size_gb=20), gone)
    report = reconcile(with_volume, platform, "20T10:10:00")
    assert (report.status, numbers(report)) == ("incomplete", (1, 1, 1))


def test_a_type_that_fails_never_stops_the_others(with_volume: Connection) -> None:
    """Whatever an adapter raises."""
    platform = Platform({"volume": []}, failures={"image": KeyError("links"), "instance": RecursionError()})
    report = reconcile(with_volume, platform, "20T10:10:00")
    assert [(row.resource_type, row.status) for row in report.listings] == [
        ("volume", "compared"), ("image", "incomplete"), ("instance", "incomplete")
    ]  # fmt: skip
    assert (report.status, numbers(report)) == ("incomplete", (0, 0, 1))


def test_a_resource_without_a_project_is_a_dead_letter_until_its_project_is_known(with_volume: Connection) -> None:
    """Nobody knows whom to bill: it is not lost, and not billed to a name that was made up."""
    report = reconcile(with_volume, volumes(disk(state=None), disk("v-2", project_id=None)), "20T10:10:00")
    assert (report.total("rejected"), numbers(report)) == (1, (0, 0, 0))
    assert [reason for _, _, reason in dead_letters(with_volume)] == ["unknown_project"]
    reconcile(with_volume, volumes(disk(state=None), disk("v-2", created_at=at("19T00:00:00"))), "20T10:20:00")
    assert current(with_volume, "v-2")["created_at"] == at("19T00:00:00")


def test_a_type_that_is_not_registered_becomes_one_dead_letter(with_volume: Connection) -> None:
    """The same validation as for the events of collectors."""
    platform = Platform({"share": [Listed("s-1", "p-1", "available", {"size_gb": 1})]})
    for when in ("20T10:10:00", "20T10:20:00"):
        assert reconcile(with_volume, platform, when).total("rejected") == 1
    assert [reason for _, _, reason in dead_letters(with_volume)] == ["unknown_resource_type"]


def test_a_resource_that_is_listed_twice_is_one(with_volume: Connection) -> None:
    """It moved from one page to the next: the later answer holds."""
    platform = volumes(disk(size_gb=20), disk("v-2"), disk("v-2", 30), disk(size_gb=40))
    report = reconcile(with_volume, platform, "20T10:10:00")
    assert numbers(report) == (1, 1, 0)
    assert [current(with_volume, name)["size"] for name in ("v-1", "v-2")] == [{"size_gb": 40}, {"size_gb": 30}]


# Instants


def test_resources_with_newer_events_wait_for_the_next_sync(with_volume: Connection) -> None:
    """Rule 9: the listing may have seen them before or after."""
    send(with_volume, volume("r", "20T10:10:00", RESIZE, 20), volume("d", "20T10:10:30", CREATE, 10, resource_id="v-2"))
    first = reconcile(with_volume, volumes(disk()), "20T10:10:00")
    assert (numbers(first), first.total("skipped")) == ((0, 0, 0), 2)
    second = reconcile(with_volume, volumes(disk()), "20T10:20:00")
    assert (numbers(second), second.total("skipped")) == ((0, 1, 1), 0)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("19T00:00:00", "19T00:00:00"),          # its own
        ("20T10:12:00", "20T10:12:00"),          # within the skew that is tolerated
        ("20T11:00:00", "20T10:10:00"),          # in the future: the start of the listing
        ("05T00:00:00", "20T10:10:00"),          # that of the last event: it tells of another change
        ("02T00:00:00", "20T10:10:00"),          # before it: likewise
    ],
)  # fmt: skip
def test_an_update_carries_the_instant_of_the_change(with_volume: Connection, told: str, expected: str) -> None:
    """The platform's own if it can be that of the change, else the start of the listing."""
    send(with_volume, event("attach", "05T00:00:00", "volume.attach.end"))
    reconcile(with_volume, volumes(disk(state=None, size_gb=20, updated_at=at(told))), "20T10:10:00")
    assert synthetic(with_volume) == [("v-1", "reconcile.update", at(expected))]
    assert current(with_volume)["size"] == {"size_gb": 20}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("19T00:00:00", "19T00:00:00"),
        ("20T11:00:00", "20T10:10:00"),          # in the future
        ("02T00:00:00", "05T00:00:00.000001"),   # before a sign of life, which would make it void
    ],
)  # fmt: skip
def test_a_delete_comes_after_the_last_sign_of_life(with_volume: Connection, told: str, expected: str) -> None:
    """What the platform says is deleted ends at its instant, or as soon as its events allow; and once."""
    send(with_volume, event("attach", "05T00:00:00", "volume.attach.end"))
    for when in ("20T10:10:00", "20T10:20:00"):
        reconcile(with_volume, volumes(disk(deleted_at=at(told))), when)
    assert synthetic(with_volume) == [("v-1", "reconcile.delete", at(expected))]
    assert current(with_volume)["deleted_at"] == at(expected)


def test_an_instant_that_was_never_set_is_none(with_volume: Connection) -> None:
    """The year 1 is Go's zero, 1970 is C's."""
    zero = at("01T00:00:00").replace(year=1970)
    reconcile(with_volume, volumes(disk(state=None), disk("v-2", created_at=zero)), "20T10:10:00")
    assert current(with_volume, "v-2")["created_at"] == at("20T10:10:00")


def test_a_resource_that_came_and_went_between_two_syncs_is_told_by_a_listing_of_the_deleted(
    with_volume: Connection,
) -> None:
    """Its events were lost, its platform still knows; what was deleted before the first sync is no business of ours."""
    old = disk("old", created_at=at("02T00:00:00"), deleted_at=at("03T00:00:00"))
    short = disk("short", created_at=at("20T10:12:00"), deleted_at=at("20T10:15:00"))
    assert numbers(reconcile(with_volume, volumes(disk(state=None), old), "20T10:10:00")) == (0, 0, 0)
    assert numbers(reconcile(with_volume, volumes(disk(state=None), old, short), "20T10:20:00")) == (1, 0, 1)
    assert synthetic(with_volume) == [
        ("short", "reconcile.create", at("20T10:12:00")),
        ("short", "reconcile.delete", at("20T10:15:00")),
    ]
    assert numbers(reconcile(with_volume, volumes(disk(state=None), old, short), "20T10:30:00")) == (0, 0, 0)


def test_no_end_is_written_for_a_life_that_is_rejected(with_volume: Connection) -> None:
    """Otherwise the delete would be one without a life."""
    reconcile(with_volume, volumes(disk(state=None)), "20T10:10:00")
    bad = disk("v-2", size={}, created_at=at("20T10:12:00"), deleted_at=at("20T10:15:00"))
    report = reconcile(with_volume, volumes(disk(state=None), bad), "20T10:20:00")
    assert (numbers(report), report.total("rejected")) == ((0, 0, 0), 1)


def test_s18_a_stop_without_a_start_is_completed_by_the_platform(reporting: Connection) -> None:
    """S18: only the delete arrived; the listing of the deleted says when the resource was created."""
    send(reporting, event("d", "05T00:00:00", DELETE))
    gone = disk(created_at=at("02T00:00:00"), deleted_at=at("05T00:00:00"))
    for when in ("20T10:10:00", "20T10:20:00"):
        reconcile(reporting, volumes(gone), when)
    row = current(reporting)
    assert (row["created_at"], row["deleted_at"]) == (at("02T00:00:00"), at("05T00:00:00"))
    assert len(synthetic(reporting)) == 1


# What comes back


def test_a_resource_that_was_made_again_begins_a_second_life_at_once(with_volume: Connection) -> None:
    """A Harbor repository has its name for an id."""
    send(with_volume, event("d", "20T10:05:00", DELETE))
    reconcile(with_volume, volumes(disk(created_at=at("20T10:07:00"))), "20T10:10:00")
    assert (current(with_volume)["created_at"], current(with_volume)["state"]) == (at("20T10:07:00"), "available")


def test_what_was_just_deleted_may_be_listed_for_a_while(with_volume: Connection) -> None:
    """Hetzner answers `running` for a server that is being deleted: only one that stays is there again."""
    send(with_volume, event("d", "20T10:05:00", DELETE))
    listed = volumes(disk(created_at=at("01T00:00:00")))
    first = reconcile(with_volume, listed, "20T10:10:00")
    assert (numbers(first), first.total("skipped")) == ((0, 0, 0), 1)
    assert numbers(reconcile(with_volume, listed, "20T10:20:00")) == (1, 0, 0)
    assert current(with_volume)["created_at"] == at("20T10:20:00")


def test_what_a_listing_has_closed_the_next_one_opens(with_volume: Connection) -> None:
    """A platform that loses a resource and finds it again costs the time between two syncs, and no more."""
    reconcile(with_volume, volumes(), "20T10:10:00")
    assert numbers(reconcile(with_volume, volumes(disk()), "20T10:15:00")) == (1, 0, 0)
    assert numbers(reconcile(with_volume, volumes(disk()), "20T10:20:00")) == (0, 0, 0)


# The scenarios


def test_s12_a_flavor_that_was_deleted_is_told_by_the_listing(with_volume: Connection) -> None:
    """S12: the create event names a flavor only; the listing embeds what it was: the server is not lost."""
    create = "compute.instance.create.end"
    sent = event("c", "01T00:00:00", create, "i-1", resource_type="instance", payload={"size": {"flavor": "gone"}})
    assert statuses(send(with_volume, sent)) == ["invalid_size"]
    server = Listed("i-1", "p-1", "active", LARGE | {"flavor": "gone"}, created_at=at("01T00:00:00"))
    without = Listed("i-2", "p-1", "active", {"flavor": "gone"})
    report = reconcile(with_volume, Platform({"instance": [server, without]}), "01T00:10:00")
    assert (numbers(report), report.total("rejected")) == ((1, 0, 0), 1)
    row = current(with_volume, "i-1")
    assert (row["created_at"], row["size"]) == (at("01T00:00:00"), LARGE | {"flavor": "gone"})
    assert [reason for _, _, reason in dead_letters(with_volume)] == ["invalid_size"] * 2


def test_s13_an_address_in_error_is_kept(with_volume: Connection) -> None:
    """S13: state ERROR, then none at all: metered as error, and a new one as unknown."""
    failed, silent = Listed("ip-1", "p-1", "ERROR", {}), Listed("ip-2", "p-1", None, {})
    reconcile(with_volume, Platform({"floating_ip": [failed, silent]}), "20T10:10:00")
    assert [current(with_volume, name)["state"] for name in ("ip-1", "ip-2")] == ["error", "unknown"]
    report = reconcile(with_volume, Platform({"floating_ip": [Listed("ip-1", "p-1"), silent]}), "20T10:20:00")
    assert numbers(report) == (0, 0, 0)
    assert current(with_volume, "ip-1")["state"] == "error"


def test_s16_a_lost_delete_that_turns_up_ends_the_resource_once(with_volume: Connection) -> None:
    """S16: absent at 10:10, the delete of 10:02 arrives at 10:30: one end, at 10:02."""
    reconcile(with_volume, volumes(), "20T10:10:00")
    assert current(with_volume)["deleted_at"] == at("20T10:10:00")
    assert statuses(send(with_volume, event("d", "20T10:02:00", DELETE))) == ["accepted"]
    assert current(with_volume)["deleted_at"] == at("20T10:02:00")
    assert numbers(reconcile(with_volume, volumes(), "20T10:40:00")) == (0, 0, 0)
    assert current(with_volume)["deleted_at"] == at("20T10:02:00")


def test_s17_two_syncs_that_see_the_same_resource_create_it_once(with_volume: Connection, reporting_url: str) -> None:
    """S17: at 10:00 and at 10:10, both compare before the projection knows: one create, and no conflict."""
    seen = volumes(disk(state=None), disk("new"))
    with connected(reporting_url) as other:
        (early,) = take(with_volume, CLOUD, seen, clock=lambda: at("20T10:00:00"), previous={})
        (late,) = take(other, CLOUD, seen, clock=lambda: at("20T10:10:00"), previous={})
        how: dict[str, Any] = {"clock": lambda: NOW, "clock_skew": timedelta(0), "actor": "test"}
        written = [
            Differences(session, "openstack", CLOUD, **how).write(taken)
            for session, taken in ((with_volume, early), (other, late))
        ]
    assert [counts["created"] for counts, _ in written] == [1, 0]
    assert synthetic(with_volume) == [("new", "reconcile.create", at("20T10:00:00"))]
    assert dead_letters(with_volume) == []


def test_s17_an_observation_that_comes_twice_is_a_duplicate_whatever_its_instant(with_volume: Connection) -> None:
    """S17: also where nothing but the id tells that it is the same."""
    seen = Listing(at("20T10:00:00"), NOW), Listing(at("20T10:10:00"), NOW)
    sent = []
    for listing in seen:
        (change,) = judge(disk("new"), None, listing).changes
        fields = {"event_id": change.event_id((CLOUD, "volume", "new")), "source": "reconciliation"}
        sent.append(
            event("", "20T00:00:00", change.event_type, "new", payload=change.payload)
            | fields
            | {"timestamp": format_instant(change.timestamp)}
        )
    assert statuses(send(with_volume, *sent)) == ["accepted", "deduplicated"]
    assert synthetic(with_volume) == [("new", "reconcile.create", at("20T10:00:00"))]


def test_s32_the_platform_knows_better_what_is_stored(with_volume: Connection) -> None:
    """S32: pushes added 15 GB, the garbage collection took 5 and told nobody: the listing wins from now on."""
    send(with_volume, volume("push", "10T00:00:00", RESIZE, 25))
    report = reconcile(with_volume, volumes(disk(state=None, size_gb=20)), "20T10:10:00")
    assert numbers(report) == (0, 1, 0)
    assert synthetic(with_volume) == [("v-1", "reconcile.update", at("20T10:10:00"))]
    assert current(with_volume)["size"] == {"size_gb": 20}


# The guard


def test_a_sync_that_would_close_too_much_writes_nothing(reporting: Connection) -> None:
    """A wrong credential lists another tenant: what it says of the others is no better."""
    listed = many(reporting, 40)
    platform = volumes(*listed[:20], disk("foreign"), disk("000", 99))
    report = reconcile(reporting, platform, "20T10:10:00")
    assert (report.status, numbers(report), report.total("withheld")) == ("guarded", (0, 0, 0), 20)
    assert "would close too much, here 20 of 40" in report.errors[0]
    assert synthetic(reporting) == []


def test_an_operator_can_accept_the_deletions(reporting: Connection) -> None:
    """They are really gone: who said so is in the audit log."""
    listed = many(reporting, 40)
    report = reconcile(reporting, volumes(*listed[:20]), "20T10:10:00", accept_deletions=True, actor="alice")
    assert (report.status, numbers(report)) == ("completed", (0, 0, 20))
    audited = reporting.execute(
        "select actor, subject, detail -> 'closing' ->> 'volume' from reporting.audit_log"
        " where action = 'sync.accept_deletions'"
    ).fetchall()
    assert audited == [("alice", CLOUD, "20")]


def test_the_share_is_a_setting_and_ten_may_always_go(reporting: Connection) -> None:
    """11 of 40 are more than 25 %, 10 of 40 are not more than any."""
    listed = many(reporting, 40)
    assert reconcile(reporting, volumes(*listed[11:]), "20T10:10:00", max_deleted_percent=25).status == "guarded"
    report = reconcile(reporting, volumes(*listed[11:]), "20T10:20:00", max_deleted_percent=28)
    assert (report.status, numbers(report)) == ("completed", (0, 0, 11))
    report = reconcile(reporting, volumes(*listed[21:]), "20T10:30:00", max_deleted_percent=0)
    assert (report.status, numbers(report)) == ("completed", (0, 0, 10))


def test_a_type_that_vanishes_is_stopped_and_the_others_are_not(reporting: Connection) -> None:
    """Of a large cloud, all images are a small share: an empty answer of one service still closes none of them."""
    disks, images = many(reporting, 200), many(reporting, 15, "image")
    report = reconcile(reporting, Platform({"image": [], "volume": disks[1:]}), "20T10:10:00")
    assert [(row.resource_type, row.status, row.deleted, row.withheld) for row in report.listings] == [
        ("image", "guarded", 0, 15), ("volume", "compared", 1, 0)
    ]  # fmt: skip
    assert len(images) == 15


def test_what_waits_or_is_not_complete_is_no_deletion(reporting: Connection) -> None:
    """Only what would be written counts for the guard."""
    many(reporting, 40)
    assert reconcile(reporting, volumes(Gap("503")), "20T10:10:00").status == "incomplete"
    assert reconcile(reporting, volumes(), "01T00:00:00").total("skipped") == 40


# What is remembered


def test_who_asks_is_told_when_a_cloud_was_last_reconciled(with_volume: Connection) -> None:
    """Readiness and completeness ask for the last sync, the last good one, and what it knew."""
    (never,) = last_syncs(with_volume)
    assert (never.cloud, never.platform, never.status, never.completed_at) == (CLOUD, "openstack", None, None)
    assert last_listings(with_volume) == []
    reconcile(with_volume, volumes(disk(state=None), disk("v-2")), "20T10:10:00")
    reconcile(with_volume, volumes(Gap("503")), "20T10:20:00")
    (last,) = last_syncs(with_volume)
    assert (last.status, last.started_at, last.completed_at) == ("incomplete", at("20T10:20:00"), at("20T10:10:00"))
    assert last.errors == ["volume: the listing is not complete: 503"]
    (listing,) = last_listings(with_volume)
    assert listing == (CLOUD, "volume", at("20T10:10:00"), 2)


def test_a_sync_that_was_killed_is_broken_off_by_the_next(with_volume: Connection) -> None:
    """Its row still says that it runs."""
    syncs_store.begin(with_volume, CLOUD, "test", at("20T10:00:00"), accept_deletions=False)
    reconcile(with_volume, volumes(disk(state=None)), "20T10:10:00")
    rows = with_volume.execute("select status, finished_at from reporting.syncs order by id").fetchall()
    assert rows == [("broken_off", at("20T10:10:00")), ("completed", at("20T10:10:00"))]


def test_a_sync_that_fails_says_why(with_volume: Connection) -> None:
    """A fault of our own is no gap of the listing: the sync has failed, and the next one may run."""
    broken = volumes(disk(), meanwhile=lambda: None)
    broken.answers = None  # type: ignore[assignment]
    with pytest.raises(TypeError):
        reconcile(with_volume, broken, "20T10:10:00")
    (last,) = last_syncs(with_volume)
    assert (last.status, len(last.errors)) == ("failed", 1)
    assert reconcile(with_volume, volumes(disk(state=None)), "20T10:20:00").status == "completed"


def test_what_a_finished_sync_said_is_not_rewritten(with_volume: Connection) -> None:
    """The database refuses it."""
    reconcile(with_volume, volumes(disk(state=None)), "20T10:10:00")
    for statement in ("update reporting.syncs set status = 'failed'", "update reporting.sync_listings set listed = 9"):
        with pytest.raises(Exception, match="append-only"):
            with_volume.execute(statement.encode())


def test_one_sync_of_a_cloud_runs_at_a_time(with_volume: Connection, reporting_url: str) -> None:
    """The second one is refused; when the first ends, however it ends, the next may run."""
    refused: list[str] = []

    def second() -> None:
        with connected(reporting_url) as other:
            try:
                reconcile(other, volumes(), "20T10:10:00")
            except Refused as error:
                refused.append(str(error))

    reconcile(with_volume, volumes(disk(state=None), meanwhile=second), "20T10:10:00")
    assert refused == [f"sync of {CLOUD}: another one is running; wait for its end"]
    with connected(reporting_url) as other:
        assert reconcile(other, volumes(disk(state=None)), "20T10:20:00").status == "completed"


def test_a_cloud_that_nobody_knows_is_not_found(reporting: Connection) -> None:
    """A misspelt name is no new cloud."""
    with pytest.raises(NotFound, match="'os-prod-eu1' is not registered"):
        reconcile(reporting, volumes(disk()), "20T10:10:00")
