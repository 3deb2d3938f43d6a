"""Clouds: registered once, for one platform for ever (rule 1)."""

import pytest

from tally.domain.errors import InvalidInput, Refused
from tally.services.clouds import list_clouds, register_cloud
from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.sending import CLOUD, CREATE, DELETE, event, send


def test_a_cloud_is_registered_once_and_audited_once(reporting: Connection) -> None:
    """The same again changes nothing, and says so."""
    cloud, created = register_cloud(reporting, "openstack", "os-prod-eu1", "ann")
    assert (cloud.cloud, cloud.platform, created) == ("os-prod-eu1", "openstack", True)
    assert register_cloud(reporting, "openstack", "os-prod-eu1", "ann") == (cloud, False)
    rows = reporting.execute(
        "select actor, subject, detail from reporting.audit_log where action = 'cloud.register'"
    ).fetchall()
    assert rows == [("ann", "os-prod-eu1", {"platform": "openstack"})]


def test_a_cloud_that_its_first_event_registers_is_audited_too(reporting: Connection) -> None:
    """Once, for whoever sent it; an event that is refused for its platform registers nothing."""
    send(reporting, event("1", "01T00:00:00", CREATE), event("2", "02T00:00:00", DELETE))
    send(reporting, event("3", "03T00:00:00", CREATE), event("4", "03T00:00:00", CREATE, cloud="b", platform="none"))
    rows = reporting.execute(
        "select actor, subject, detail from reporting.audit_log where action = 'cloud.register'"
    ).fetchall()
    assert rows == [("test", CLOUD, {"platform": "openstack"})]


def test_a_platform_begins_with_its_first_resource_type(reporting: Connection) -> None:
    """A misspelt platform would be kept for ever; the error says how a new one comes to be known."""
    with pytest.raises(InvalidInput, match="a platform begins with its first resource type"):
        register_cloud(reporting, "proxmox", "pve-lab", "ann")
    definition = {"size": {"type": "object"}, "lifecycle": {"vm.create": "create", "vm.destroy": "delete"}}
    define_type(reporting, "proxmox", "vm", definition, "ann")
    assert register_cloud(reporting, "proxmox", "pve-lab", "ann")[1]


def test_a_cloud_of_another_platform_is_refused(reporting: Connection) -> None:
    """Its events would be turned away from then on."""
    register_cloud(reporting, "openstack", "c", "ann")
    with pytest.raises(Refused, match="it belongs to the platform openstack, not to hetzner"):
        register_cloud(reporting, "hetzner", "c", "ann")
    with pytest.raises(InvalidInput, match="'openstak' is not a platform; the registry knows"):
        register_cloud(reporting, "openstak", "d", "ann")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "a\x7fb", "a\u200bb", "\ud800", "x" * 513])
def test_a_name_can_be_read_and_written_in_an_address(reporting: Connection, name: str) -> None:
    """No slash, nothing invisible."""
    with pytest.raises(InvalidInput, match="cloud"):
        register_cloud(reporting, "openstack", name, "ann")
    assert list_clouds(reporting) == []


def test_clouds_are_listed_by_name_page_by_page(reporting: Connection) -> None:
    """Names are compared byte by byte, and a platform narrows the list."""
    for platform, cloud in (("openstack", "b"), ("hetzner", "a"), ("openstack", "B")):
        register_cloud(reporting, platform, cloud, "ann")
    assert [row.cloud for row in list_clouds(reporting)] == ["B", "a", "b"]
    assert [row.cloud for row in list_clouds(reporting, limit=2)] == ["B", "a"]
    assert [row.cloud for row in list_clouds(reporting, after="a", limit=2)] == ["b"]
    assert [row.cloud for row in list_clouds(reporting, platform="openstack")] == ["B", "b"]
