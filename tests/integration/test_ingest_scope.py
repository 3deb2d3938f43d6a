"""Senders that are bound to one cloud: they write under its name alone, and what they try is audited."""

from typing import Any

import pytest

from tally.domain.event import MAX_KEPT_BYTES, decode_event, split_batch
from tally.domain.principal import Scope
from tally.services.ingest import MAX_AUDITED_NAMES, MAX_AUDITED_TEXT, Ingest, InvalidInputEvent, Outcome
from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.sending import CLOUD, CREATE, count, dead_letters, door, event, raw, send, statuses, stored

SCOPE = Scope("openstack", CLOUD)
OURS = event("ours", "01T00:00:00", CREATE)
THEIRS = event("theirs", "01T00:00:00", CREATE, cloud="os-other")


def send_scoped(reporting: Connection, *sent: dict[str, Any] | bytes) -> list[Outcome]:
    """Send one batch on behalf of a sender that is bound to our cloud."""
    return door(reporting, scope=SCOPE).ingest([each if isinstance(each, bytes) else raw(each) for each in sent])


def audited(reporting: Connection) -> list[tuple[str, dict[str, Any]]]:
    """(actor, detail) of every refusal."""
    return reporting.execute(
        "select actor, detail from reporting.audit_log where action = 'events.refuse' order by id"
    ).fetchall()


def test_an_event_of_another_cloud_is_refused_and_audited(reporting: Connection) -> None:
    """Neither stored nor a dead letter, nor is its cloud registered: the sender keeps it. Its neighbours are taken."""
    outcomes = send_scoped(reporting, THEIRS, OURS)
    assert statuses(outcomes) == ["forbidden", "accepted"]
    assert outcomes[0].event is None
    assert outcomes[0].event_id == "theirs"
    assert (stored(reporting), dead_letters(reporting)) == (["ours"], [])
    assert reporting.execute("select cloud from reporting.clouds").fetchall() == [(CLOUD,)]
    assert audited(reporting) == [
        (
            "test",
            {
                "scope": {"platform": "openstack", "cloud": CLOUD},
                "refused": 1,
                "synthetic": 0,
                "installations": {"openstack/os-other": 1},
                "event_ids": ["theirs"],
            },
        )
    ]


def test_a_stored_event_of_another_cloud_is_forbidden_too(reporting: Connection) -> None:
    """A sender does not learn what another cloud has sent."""
    send(reporting, THEIRS)
    assert statuses(send_scoped(reporting, THEIRS)) == ["forbidden"]


def test_an_event_of_another_platform_is_forbidden(reporting: Connection) -> None:
    """The scope is the pair, whatever the registry of clouds says."""
    define_type(reporting, "elsewhere", "volume", {"lifecycle": {CREATE: "create"}}, "test")
    assert statuses(send_scoped(reporting, OURS | {"platform": "elsewhere"})) == ["forbidden"]
    assert count(reporting, "clouds") == 0


def test_a_collector_cannot_pass_for_reconciliation(reporting: Connection) -> None:
    """Rule 9: a synthetic event is void beside a collector's; who is bound to no cloud may bring one."""
    forged = OURS | {"source": "reconciliation"}
    twice = [forged, forged | {"event_id": "unknown", "event_type": "unheard.of"}]
    assert statuses(send_scoped(reporting, *twice, OURS)) == ["forbidden", "forbidden", "accepted"]
    assert dead_letters(reporting) == []
    ((_, detail),) = audited(reporting)
    assert (detail["refused"], detail["synthetic"]) == (2, 2)
    assert statuses(send(reporting, forged | {"event_id": "told"})) == ["accepted"]


@pytest.mark.parametrize(
    "unreadable",
    [b"{", b"[]", b"\xff", b"{}", b'{"cloud": 5}', b'{"cloud": ""}', raw({"cloud": CLOUD, "platform": "other"})],
)
def test_what_cannot_be_read_is_a_dead_letter_of_the_sender(reporting: Connection, unreadable: bytes) -> None:
    """It is found under the scope, also where it claims nothing."""
    assert send_scoped(reporting, unreadable)[0].status == "rejected"
    kept = reporting.execute("select platform, cloud, raw from reporting.rejected_events").fetchall()
    assert kept == [(*SCOPE, unreadable)]


@pytest.mark.parametrize("cloud", ["os-other", "x" * 1000, "\0", "\ud800", CLOUD + " "])
def test_what_cannot_be_read_and_claims_another_cloud_is_forbidden(reporting: Connection, cloud: str) -> None:
    """Not even a dead letter is written under another name, however odd."""
    assert statuses(send_scoped(reporting, {"cloud": cloud, "event_id": "e"})) == ["forbidden"]
    assert dead_letters(reporting) == []
    ((_, detail),) = audited(reporting)
    assert detail["event_ids"] == ["e"]


