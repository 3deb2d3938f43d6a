"""Nova's notifications as events: which of them count, what they carry, and what never becomes an event."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tally import providers
from tally.domain.errors import InvalidEvent
from tally.domain.event import Event
from tally.domain.resource_type import Effect, ResourceType
from tally.providers.openstack import legacy, versioned
from tally.providers.openstack.notifications import map_notification
from tally.providers.openstack.server import Change

CLOUD = "os-prod-eu1"
SERVER = "26b63bfe-8e7c-5d3a-a2e3-4d4a9d4b6b1c"

EFFECTS = {
    Change.BEGIN: Effect.CREATE,
    Change.SIGN_OF_LIFE: Effect.UPDATE,
    Change.CHANGE: Effect.UPDATE,
    Change.END: Effect.DELETE,
}


def instance() -> ResourceType:
    text = (Path(providers.__path__[0]) / "openstack" / "resource_types.yaml").read_text(encoding="utf-8")
    return ResourceType.from_definition("openstack", "instance", 1, yaml.safe_load(text)["instance"])


def legacy_message(event_type: str, **payload: Any) -> dict[str, Any]:
    return {
        "event_type": event_type,
        "message_id": "m-1",
        "timestamp": "2026-03-17 16:40:50.969260",
        "priority": "INFO",
        "publisher_id": "compute.host-1",
        "_context_project_id": "the project of an administrator",
        "payload": {
            "instance_id": SERVER,
            "tenant_id": "proj-456",
            "state": "active",
            "vcpus": 4,
            "memory_mb": 8192,
            "root_gb": 80,
            "ephemeral_gb": 20,
            "swap_mb": 4096,
            "disk_gb": 100,
            "instance_type": "m1.large",
            "instance_flavor_id": "7",
            "display_name": "web",
            "launched_at": "2026-03-01T00:00:00.000000",
            "deleted_at": "",
            **payload,
        },
    }


def versioned_message(event_type: str, flavor: dict[str, Any] | None = None, **payload: Any) -> dict[str, Any]:
    size = {"name": "m1.large", "flavorid": "7", "vcpus": 4, "memory_mb": 8192, "root_gb": 80, "ephemeral_gb": 20}
    return {
        "event_type": event_type,
        "message_id": "m-2",
        "timestamp": "2026-03-17 16:40:50.969260",
        "priority": "INFO",
        "payload": {
            "nova_object.data": {
                "uuid": SERVER,
                "tenant_id": "proj-456",
                "action_initiator_project": "the project of an administrator",
                "state": "active",
                "launched_at": "2026-03-01T00:00:00Z",
                "deleted_at": None,
                "display_name": "web",
                "flavor": {"nova_object.data": size | {"swap": 4096} | (flavor or {})},
                **payload,
            }
        },
    }


def mapped(message: Any) -> Event:
    event = map_notification(message, CLOUD)
    assert event is not None
    return event


def test_an_event_carries_the_identity_the_owner_and_the_full_size() -> None:
    event = mapped(legacy_message("compute.instance.create.end"))
    assert (event.event_id, event.event_type) == ("m-1", "compute.instance.create.end")
    assert (event.platform, event.cloud, event.resource_type) == ("openstack", CLOUD, "instance")
    assert (event.resource_id, event.project_id, event.source) == (SERVER, "proj-456", "collector")
    assert event.timestamp == datetime(2026, 3, 17, 16, 40, 50, 969260, tzinfo=UTC)
    assert event.payload["size"] == {"vcpus": 4, "ram_gb": 8, "disk_gb": 100, "flavor": "m1.large"}
    assert event.payload["state"] == "active"


def test_both_families_say_the_same_of_the_same_server() -> None:
    ours = mapped(legacy_message("compute.instance.power_off.end", state="stopped"))
    theirs = mapped(versioned_message("instance.power_off.end", state="stopped"))
    assert ours.payload == theirs.payload
    assert (ours.resource, ours.project_id, ours.timestamp) == (theirs.resource, theirs.project_id, theirs.timestamp)


@pytest.mark.parametrize(
    ("memory_mb", "ram_gb"),
    [(8192, 8), (512, Decimal("0.5")), ("64", Decimal("0.0625")), (1, Decimal("0.0009765625")), (Decimal("2048.0"), 2)],
)
def test_memory_is_converted_exactly(memory_mb: Any, ram_gb: Any) -> None:
    """S15: nova's MB are MiB; 8192 is 8, never 8.192, and 512 is 0.5."""
    event = mapped(legacy_message("compute.instance.exists", memory_mb=memory_mb))
    assert event.payload["size"]["ram_gb"] == ram_gb
    assert not isinstance(event.payload["size"]["ram_gb"], float)


