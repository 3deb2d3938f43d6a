"""The ingest service on a real database: identity, dead letters, clouds, clocks (rules 1 to 7)."""

import json
from decimal import Decimal
from itertools import permutations
from typing import Any

import psycopg
import pytest

from tally.domain.errors import Unavailable
from tally.domain.event import MAX_EVENT_BYTES, decode_event
from tally.services.ingest import EVENTS_PER_TRANSACTION, InvalidInputEvent
from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.sending import (
    CLOUD,
    CREATE,
    DELETE,
    LARGE,
    RESIZE,
    at,
    count,
    current,
    dead_letters,
    door,
    event,
    projection,
    raw,
    send,
    statuses,
    stored,
    volume,
)

# Identity: rule 1.


def test_s03_a_batch_with_duplicates_is_taken_in_part(reporting: Connection) -> None:
    """S03: of five events two are stored, one is a twin, two are new: 2 accepted, 3 deduplicated, all projected."""
    send(reporting, volume("1", "01T00:00:00", CREATE, 10), volume("2", "02T00:00:00", RESIZE, 20))
    batch = [
        volume("1", "01T00:00:00", CREATE, 10),
        volume("3", "03T00:00:00", RESIZE, 30),
        volume("2", "02T00:00:00", RESIZE, 20),
        volume("3", "03T00:00:00", RESIZE, 30),
        volume("4", "04T00:00:00", RESIZE, 40),
    ]
    assert statuses(send(reporting, *batch)) == ["deduplicated", "accepted", "deduplicated", "deduplicated", "accepted"]
    assert statuses(send(reporting, *batch)) == ["deduplicated"] * 5
    assert stored(reporting) == ["1", "2", "3", "4"]
    assert current(reporting)["size"] == {"size_gb": 40}
    assert dead_letters(reporting) == []


def test_s04_one_event_id_from_two_clouds_is_two_events(reporting: Connection) -> None:
    """S04, rule 1: the identity is (cloud, event_id)."""
    main = event("12345", "01T00:00:00", CREATE, cloud="os-main")
    test = event("12345", "01T00:00:00", CREATE, cloud="os-test")
    assert statuses(send(reporting, main, test)) == ["accepted", "accepted"]
    assert count(reporting, "current_resources") == 2


def test_s04_one_event_id_for_two_resource_types_is_a_conflict(reporting: Connection) -> None:
    """S04: an id names one event of its cloud, whatever it is about."""
    send(reporting, event("12345", "01T00:00:00", CREATE))
    other = event("12345", "01T00:00:00", "floatingip.create.end", resource_type="floating_ip")
    assert statuses(send(reporting, other)) == ["event_id_conflict"]


def test_s05_an_event_id_with_other_content_is_never_stored_twice(reporting: Connection) -> None:
    """S05: X at 10:00 resizes to 200 GB, then X at 10:05 likewise: the second is a dead letter."""
    send(reporting, volume("0", "01T00:00:00", CREATE, 100), volume("X", "05T10:00:00", RESIZE, 200))
    assert statuses(send(reporting, volume("X", "05T10:05:00", RESIZE, 200))) == ["event_id_conflict"]
    assert stored(reporting) == ["0", "X"]
    assert dead_letters(reporting) == [(CLOUD, "X", "event_id_conflict")]


@pytest.mark.parametrize(
    "change",
    [
        {"timestamp": "2026-03-01T00:00:00.000001Z"},
        {"event_type": RESIZE},
        {"resource_id": "v-2"},
        {"project_id": "p-2"},
        {"source": "reconciliation"},
        {"payload": {"size": {"size_gb": 11}}},
        {"payload": {"size": {"size_gb": 10}, "note": None}},
    ],
)
def test_rule_1_any_field_that_differs_is_a_conflict(reporting: Connection, change: dict[str, Any]) -> None:
    """Rule 1: whichever field it is, in one batch or in two."""
    first = volume("X", "01T00:00:00", CREATE, 10)
    assert statuses(send(reporting, first, first | change)) == ["accepted", "event_id_conflict"]
    assert statuses(send(reporting, first | change, first)) == ["event_id_conflict", "deduplicated"]
    assert stored(reporting) == ["X"]
    assert count(reporting, "rejected_events") == 1


