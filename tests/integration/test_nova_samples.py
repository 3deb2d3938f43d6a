"""Real notifications of nova, from file to timeline: each captured sequence has its right lifetime.

The samples lie outside the repository, so most tests skip without them. What a timeline means is decided by the model
in tests/model.py; the projection must agree with it.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tally import providers
from tally.domain.errors import InvalidEvent
from tally.domain.event import Event
from tally.domain.instants import format_instant, parse_instant
from tally.domain.resource_type import ResourceType
from tally.domain.timeline import Step, replay
from tally.providers.openstack.notifications import FAMILIES, Family, map_notification, read_notifications
from tests.model import Model, Record

CLOUD = "os-prod-eu1"
Row = tuple[str, str | None, str, int, Decimal, int]   # from, to (None while it lasts), state, vcpus, ram_gb, disk_gb

# What each captured sequence of requests makes of its server.
LEGACY: dict[str, list[Row]] = {
    # Deleted while it was building: create.end comes an hour later, in state building.
    "compute.instance.create.start_23": [],
    "compute.instance.create.start_24": [
        ("2026-03-03T08:00:53.151298Z", None, "active", 1, Decimal("0.5"), 20),
    ],
    "compute.instance.create.start_25": [
        ("2026-03-04T08:06:05.593325Z", None, "active", 1, Decimal("0.5"), 20),
    ],
    # The deletion failed.
    "compute.instance.delete.start_7": [],
    "compute.instance.power_off.start_4": [
        ("2026-03-08T08:00:01.351348Z", None, "shutoff", 2, Decimal(4), 160),
    ],
    "compute.instance.reboot.start_6": [
        ("2026-03-10T08:01:44.703574Z", None, "active", 8, Decimal(8), 120),
    ],
    # The rebuild failed; the audit before it had anchored the size.
    "compute.instance.rebuild.start_14": [
        ("2026-03-11T08:00:02.129318Z", None, "active", 1, Decimal(1), 40),
    ],
    "compute.instance.rebuild.start_24": [
        ("2026-03-12T08:00:04.390112Z", None, "active", 1, Decimal(1), 40),
    ],
    # The rescue failed.
    "compute.instance.rescue.start_6": [],
    # Confirmed, then deleted; the events of the deletion still say resized.
    "compute.instance.resize.confirm.start_12": [
        ("2026-03-15T08:00:04.407985Z", "2026-03-15T08:00:17.823244Z", "active", 1, Decimal("0.5"), 20),
    ],
    # resize.end at 16:36:10 still carries the old flavor; updates carry the new one before the resize is done.
    "compute.instance.resize.prep.start_24": [
        ("2026-03-17T08:00:01.382501Z", "2026-03-17T16:40:50.969260Z", "active", 4, Decimal(8), 320),
        ("2026-03-17T16:40:50.969260Z", None, "active", 6, Decimal(15), 620),
    ],
    "compute.instance.snapshot.start_7": [],
    "compute.instance.snapshot.start_8": [],
    "compute.instance.unrescue.start_6": [
        ("2026-03-21T08:00:31.008467Z", None, "active", 1, Decimal("0.5"), 20),
    ],
    "eod_exists": [
        ("2026-03-22T08:00:00.133588Z", None, "active", 6, Decimal(15), 620),
    ],
}

# The versioned samples that change what is billed, with the state they leave; all others are ignored.
VERSIONED = {
    "instance-create-end": "active",
    "instance-delete-end_compute_down": None,
    "instance-exists": "active",
    "instance-pause-end": "paused",
    "instance-power_off-end": "shutoff",
    "instance-power_on-end": "active",
    "instance-power_on_share-end": "active",
    "instance-reboot-end": "active",
    "instance-resize_confirm-end": "active",
    "instance-resize_finish-end": "active",
    "instance-resize_revert-end": "active",
    "instance-restore-end": "active",
    "instance-resume-end": "active",
    "instance-shelve-end": "shelved",
    "instance-shelve_offload-end": "shelved",
    "instance-soft_delete-end": "soft-delete",
    "instance-suspend-end": "suspended",
    "instance-unpause-end": "active",
    "instance-unshelve-end": "active",
}
OTHER_FLAVORS = {
    "instance-resize_confirm-end": {"vcpus": 1, "ram_gb": 2, "disk_gb": 20, "flavor": "m1.small"},
    "instance-resize_finish-end": {"vcpus": 1, "ram_gb": Decimal("0.25"), "disk_gb": 1, "flavor": "other_flavor"},
}
TEST_FLAVOR = {"vcpus": 1, "ram_gb": Decimal("0.5"), "disk_gb": 1, "flavor": "test_flavor"}


def instance() -> ResourceType:
    text = (Path(providers.__path__[0]) / "openstack" / "resource_types.yaml").read_text(encoding="utf-8")
    return ResourceType.from_definition("openstack", "instance", 1, yaml.safe_load(text)["instance"])


INSTANCE = instance()


def events_of(path: Path) -> list[Event]:
    with path.open("rb") as file:
        mapped = [map_notification(message, CLOUD) for _, message in read_notifications(file)]
    return [event for event in mapped if event is not None]


def model(events: Iterable[Event]) -> Model:
    return Model(
        Record(
            timestamp=event.timestamp,
            event_id=event.event_id,
            effect=INSTANCE.transition(event.event_type).effect,
            project_id=event.project_id,
            size=event.payload.get("size"),
            state=event.payload.get("state"),
        )
        for event in events
    )


def steps(events: Iterable[Event]) -> list[Step]:
    return [
        Step(
            timestamp=event.timestamp,
            event_id=event.event_id,
            event_type=event.event_type,
            effect=INSTANCE.transition(event.event_type).effect,
            synthetic=event.synthetic,
            project_id=event.project_id,
            size=event.payload.get("size"),
            state=event.payload.get("state"),
            payload=dict(event.payload),
        )
        for event in events
    ]


def rows(history: Model) -> list[Row]:
    return [
        (
            format_instant(interval.from_ts),
            format_instant(interval.to_ts) if interval.to_ts else None,
            interval.configuration.state,
            interval.configuration.size["vcpus"],
            Decimal(interval.configuration.size["ram_gb"]),
            interval.configuration.size["disk_gb"],
        )
        for interval in history.intervals
    ]


@pytest.mark.parametrize("name", LEGACY)
def test_a_captured_sequence_has_its_right_timeline(shared: Path, name: str) -> None:
    events = events_of(shared / "samples/openstack/nova-legacy" / f"{name}.json")
    history = model(events)
    assert rows(history) == LEGACY[name]
    assert history.anomalies == []
    for event in events:
        Draft202012Validator(INSTANCE.size).validate(event.payload.get("size", TEST_FLAVOR))


@pytest.mark.parametrize("name", LEGACY)
def test_the_projection_ends_where_the_timeline_of_a_sequence_ends(shared: Path, name: str) -> None:
    events = events_of(shared / "samples/openstack/nova-legacy" / f"{name}.json")
    row = replay(steps(events))
    if not LEGACY[name]:
        assert row is None
        return
    assert row is not None
    opened, closed = LEGACY[name][0][0], LEGACY[name][-1][1]
    assert row.created_at == parse_instant(opened)
    assert row.deleted_at == (parse_instant(closed) if closed else None)
    size = (row.last_state, row.size["vcpus"], Decimal(row.size["ram_gb"]), row.size["disk_gb"])
    assert size == LEGACY[name][-1][2:]


def test_a_lifetime_is_open_left_unless_its_creation_was_seen(shared: Path) -> None:
    """Rule 9: an audit or a change that comes first opens the lifetime where it is seen, and says so."""
    folder = shared / "samples/openstack/nova-legacy"
    histories = {name: model(events_of(folder / f"{name}.json")) for name in LEGACY}
    open_left = {name: [life.open_left for life in history.lifetimes] for name, history in histories.items()}
    assert open_left["compute.instance.create.start_24"] == [False]
    assert open_left["compute.instance.resize.prep.start_24"] == [True]
    assert open_left["eod_exists"] == [True]


def test_each_captured_sequence_is_listed(shared: Path) -> None:
    assert {path.stem for path in (shared / "samples/openstack/nova-legacy").glob("*.json")} == set(LEGACY)


def in_envelope(path: Path) -> bytes:
    """A published sample has neither id nor time: they belong to the envelope."""
    message = json.loads(path.read_bytes()) | {"message_id": path.stem, "timestamp": "2026-03-01 12:00:00.000001"}
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode() + b"\n"


def test_each_versioned_sample_is_mapped_or_ignored_as_listed(shared: Path, tmp_path: Path) -> None:
    samples = sorted((shared / "samples/openstack/nova-versioned").glob("*.json"))
    lines = tmp_path / "versioned.jsonl"
    lines.write_bytes(b"".join(in_envelope(path) for path in samples))
    events = {event.event_id: event for event in events_of(lines)}
    assert len(samples) > len(events)
    assert {name: event.payload.get("state") for name, event in events.items()} == VERSIONED
    for name, event in events.items():
        expected = None if VERSIONED[name] is None else OTHER_FLAVORS.get(name, TEST_FLAVOR)
        assert event.payload.get("size") == expected, name
        assert event.project_id == "6f70656e737461636b20342065766572"


def test_a_server_deleted_before_it_was_scheduled_leaves_no_trace(shared: Path, tmp_path: Path) -> None:
    lines = tmp_path / "not_scheduled.jsonl"
    folder = shared / "samples/openstack/nova-versioned"
    names = ("instance-create-error", "instance-delete-start_not_scheduled", "instance-delete-end_not_scheduled")
    lines.write_bytes(b"".join(in_envelope(folder / f"{name}.json") for name in names))
    assert events_of(lines) == []


@pytest.mark.parametrize("name", ["servers", "volumes", "images", "floatingips"])
def test_captures_of_any_service_go_in_without_a_crash_and_change_no_server(shared: Path, name: str) -> None:
    with (shared / "samples/openstack/captures" / f"{name}.json").open("rb") as file:
        notifications = list(read_notifications(file))
    assert notifications
    assert all(json.loads(raw)["event_type"] for raw, _ in notifications)
    assert [map_notification(message, CLOUD) for _, message in notifications] == [None] * len(notifications)


def test_damaged_captures_become_invalid_events_never_crashes(shared: Path) -> None:
    """Whatever field is missing or of another kind, the mapper answers with an event, nothing, or InvalidEvent."""
    for path in sorted((shared / "samples/openstack").glob("nova-*/*.json")):
        with path.open("rb") as file:
            for _, message in read_notifications(file):
                _map_damaged({"message_id": "x", "timestamp": "2026-03-01 00:00:00"} | message)


def _map_damaged(message: dict[str, Any]) -> None:
    payload = message["payload"]
    fields = payload.get("nova_object.data", payload)
    kinds: tuple[Any, ...] = (None, [], "x", {})
    damaged = [message | {key: junk} for key in message for junk in kinds]
    for key in fields:
        for junk in kinds:
            changed = {**fields, key: junk}
            whole = {**payload, "nova_object.data": changed} if "nova_object.data" in payload else changed
            damaged.append(message | {"payload": whole})
    for candidate in damaged:
        with suppress(InvalidEvent):
            map_notification(candidate, CLOUD)


# One life with every kind of change: minute, legacy name, versioned name, nova's state, vcpus.
FACTS: Sequence[tuple[int, str, str, str, int]] = [
    (0, "create.end", "create.end", "active", 2),
    (10, "exists", "exists", "active", 2),
    (20, "power_off.end", "power_off.end", "stopped", 2),
    (30, "power_on.end", "power_on.end", "active", 2),
    (39, "resize.end", "resize.end", "active", 2),
    (40, "finish_resize.end", "resize_finish.end", "resized", 4),
    (41, "resize.confirm.end", "resize_confirm.end", "active", 4),
    (50, "shelve.end", "shelve.end", "shelved", 4),
    (51, "shelve_offload.end", "shelve_offload.end", "shelved_offloaded", 4),
    (60, "unshelve.end", "unshelve.end", "active", 4),
    (70, "soft_delete.end", "soft_delete.end", "soft-delete", 4),
    (80, "restore.end", "restore.end", "active", 4),
    (90, "delete.end", "delete.end", "deleted", 4),
]
START = parse_instant("2026-03-01T00:00:00Z")


def told(family: Family, offset: timedelta) -> list[dict[str, Any]]:
    """Return the facts as one family tells them, its clock off by an offset."""
    messages = []
    for minute, legacy_name, versioned_name, state, vcpus in FACTS:
        server = {"tenant_id": "proj-456", "state": state, "launched_at": "2026-03-01T00:00:00Z"}
        size = {"vcpus": vcpus, "memory_mb": 4096, "root_gb": 40, "ephemeral_gb": 0}
        flat = {**server, **size, "instance_id": "vm", "instance_type": f"c{vcpus}"}
        nested = {**server, "uuid": "vm", "flavor": {"nova_object.data": {**size, "name": f"c{vcpus}"}}}
        legacy_type, versioned_type = f"compute.instance.{legacy_name}", f"instance.{versioned_name}"
        messages.append(
            {
                "message_id": f"{family}-{minute}",
                "timestamp": format_instant(START + timedelta(minutes=minute) + offset),
                "event_type": legacy_type if family == "legacy" else versioned_type,
                "payload": flat if family == "legacy" else {"nova_object.data": nested},
            }
        )
    return messages


def history_of(messages: Iterable[dict[str, Any]], families: Sequence[Family] = FAMILIES) -> Model:
    mapped = [map_notification(message, CLOUD, families) for message in messages]
    return model(event for event in mapped if event is not None)


@pytest.mark.parametrize("later_us", [0, 1, 3_000, 900_000])
def test_both_families_of_the_same_facts_make_the_timeline_of_the_one_that_spoke_first(later_us: int) -> None:
    """Nova with notification_format = both tells each fact twice: the second telling changes nothing."""
    one = told("legacy", timedelta(0))
    two = told("versioned", timedelta(microseconds=later_us))
    first = history_of(one)
    both = history_of([*two, *one])
    assert len(first.intervals) == 8
    assert both.intervals == first.intervals
    assert both.lifetimes == first.lifetimes
    assert both.anomalies == first.anomalies == []
    other = history_of([*told("legacy", timedelta(microseconds=later_us)), *told("versioned", timedelta(0))])
    assert rows(other) == rows(both)


def test_a_second_telling_that_outlives_the_server_is_an_anomaly_that_a_filter_avoids() -> None:
    """A twin stamped after the deletion by another host's clock reopens nothing, but it is reported (rule 9)."""
    late = told("versioned", timedelta(minutes=15))
    messages = [*told("legacy", timedelta(0)), *(m for m in late if m["event_type"] == "instance.restore.end")]
    both = history_of(messages)
    alone = history_of(messages, families=["legacy"])
    assert both.intervals == alone.intervals
    assert [anomaly.kind for anomaly in both.anomalies] == ["after_delete"]
    assert alone.anomalies == []