def test_what_a_mapper_made_is_bound_likewise(reporting: Connection) -> None:
    """Mapped events, those that cannot be written, and what could not be mapped."""
    ours, theirs = decode_event(raw(OURS)), decode_event(raw(THEIRS))
    floating = type(ours)(*(getattr(theirs, name) for name in theirs.__slots__[:-1]), {"a": 0.5})
    outcomes = door(reporting, scope=SCOPE).ingest_events(
        [
            ours,
            theirs,
            floating,
            InvalidInputEvent(b"1", "invalid_notification", "no", cloud="os-other"),
            InvalidInputEvent(b"2", "invalid_notification", "no"),
        ]
    )
    assert statuses(outcomes) == ["accepted", "forbidden", "forbidden", "forbidden", "invalid_notification"]
    assert dead_letters(reporting) == [(CLOUD, "", "invalid_notification")]


def test_the_audit_of_refusals_is_bounded(reporting: Connection) -> None:
    """One row a batch, with the first few ids and the most frequent names, cut: a sender cannot fill the log."""
    batch = [
        THEIRS | {"cloud": f"{number % 50}" + "c" * 400, "event_id": f"{number}" + "e" * 400} for number in range(300)
    ]
    send_scoped(reporting, *batch)
    ((_, detail),) = audited(reporting)
    assert detail["refused"] == 300
    assert len(detail["installations"]) == len(detail["event_ids"]) == MAX_AUDITED_NAMES
    assert all(len(text) == MAX_AUDITED_TEXT for text in (*detail["installations"], *detail["event_ids"]))


def test_without_refusals_nothing_is_audited_as_such(reporting: Connection) -> None:
    """A row tells that something was tried."""
    send_scoped(reporting, OURS, b"{")
    assert audited(reporting) == []


# What the API builds on: bodies split beforehand, doors for each request, outcomes with their events.


def test_elements_of_a_batch_are_what_their_bytes_are(reporting: Connection) -> None:
    """One body, split once: accepted, a twin, a fault that only decoding sees, and one of the rules."""
    body = b'[%s, %s, {"a": 1, "a": 2}, %s]' % (raw(OURS), raw(OURS), raw(OURS | {"event_type": "unheard.of"}))
    elements = split_batch(body, limit=10).elements
    outcomes = door(reporting).ingest(elements)
    assert statuses(outcomes) == ["accepted", "deduplicated", "invalid_json", "unknown_event_type"]
    assert {row[0] for row in reporting.execute("select raw from reporting.rejected_events")} == {
        element.raw for element in elements[2:]
    }


def test_an_outcome_tells_the_event(reporting: Connection) -> None:
    """Metrics and lateness need its cloud and its instant, also of what is rejected; what is no event has none."""
    unknown = OURS | {"event_id": "unknown", "event_type": "unheard.of"}
    other = OURS | {"project_id": "other"}
    told = [outcome.event for outcome in send(reporting, OURS, OURS, other, unknown, b"{")]
    assert told == [decode_event(raw(each)) for each in (OURS, OURS, other, unknown)] + [None]


def test_what_is_too_long_to_be_kept_stays_with_its_sender(reporting: Connection) -> None:
    """Its neighbours are taken, and it is counted."""
    giant = b'"' + b"x" * MAX_KEPT_BYTES + b'"'
    outcomes = door(reporting).ingest([giant, raw(OURS), giant[:-9] + b'"'])
    assert statuses(outcomes) == ["too_large", "accepted", "too_large"]
    assert "not kept" in outcomes[0].detail
    assert count(reporting, "rejected_events") == 1


def test_a_door_for_each_request_sees_what_changed(reporting: Connection) -> None:
    """What a connection remembers of the registry follows its version, also between two doors."""
    sent = OURS | {"resource_type": "share"}
    assert statuses(send(reporting, sent)) == ["unknown_resource_type"]
    define_type(reporting, "openstack", "share", {"lifecycle": {CREATE: "create"}}, "test")
    assert statuses(send(reporting, sent)) == ["accepted"]


def test_doors_of_one_connection_may_have_different_senders(reporting: Connection) -> None:
    """What is remembered belongs to the database; the scope and the actor to the door."""
    first, second = door(reporting, scope=SCOPE), door(reporting, scope=Scope("openstack", "os-other"))
    batch = [raw(OURS), raw(THEIRS)]
    assert statuses(first.ingest(batch)) == ["accepted", "forbidden"]
    assert statuses(second.ingest(batch)) == ["forbidden", "accepted"]
    assert isinstance(second, Ingest)