def test_rule_1_the_same_by_value_is_a_duplicate(reporting: Connection) -> None:
    """Rule 1: instants and numbers are compared by value."""
    first = event("X", "01T00:00:00", "image.update", resource_type="image", payload={"size": {"size_gb": 1}})
    again = first | {"timestamp": "2026-03-01T01:00:00.000+01:00", "payload": {"size": {"size_gb": Decimal("1.0")}}}
    assert statuses(send(reporting, first)) == ["accepted"]
    assert statuses(send(reporting, again)) == ["deduplicated"]


def test_rule_1_a_cloud_belongs_to_one_platform(reporting: Connection) -> None:
    """Rule 1: the first accepted event registers its cloud; who says otherwise is rejected, in the batch and later."""
    define_type(reporting, "elsewhere", "volume", {"lifecycle": {CREATE: "create"}}, "test")
    ours = event("1", "01T00:00:00", CREATE)
    theirs = event("2", "01T00:00:00", CREATE, platform="elsewhere")
    unknown = event("0", "01T00:00:00", CREATE, platform="nowhere")
    assert statuses(send(reporting, unknown, ours, theirs)) == [
        "unknown_resource_type",
        "accepted",
        "platform_mismatch",
    ]
    assert statuses(send(reporting, theirs)) == ["platform_mismatch"]
    assert reporting.execute("select cloud, platform from reporting.clouds").fetchall() == [(CLOUD, "openstack")]


def test_rule_1_a_stored_event_stays_a_duplicate_when_the_rules_change(reporting: Connection) -> None:
    """Rule 1: what was taken once is no news, even if it would be refused now."""
    old = {"lifecycle": {"a": "create"}}
    define_type(reporting, "test", "thing", old, "test")
    sent = event("1", "01T00:00:00", "a", platform="test", cloud="t", resource_type="thing")
    send(reporting, sent)
    define_type(reporting, "test", "thing", {"lifecycle": {"b": "create"}}, "test", accept_invalidation="renamed")
    assert statuses(send(reporting, sent)) == ["deduplicated"]
    assert dead_letters(reporting) == []


# Order and age: S01, S06, S10, S11, S18.


def test_s01_late_data_do_not_undelete(reporting: Connection) -> None:
    """S01: created 06:04:28, deleted 06:04:56, an event stamped 06:04:40 received later: it stays deleted."""
    send(reporting, volume("1", "05T06:04:28", CREATE, 10), event("2", "05T06:04:56", DELETE))
    assert statuses(send(reporting, volume("3", "05T06:04:40", RESIZE, 20))) == ["accepted"]
    row = current(reporting)
    assert (row["state"], row["deleted_at"], row["size"]) == ("deleted", at("05T06:04:56"), {"size_gb": 20})
    send(reporting, volume("4", "05T07:00:00", RESIZE, 30))
    assert current(reporting)["deleted_at"] == at("05T06:04:56")


def test_s06_every_order_of_arrival_gives_the_same_row(reporting: Connection) -> None:
    """S06: the 5th, the 8th, then the 7th, one by one and as one batch, in all permutations."""
    history = [
        volume("a", "05T00:00:00", CREATE, 1),
        volume("b", "08T00:00:00", RESIZE, 3),
        volume("c", "07T00:00:00", RESIZE, 2),
    ]
    for number, order in enumerate(permutations(history)):
        for sent in order:
            send(reporting, sent | {"cloud": f"single-{number}"})
        send(reporting, *(sent | {"cloud": f"batch-{number}"} for sent in order))
    rows = {row[1:] for row in projection(reporting)}
    assert count(reporting, "current_resources") == 12
    assert len(rows) == 1


def test_s10_the_future_is_refused_beyond_the_skew(reporting: Connection) -> None:
    """S10, rule 3: three minutes ahead is a clock, two days or the year 2206 is an error."""
    stamps = (
        "2026-06-01T00:03:00Z",
        "2026-06-01T00:05:00Z",
        "2026-06-01T00:05:00.000001Z",
        "2026-06-03T00:00:00Z",
        "2206-01-01T00:00:00Z",
    )
    batch = [event(stamp, "01T00:00:00", CREATE, timestamp=stamp) for stamp in stamps]
    assert statuses(send(reporting, *batch)) == ["accepted", "accepted", "clock_skew", "clock_skew", "clock_skew"]
    assert count(reporting, "rejected_events") == 3


