"""The resource types that ship with the providers: their files load, and say what the requirement says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tally import providers
from tally.domain.errors import InvalidEvent
from tally.domain.resource_type import Effect, ResourceType, Transition

EXPECTED = {
    "openstack": {"instance", "volume", "floating_ip", "image", "loadbalancer"},
    "hetzner": {"server", "volume", "floating_ip", "load_balancer"},
    "stackit": {"server", "volume", "database", "kubernetes_cluster"},
    "ionos": {"server", "volume", "nic", "managed_kubernetes"},
    "gardener": {"shoot"},
    "harbor": {"repository"},
}

# Sizes as the requirement shows them, and those of the fields it lists for the other types.
GOOD_SIZES: list[tuple[str, str, dict[str, Any]]] = [
    ("openstack", "instance", {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}),
    ("openstack", "volume", {"size_gb": 100, "type": "ssd"}),
    ("openstack", "volume", {"size_gb": 200, "type": "hdd"}),
    ("openstack", "floating_ip", {"ip_version": 4}),
    ("openstack", "image", {"size_gb": 2.5}),
    ("openstack", "loadbalancer", {"listeners": 2, "pools": 1}),
    ("hetzner", "server", {"vcpus": 4, "ram_gb": 16, "disk_gb": 80, "server_type": "cx41"}),
    ("hetzner", "volume", {"size_gb": 50}),
    ("hetzner", "floating_ip", {"ip_version": 6, "type": "ipv6"}),
    ("hetzner", "load_balancer", {"type": "lb11", "targets": 3}),
    ("stackit", "server", {"vcpus": 8, "ram_gb": 32, "disk_gb": 160, "machine_type": "c1.8"}),
    ("stackit", "volume", {"size_gb": 64, "type": "storage_premium_perf1"}),
    ("stackit", "database", {"type": "postgresql", "flavor": "2.4", "storage_gb": 20}),
    ("stackit", "kubernetes_cluster", {"node_count": 3, "machine_type": "c1.4"}),
    ("ionos", "server", {"cores": 4, "ram_gb": 16, "type": "ENTERPRISE"}),
    ("ionos", "volume", {"size_gb": 20, "type": "SSD Standard", "bus": "VIRTIO"}),
    ("ionos", "nic", {"lan_id": 1, "firewall_active": True}),
    ("ionos", "managed_kubernetes", {"node_count": 2, "cores": 8, "ram_gb": 16}),
    ("gardener", "shoot", {"worker_count": 3, "machine_type": "m1.xlarge", "kubernetes_version": "1.29"}),
    ("gardener", "shoot", {"worker_count": 0}),
    ("harbor", "repository", {"storage_gb": 12.5, "image_count": 47}),
]

BAD_SIZES: list[tuple[str, str, dict[str, Any], str]] = [
    ("openstack", "volume", {"size_gb": 100, "type": "SSD"}, "a type that the prices do not know"),
    ("openstack", "volume", {"size_gb": -1}, "a negative size"),
    ("openstack", "volume", {"size_gb": "100"}, "a number as text"),
    ("openstack", "instance", {"flavor": "m1.large"}, "a flavor without what it measures"),
    ("openstack", "instance", {"vcpus": 4, "memory_mb": 8192, "ram_gb": 8, "disk_gb": 80}, "memory twice"),
    ("openstack", "instance", {"vcpus": 1.5, "ram_gb": 8, "disk_gb": 80}, "half a processor"),
    ("openstack", "floating_ip", {"ip_version": 5}, "no such protocol"),
    ("ionos", "nic", {"lan_id": 1, "firewall_active": 1}, "a number for a yes"),
    ("gardener", "shoot", {"worker_count": 3, "kubernetes_version": 1.29}, "a version as number"),
    ("harbor", "repository", {"storage_gb": 1, "pulls": 3}, "a counter within the size"),
]


def definitions(platform: str) -> Mapping[str, Any]:
    text = (Path(providers.__path__[0]) / platform / "resource_types.yaml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def resource_type(platform: str, name: str) -> ResourceType:
    return ResourceType.from_definition(platform, name, 1, definitions(platform)[name])


def all_types() -> list[ResourceType]:
    return [resource_type(platform, name) for platform, names in EXPECTED.items() for name in sorted(names)]


@pytest.mark.parametrize("platform", EXPECTED)
def test_each_platform_ships_exactly_the_resource_types_of_the_requirement(platform: str) -> None:
    assert set(definitions(platform)) == EXPECTED[platform]


@pytest.mark.parametrize("kind", all_types(), ids=lambda kind: f"{kind.platform}.{kind.resource_type}")
def test_each_size_is_a_closed_object_with_a_described_unit_per_dimension(kind: ResourceType) -> None:
    Draft202012Validator.check_schema(kind.size)
    assert kind.size["type"] == "object"
    assert kind.size["additionalProperties"] is False
    for name, schema in kind.size["properties"].items():
        assert schema["description"], name
        if schema["type"] in ("integer", "number"):
            assert schema.get("minimum") == 0 or "enum" in schema, name


@pytest.mark.parametrize("kind", all_types(), ids=lambda kind: f"{kind.platform}.{kind.resource_type}")
def test_each_type_can_begin_and_end_and_its_definition_holds_known_keys_and_texts_only(kind: ResourceType) -> None:
    own = {transition.effect for name, transition in kind.lifecycle.items() if not name.startswith("reconcile.")}
    assert {Effect.CREATE, Effect.DELETE} <= own
    assert set(kind.definition) <= {"size", "lifecycle", "normal_states", "descriptive", "counters"}
    states = [transition.state for transition in kind.lifecycle.values()] + list(kind.normal_states)
    assert all(state is None or (isinstance(state, str) and state == state.lower()) for state in states)
    assert kind.descriptive <= set(kind.size["properties"])
    assert bool(kind.counters) == (Effect.USAGE in own)


@pytest.mark.parametrize(("platform", "name", "size"), GOOD_SIZES)
def test_the_sizes_of_the_requirement_are_valid(platform: str, name: str, size: dict[str, Any]) -> None:
    Draft202012Validator(resource_type(platform, name).size).validate(size)


@pytest.mark.parametrize(("platform", "name", "size", "why"), BAD_SIZES, ids=[bad[3] for bad in BAD_SIZES])
def test_a_size_that_would_be_billed_wrongly_is_refused(
    platform: str, name: str, size: dict[str, Any], why: str
) -> None:
    assert not Draft202012Validator(resource_type(platform, name).size).is_valid(size), why


@pytest.mark.parametrize(
    ("platform", "name", "event_type", "expected"),
    [
        ("openstack", "instance", "compute.instance.power_off", Transition(Effect.UPDATE, "shutoff")),
        ("openstack", "instance", "compute.instance.power_off.end", Transition(Effect.UPDATE, "shutoff")),
        ("openstack", "instance", "compute.instance.shelve_offload.end", Transition(Effect.UPDATE, "shelved")),
        ("openstack", "instance", "instance.soft_delete.end", Transition(Effect.UPDATE, "soft-delete")),
        ("openstack", "instance", "instance.delete.end", Transition(Effect.DELETE)),
        ("openstack", "volume", "volume.retype", Transition(Effect.UPDATE)),
        ("openstack", "volume", "volume.transfer.accept.end", Transition(Effect.UPDATE)),
        ("openstack", "floating_ip", "floatingip.create.end", Transition(Effect.CREATE)),
        ("hetzner", "server", "server.upgrade", Transition(Effect.UPDATE)),
        ("hetzner", "server", "stop_server", Transition(Effect.UPDATE, "off")),
        ("gardener", "shoot", "shoot.hibernate.start", Transition(Effect.UPDATE, "hibernated")),
        ("gardener", "shoot", "shoot.hibernate.end", Transition(Effect.UPDATE, "active")),
        ("harbor", "repository", "repository.push", Transition(Effect.CREATE, "active")),
        ("harbor", "repository", "repository.delete", Transition(Effect.UPDATE)),
        ("harbor", "repository", "repository.destroy", Transition(Effect.DELETE)),
        ("harbor", "repository", "repository.pull", Transition(Effect.USAGE)),
    ],
)
def test_the_effect_of_an_event_is_looked_up_not_guessed(
    platform: str, name: str, event_type: str, expected: Transition
) -> None:
    assert resource_type(platform, name).transition(event_type) == expected


@pytest.mark.parametrize("event_type", ["snapshot.create", "snapshot.delete", "volume.delete.start", "volume.delete"])
def test_the_end_of_a_snapshot_or_an_unfinished_deletion_never_ends_a_volume(event_type: str) -> None:
    """S02: only the exact event types of a volume act on it."""
    with pytest.raises(InvalidEvent, match="unknown_event_type"):
        resource_type("openstack", "volume").transition(event_type)


def test_memory_of_an_instance_is_stated_in_gib() -> None:
    """S15: 8192 MiB are 8, and the schema says so."""
    assert "GiB" in resource_type("openstack", "instance").size["properties"]["ram_gb"]["description"]