def test_numbers_that_a_sender_writes_as_texts_are_numbers() -> None:
    event = mapped(legacy_message("compute.instance.exists", vcpus="1", memory_mb="64", root_gb="1", ephemeral_gb="0"))
    size = event.payload["size"]
    assert size == {"vcpus": 1, "ram_gb": Decimal("0.0625"), "disk_gb": 1, "flavor": "m1.large"}
    Draft202012Validator(instance().size).validate(size)


@pytest.mark.parametrize(
    ("event_type", "nova_state", "state"),
    [
        ("compute.instance.power_off.end", "stopped", "shutoff"),
        ("compute.instance.shelve.end", "shelved", "shelved"),
        ("compute.instance.shelve_offload.end", "shelved_offloaded", "shelved"),
        ("compute.instance.finish_resize.end", "resized", "active"),
        ("compute.instance.resize.confirm.end", "stopped", "shutoff"),
        ("compute.instance.rescue.end", "rescued", "rescued"),
        ("compute.instance.soft_delete.end", "soft-delete", "soft-delete"),
        ("compute.instance.exists", "ERROR", "error"),
    ],
)
def test_states_are_told_in_the_words_of_the_price_list(event_type: str, nova_state: str, state: str) -> None:
    event = mapped(legacy_message(event_type, state=nova_state))
    assert event.payload["state"] == state
    assert event.payload["nova"]["state"] == nova_state


@pytest.mark.parametrize(
    "message",
    [
        legacy_message("compute.instance.create.end", state="building"),
        legacy_message("compute.instance.create.end", state="error"),
        versioned_message("instance.create.end", state="building"),
    ],
)
def test_a_build_that_did_not_become_active_opens_nothing(message: Any) -> None:
    assert map_notification(message, CLOUD) is None


@pytest.mark.parametrize(
    "message",
    [
        legacy_message("compute.instance.delete.end", state="deleted", launched_at="", deleted_at="2026-03-02"),
        legacy_message("compute.instance.soft_delete.end", state="soft-delete", launched_at=""),
        legacy_message("compute.instance.exists", state="error", launched_at=None),
        versioned_message("instance.delete.end", state="deleted", launched_at=None),
    ],
)
def test_a_server_that_never_ran_has_nothing_to_end_or_to_change(message: Any) -> None:
    assert map_notification(message, CLOUD) is None


@pytest.mark.parametrize(
    "message",
    [
        legacy_message("compute.instance.exists", state="deleted"),
        legacy_message("compute.instance.exists", state="active", deleted_at="2026-03-02T00:00:00.000000"),
        legacy_message("compute.instance.exists", state="building"),
        versioned_message("instance.exists", state="deleted", deleted_at="2026-03-02T00:00:00Z"),
    ],
)
def test_the_audit_of_a_server_that_is_gone_or_not_yet_there_is_no_sign_of_life(message: Any) -> None:
    assert map_notification(message, CLOUD) is None


def test_a_soft_deleted_server_is_not_deleted() -> None:
    """Nova sets deleted_at with a soft delete already, and restore brings the server back."""
    soft = mapped(
        legacy_message("compute.instance.soft_delete.end", state="soft-delete", deleted_at="2026-03-02T00:00:00.000000")
    )
    assert instance().transition(soft.event_type).effect is Effect.UPDATE
    assert soft.payload["state"] == "soft-delete"
    assert mapped(legacy_message("compute.instance.restore.end")).payload["state"] == "active"


def test_a_deletion_needs_no_size_and_carries_none() -> None:
    message = legacy_message("compute.instance.delete.end", state="deleted")
    for name in ("vcpus", "memory_mb", "state"):
        del message["payload"][name]
    event = mapped(message)
    assert "size" not in event.payload
    assert "state" not in event.payload


@pytest.mark.parametrize(
    "event_type",
    [
        "compute.instance.update",
        "compute.instance.resize.end",
        "compute.instance.resize.prep.end",
        "compute.instance.finish_resize.start",
        "compute.instance.delete.start",
        "compute.instance.shutdown.end",
        "compute.instance.exists.verified",
        "compute.instance.volume.attach",
        "compute.instance.create.error",
        "instance.update",
        "instance.resize.end",
        "instance.delete.start",
        "instance.rebuild.error",
        "scheduler.select_destinations.end",
        "flavor.create",
        "volume.delete.end",
        "snapshot.delete",
        "image.delete",
    ],
)
def test_what_is_no_billable_change_of_a_server_is_ignored(event_type: str) -> None:
    message = legacy_message(event_type)
    assert map_notification(message, CLOUD) is None
    assert map_notification(message | {"payload": "anything", "timestamp": "2015-09-24 12:47:.634363"}, CLOUD) is None


@pytest.mark.parametrize("payload", ["the text of an exception", {"exception": "boom", "args": {"instance": {}}}, None])
def test_a_reported_failure_is_ignored_whatever_it_holds(payload: Any) -> None:
    for event_type in ("terminate_instance", "compute.instance.rebuild.end", "compute.exception"):
        message = {"event_type": event_type, "priority": "ERROR", "payload": payload, "message_id": "m-3"}
        assert map_notification(message, CLOUD) is None