def test_s10_a_future_event_can_be_taken_when_its_time_has_come(reporting: Connection) -> None:
    """S10: a dead letter is no verdict for ever."""
    sent = event("1", "01T00:00:00", CREATE, timestamp="2026-06-03T00:00:00Z")
    send(reporting, sent)
    assert statuses(door(reporting, now=at("01T00:00:00").replace(month=7)).ingest([raw(sent)])) == ["accepted"]


@pytest.mark.parametrize("stamp", ["2025-09-01T00:00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_s11_age_alone_rejects_nothing(reporting: Connection, stamp: str) -> None:
    """S11, rule 3: half a year, half a century, two millennia."""
    assert statuses(send(reporting, event("1", "01T00:00:00", CREATE, timestamp=stamp))) == ["accepted"]


def test_s18_a_delete_without_a_history_has_no_life(reporting: Connection) -> None:
    """S18: only a delete on 5 March: accepted, and nothing negative comes of it."""
    assert statuses(send(reporting, event("1", "05T00:00:00", DELETE))) == ["accepted"]
    row = current(reporting)
    assert (row["created_at"], row["deleted_at"], row["state"]) == (None, at("05T00:00:00"), "deleted")


# Meaning: rules 5 and 6.


def test_s02_the_end_of_a_snapshot_is_not_the_end_of_its_volume(reporting: Connection) -> None:
    """S02: event types are matched exactly; what is unknown is a dead letter and never a delete."""
    batch = [
        volume("1", "01T00:00:00", CREATE, 10),
        event("2", "02T00:00:00", "snapshot.create.end", "s-1", resource_type="snapshot", payload={"volume_id": "v-1"}),
        volume("3", "03T00:00:00", CREATE, 10, resource_id="v-2"),
        event("4", "04T00:00:00", "snapshot.delete.end", payload={"volume_id": "v-1"}),
    ]
    assert statuses(send(reporting, *batch)) == ["accepted", "unknown_resource_type", "accepted", "unknown_event_type"]
    assert [current(reporting, volume_id)["deleted_at"] for volume_id in ("v-1", "v-2")] == [None, None]


def test_s12_a_server_with_the_name_of_a_flavor_only_is_not_lost(reporting: Connection) -> None:
    """S12: it is taken with an empty size, which the close reports as missing gauges, until an event tells the size."""
    create = "compute.instance.create.end"
    sent = event("1", "01T00:00:00", create, resource_type="instance", payload={"flavor": "m1.large"})
    assert statuses(send(reporting, sent)) == ["accepted"]
    assert (current(reporting)["size"], current(reporting)["state"]) == ({}, "active")
    half = event(
        "2", "01T00:01:00", "compute.instance.exists", resource_type="instance", payload={"size": {"vcpus": 4}}
    )
    assert statuses(send(reporting, half)) == ["invalid_size"]
    found = event(
        "3",
        "01T00:02:00",
        "reconcile.update",
        resource_type="instance",
        source="reconciliation",
        payload={"size": LARGE},
    )
    assert statuses(send(reporting, found)) == ["accepted"]
    assert (current(reporting)["size"], current(reporting)["has_synthetic"]) == (LARGE, True)


def test_s13_an_address_in_error_is_taken(reporting: Connection) -> None:
    """S13: state ERROR is error, then null says nothing; without any state it is unknown."""
    address = {"resource_type": "floating_ip"}
    failed = event("1", "01T00:00:00", "floatingip.create.end", payload={"state": "ERROR"}, **address)
    silent = event("2", "02T00:00:00", "floatingip.update.end", payload={"state": None}, **address)
    other = event("3", "01T00:00:00", "floatingip.create.end", "v-2", payload={"state": None}, **address)
    assert statuses(send(reporting, failed, silent, other)) == ["accepted"] * 3
    assert [current(reporting, name)["state"] for name in ("v-1", "v-2")] == ["error", "unknown"]


def test_s14_a_status_code_is_no_quantity(reporting: Connection) -> None:
    """S14: what is not size or usage is kept and never counted; count cannot be sent."""
    address = {"resource_type": "floating_ip"}
    sent = event("1", "01T00:00:00", "floatingip.create.end", payload={"volume": 3}, **address)
    counted = event("2", "02T00:00:00", "floatingip.update.end", payload={"usage": {"count": 3}}, **address)
    sized = event("3", "02T00:00:00", "floatingip.update.end", payload={"size": {"count": 3}}, **address)
    assert statuses(send(reporting, sent, counted, sized)) == ["accepted", "invalid_usage", "invalid_size"]
    assert current(reporting)["size"] == {}


def test_s15_the_unit_is_in_the_schema(reporting: Connection) -> None:
    """S15: ram in MB is refused, not taken for GB: 8, not 8192 and not 8.192."""

    def instance(event_id: str, size: dict[str, Any]) -> dict[str, Any]:
        return event(
            event_id, "01T00:00:00", "compute.instance.create.end", resource_type="instance", payload={"size": size}
        )

    labelled = {"vcpus": 4, "ram_mb": 8192, "disk_gb": 80}
    assert statuses(send(reporting, instance("1", labelled), instance("2", LARGE))) == ["invalid_size", "accepted"]
    assert current(reporting)["size"]["ram_gb"] == 8


def test_rule_6_an_unknown_type_can_be_sent_again_after_the_registry_is_mended(reporting: Connection) -> None:
    """Rule 6: a dead letter keeps the bytes that are then taken."""
    sent = event(
        "1", "01T00:00:00", "share.create.end", resource_type="share", payload={"size": {"size_gb": Decimal("0.5")}}
    )
    assert statuses(send(reporting, sent)) == ["unknown_resource_type"]
    define_type(reporting, "openstack", "share", {"lifecycle": {"share.create.end": "create"}}, "test")
    row = reporting.execute("select raw from reporting.rejected_events").fetchone()
    assert row is not None
    assert statuses(send(reporting, row[0])) == ["accepted"]
    assert current(reporting)["size"] == {"size_gb": 0.5}


def test_rule_6_an_ignored_event_is_stored_and_never_folded(reporting: Connection) -> None:
    """Rule 6: effect ignore; its payload is nobody's business."""
    define_type(reporting, "test", "thing", {"lifecycle": {"noise": "ignore"}}, "test")
    sent = event("1", "01T00:00:00", "noise", platform="test", cloud="t", resource_type="thing", payload={"size": 5})
    assert statuses(send(reporting, sent)) == ["accepted"]
    assert (stored(reporting), count(reporting, "current_resources")) == (["1"], 0)


def test_rule_2_and_5_a_payload_is_kept_as_sent(reporting: Connection) -> None:
    """Rule 2: decimals keep their digits; rule 5: the rest of payload is kept."""
    note = {
        "a": Decimal("0.10"),
        "b": Decimal("1E+2"),
        "c": 12345678901234567890,
        "d": ["ü", None, True, "\N{GRINNING FACE}"],
    }
    send(reporting, event("1", "01T00:00:00", CREATE, payload={"note": note}))
    row = reporting.execute("select payload::text from reporting.events").fetchone()
    assert row is not None
    assert json.loads(row[0], parse_float=Decimal) == {"note": note}
    assert '"a": 0.10' in row[0]


# Dead letters: rules 4 and 7.

INVALID = {
    b"": "invalid_json",
    b"{": "invalid_json",
    b"\xff\x00": "invalid_json",
    b"[]": "invalid_event",
    b" " * (MAX_EVENT_BYTES + 1): "too_large",
    raw(event("nul", "01T00:00:00", CREATE, payload={"a": "\0"})): "invalid_event",
    raw(event("nul in id \0", "01T00:00:00", CREATE)): "invalid_event",
    raw(event("half \ud800", "01T00:00:00", CREATE)): "invalid_event",
    raw(event("x" * 600, "01T00:00:00", CREATE)): "invalid_event",
    raw(event("deep", "01T00:00:00", CREATE, payload={"a": json.loads("[" * 40 + "]" * 40)})): "invalid_event",
    raw(event("huge", "01T00:00:00", CREATE)).replace(
        b'"payload": {', b'"payload": {"a": 1e500'
    ): "number_out_of_range",
    raw(event("twice", "01T00:00:00", CREATE)).replace(b'{"event_id"', b'{"cloud": "x", "event_id"'): "invalid_json",
    raw(event("nan", "01T00:00:00", CREATE)).replace(b'"payload": {', b'"payload": {"a": NaN'): "invalid_json",
    raw(event("naive", "01T00:00:00", CREATE, timestamp="2026-03-01T00:00:00")): "invalid_timestamp",
    raw(event("state", "01T00:00:00", CREATE, payload={"state": ""})): "invalid_state",
    raw(volume("size", "01T00:00:00", CREATE, -1)): "invalid_size",
    raw(event("usage", "01T00:00:00", CREATE, payload={"usage": {"size_gb": 1}})): "invalid_usage",
}


def test_rule_4_one_bad_event_never_loses_its_neighbours(reporting: Connection) -> None:
    """Rule 4: every kind of bad event between good ones; the answer tells each by its place."""
    good = [raw(event(f"good {number}", "01T00:00:00", CREATE, f"v-{number}")) for number in range(len(INVALID) + 1)]
    batch = [each for pair in zip(good, INVALID, strict=False) for each in pair] + good[-1:]
    assert statuses(send(reporting, *batch)) == [
        status for reason in INVALID.values() for status in ("accepted", reason)
    ] + ["accepted"]
    assert count(reporting, "current_resources") == len(good)


def test_rule_7_dead_letters_are_kept_as_raw_bytes_once(reporting: Connection) -> None:
    """Rule 7: byte for byte, once per (cloud, event_id, content), however often they come."""
    for _ in range(2):
        send(reporting, *INVALID, *INVALID)
    kept = reporting.execute("select raw, reason from reporting.rejected_events").fetchall()
    assert dict(kept) == INVALID
    assert len(kept) == len(INVALID)


def test_rule_7_a_dead_letter_is_found_by_what_it_claims(reporting: Connection) -> None:
    """Rule 7: as far as the input tells, and it can be stored."""
    send(reporting, *INVALID)
    letters = dead_letters(reporting)
    assert (CLOUD, "naive", "invalid_timestamp") in letters
    assert (CLOUD, "", "invalid_event") in letters
    assert ("", "", "invalid_json") in letters


def test_rule_7_a_letter_that_is_rejected_again_tells_the_latest_reason(reporting: Connection) -> None:
    """Rule 7: after half of the mending, the other half shows."""
    sent = event("1", "01T00:00:00", "a", resource_type="share")
    send(reporting, sent)
    define_type(reporting, "openstack", "share", {"lifecycle": {"b": "create"}}, "test")
    send(reporting, sent)
    assert dead_letters(reporting) == [(CLOUD, "1", "unknown_event_type")]


def test_rule_4_what_only_the_server_refuses_loses_no_neighbour(reporting: Connection) -> None:
    """Rule 4: the last line of defence finds the one event among hundreds."""
    reporting.execute("alter table reporting.events add check (resource_id <> 'v-cursed')")
    batch = [event(str(number), "01T00:00:00", CREATE, f"v-{number}") for number in range(300)]
    batch[123] = event("123", "01T00:00:00", CREATE, "v-cursed")
    assert [place for place, each in enumerate(send(reporting, *batch)) if each.status != "accepted"] == [123]
    assert (count(reporting, "events"), dead_letters(reporting)) == (299, [(CLOUD, "123", "not_storable")])


def test_mapped_events_go_through_the_same_door(reporting: Connection) -> None:
    """Rule 4: events of a mapper, and what it could not map."""
    good = decode_event(raw(event("1", "01T00:00:00", CREATE)))
    unmapped = InvalidInputEvent(b"\xffraw", "invalid_notification", "no payload\nat all", cloud=CLOUD, event_id="2")
    floating = type(good)("3", good.timestamp, CREATE, "openstack", CLOUD, "volume", "v", "p", "collector", {"a": 0.5})
    outcomes = door(reporting).ingest_events([good, unmapped, floating, good])
    assert statuses(outcomes) == ["accepted", "invalid_notification", "invalid_event", "deduplicated"]
    assert outcomes[1].detail == "no payload at all"
    row = reporting.execute("select raw from reporting.rejected_events where event_id = '2'").fetchone()
    assert row == (b"\xffraw",)


# Transactions.


def test_large_inputs_are_cut_into_transactions(reporting: Connection) -> None:
    """Rule 22: no transaction holds more locks than a thousand resources need; twins meet across transactions."""
    batch = [
        raw(event(str(number), "01T00:00:00", CREATE, f"v-{number}")) for number in range(EVENTS_PER_TRANSACTION + 1)
    ]
    outcomes = door(reporting).ingest([*batch, batch[0]])
    assert statuses(outcomes) == ["accepted"] * len(batch) + ["deduplicated"]
    assert count(reporting, "pending_batches") == 2


def test_every_batch_is_announced_and_audited(reporting: Connection) -> None:
    """A load finds the batch in the outbox if it brought anything; the audit log counts what became of its events."""
    first = event("1", "01T00:00:00", CREATE)
    send(reporting, first, first, b"{")
    send(reporting, first)
    assert count(reporting, "pending_batches") == 1
    batches = reporting.execute(
        "select distinct batch_id from reporting.event_ids inner join reporting.pending_batches using (batch_id)"
    ).fetchall()
    assert len(batches) == 1
    audited = reporting.execute(
        "select actor, action, detail from reporting.audit_log where actor = 'test' order by id"
    ).fetchall()
    assert audited == [
        ("test", "cloud.register", {"platform": "openstack"}),
        ("test", "events.ingest", {"accepted": 1, "deduplicated": 1, "rejected": 1}),
        ("test", "events.ingest", {"accepted": 0, "deduplicated": 1, "rejected": 0}),
    ]


def test_nothing_is_nothing(reporting: Connection) -> None:
    """An empty batch leaves no trace."""
    assert send(reporting) == []
    assert count(reporting, "pending_batches") == 0


@pytest.mark.parametrize("code", ["40001", "40P01", "53200"])
def test_rule_22_a_transaction_that_fails_leaves_nothing_behind(reporting: Connection, code: str) -> None:
    """Rule 22: serialization, deadlock, memory: the sender is told to come again, and then everything is taken."""
    batch: list[dict[str, Any] | bytes] = [
        event("1", "01T00:00:00", CREATE),
        b"{",
        event("2", "01T00:00:00", CREATE, "v-2", cloud="other"),
    ]
    with failing(reporting, code), pytest.raises(Unavailable):
        send(reporting, *batch)
    for table in ("events", "event_ids", "clouds", "rejected_events", "pending_batches", "current_resources"):
        assert count(reporting, table) == 0, table
    assert statuses(send(reporting, *batch)) == ["accepted", "invalid_json", "accepted"]


def test_rule_22_a_lost_connection_is_unavailable(reporting: Connection, reporting_url: str) -> None:
    """Rule 22: the server goes away before or during a transaction."""
    with psycopg.connect(reporting_url, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", [reporting.info.backend_pid])
    with pytest.raises(Unavailable, match="send the batch again"):
        send(reporting, event("1", "01T00:00:00", CREATE))
    with pytest.raises(Unavailable):
        send(reporting, event("1", "01T00:00:00", CREATE))


class failing:  # noqa: N801 - reads as a word in a with statement
    """The server fails at the last table that a transaction writes."""

    def __init__(self, reporting: Connection, code: str) -> None:
        self._reporting, self._code = reporting, code

    def __enter__(self) -> None:
        """Add a trigger that raises."""
        self._reporting.execute(
            "create function public.fail() returns trigger language plpgsql as"
            f" $$ begin raise exception 'made to fail' using errcode = '{self._code}'; end $$".encode()
        )
        self._reporting.execute(
            "create trigger fail after insert on reporting.pending_batches"
            " for each statement execute function public.fail()"
        )

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._reporting.execute("drop function public.fail cascade")


@pytest.mark.parametrize("cloud", ["os/eu1", "os\u200beu1", "os\n"])
def test_a_cloud_of_a_name_that_none_may_bear_is_not_registered(reporting: Connection, cloud: str) -> None:
    """A slash parts a cloud from a project. Its events are kept, and their neighbours taken."""
    batch = [event("1", "01T00:00:00", CREATE, cloud=cloud), event("2", "01T00:00:00", CREATE)]
    assert statuses(send(reporting, *batch)) == ["invalid_event", "accepted"]
    assert dead_letters(reporting) == [(cloud, "1", "invalid_event")]
    assert reporting.execute("select cloud from reporting.clouds").fetchall() == [(CLOUD,)]