@pytest.mark.parametrize(
    "timestamp",
    [
        "2026-03-17 16:40:50",
        "2026-03-17 16:40:50.000000",
        "2026-03-17T16:40:50.000000",
        "2026-03-17T16:40:50",
        "2026-03-17 16:40:50+00:00",
        "2026-03-17T16:40:50-00:00",
        "2026-03-17T16:40:50.000000+0000",
        "2026-03-17T16:40:50Z",
        "2026-03-17T17:40:50+01:00",
    ],
)
def test_every_shape_of_timestamp_is_read_and_one_without_a_zone_is_utc(timestamp: str) -> None:
    message = legacy_message("compute.instance.exists") | {"timestamp": timestamp}
    assert mapped(message).timestamp == datetime(2026, 3, 17, 16, 40, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    "timestamp", ["2015-09-24 12:47:.634363", "2015-09-25 1541:14.634363", "", None, 1680501893, "2026-02-30 00:00:00"]
)
def test_a_broken_timestamp_is_an_invalid_event(timestamp: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        map_notification(legacy_message("compute.instance.exists") | {"timestamp": timestamp}, CLOUD)
    assert caught.value.reason == "invalid_timestamp"


def test_every_envelope_holds_the_same_message() -> None:
    bare = legacy_message("compute.instance.exists")
    wrapped = {"oslo.version": "2.0", "oslo.message": json.dumps(bare)}
    heard = {name: value for name, value in bare.items() if name not in ("message_id", "timestamp", "priority")}
    heard["ctxt"] = {"project_id": "the project of an administrator", "timestamp": "2020-01-01T00:00:00"}
    heard["metadata"] = {"message_id": bare["message_id"], "timestamp": bare["timestamp"]}
    assert mapped(wrapped) == mapped(heard) == mapped(bare)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "compute.instance.exists",
        {},
        {"event_type": None, "payload": {}},
        {"oslo.version": "2.0", "oslo.message": "{"},
        {"oslo.version": "2.0", "oslo.message": "\ud800"},
        {"oslo.version": "2.0", "oslo.message": 7},
        {"oslo.version": "2.0", "oslo.message": json.dumps({"oslo.message": "{}"})},
        legacy_message("compute.instance.exists") | {"message_id": None},
        legacy_message("compute.instance.exists") | {"payload": "text"},
        legacy_message("compute.instance.exists", instance_id=None),
        legacy_message("compute.instance.exists", tenant_id=""),
        legacy_message("compute.instance.exists", state=None),
        legacy_message("compute.instance.exists", vcpus=None),
        legacy_message("compute.instance.exists", vcpus=True),
        legacy_message("compute.instance.exists", memory_mb="None"),
        legacy_message("compute.instance.exists", memory_mb=-512),
        legacy_message("compute.instance.exists", memory_mb=Decimal("512.5")),
        legacy_message("compute.instance.exists", memory_mb=10**30),
        legacy_message("compute.instance.delete.end", tenant_id=None),
        versioned_message("instance.exists") | {"payload": {}},
        versioned_message("instance.exists", flavor={"vcpus": None}),
        {**versioned_message("instance.exists"), "payload": {"nova_object.data": {"uuid": SERVER, "flavor": None}}},
    ],
)
def test_what_should_count_and_cannot_be_read_is_an_invalid_event_never_a_crash(message: Any) -> None:
    with pytest.raises(InvalidEvent):
        map_notification(message, CLOUD)


def test_a_message_that_was_no_json_says_so_when_it_is_mapped() -> None:
    with pytest.raises(InvalidEvent, match="too_large"):
        map_notification(InvalidEvent("too_large", "300000 bytes"), CLOUD)


def test_a_family_can_be_left_out() -> None:
    old, new = legacy_message("compute.instance.exists"), versioned_message("instance.exists")
    assert map_notification(old, CLOUD, families=["versioned"]) is None
    assert map_notification(new, CLOUD, families=["versioned"]) is not None
    assert map_notification(new, CLOUD, families=["legacy"]) is None


def test_mapping_leaves_the_message_as_it_was() -> None:
    message = versioned_message("instance.exists")
    before = deepcopy(message)
    map_notification(message, CLOUD)
    assert message == before


@pytest.mark.parametrize(("event_type", "change"), [*legacy.CHANGES.items(), *versioned.CHANGES.items()])
def test_the_registry_knows_each_event_that_the_mapper_writes(event_type: str, change: Change) -> None:
    assert instance().transition(event_type).effect is EFFECTS[change]


def test_a_mapped_size_satisfies_the_schema_of_the_registry() -> None:
    size = mapped(versioned_message("instance.exists", flavor={"memory_mb": 512})).payload["size"]
    Draft202012Validator(instance().size).validate(size)
