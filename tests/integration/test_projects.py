"""Projects in the registry: idempotent, patched by merge, found by address and id, audited (rule 28)."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.services.clouds import register_cloud
from tally.services.projects import get_project, list_projects, patch_project, register_project
from tally.store.database import Connection
from tests.integration.registering import create


def audited(reporting: Connection, noun: str) -> list[tuple[Any, ...]]:
    """The audit log of projects or clouds: actor, action, subject."""
    query = "select actor, action, subject from reporting.audit_log where action like %s order by id"
    return reporting.execute(query, [f"{noun}.%"]).fetchall()


def test_a_project_is_registered_once(reporting: Connection) -> None:
    """The same again changes nothing, says so, and is audited once."""
    first = create(reporting, "p/1", name="One", metadata={"cost_center": 4711, "rate": 0.5})
    metadata = {"rate": Decimal("0.50"), "cost_center": 4711}
    again = register_project(reporting, "openstack", "os", "p/1", "One", metadata, "test")
    assert again == (first, False)
    assert list_projects(reporting) == [first]
    assert first.address == "os/p/1"
    assert (datetime.now(UTC) - first.created_at).total_seconds() >= 0
    assert audited(reporting, "project") == [("test", "project.create", "os/p/1")]
    assert register_project(reporting, "openstack", "os", "p/2", None, None, "test")[1]


@pytest.mark.parametrize("change", [{"name": "Two"}, {"metadata": {"a": 1}}])
def test_a_project_with_other_content_is_refused(reporting: Connection, change: dict[str, Any]) -> None:
    """Nothing is overwritten by creating."""
    create(reporting, "p", name="One")
    with pytest.raises(Refused, match="os/p"):
        create(reporting, "p", **({"name": "One"} | change))


def test_rule_1_a_cloud_of_another_platform_is_refused(reporting: Connection) -> None:
    """Rule 1: the first project registers its cloud."""
    create(reporting, "p")
    assert audited(reporting, "cloud") == [("test", "cloud.register", "os")]
    with pytest.raises(Refused, match="openstack"):
        create(reporting, "q", platform="hetzner")
    assert len(list_projects(reporting)) == 1


@pytest.mark.parametrize("name", ["", "x" * 600, "a\0b", "\ud800"])
def test_a_name_is_a_text_that_can_be_stored(reporting: Connection, name: str) -> None:
    """The limits of events hold for projects."""
    with pytest.raises(InvalidInput, match="external_id"):
        create(reporting, name)


def test_metadata_are_no_place_for_files(reporting: Connection) -> None:
    """They may be 64 KiB long, also after many patches."""
    with pytest.raises(InvalidInput, match="64 KiB"):
        create(reporting, "p", metadata={"file": "x" * 65536})
    project = create(reporting, "p", metadata={"a": "x" * 40000})
    with pytest.raises(InvalidInput, match="64 KiB"):
        patch_project(reporting, project.id, {"metadata": {"b": "x" * 40000}}, "test")


def test_an_address_means_one_project(reporting: Connection) -> None:
    """A slash can stand in the id, and not in the cloud: it would make two projects of one address."""
    assert create(reporting, "x/p", cloud="os").address == "os/x/p"
    with pytest.raises(InvalidInput, match="cloud 'os/x' holds a slash"):
        create(reporting, "p", cloud="os/x")
    assert audited(reporting, "cloud") == [("test", "cloud.register", "os")]


def test_a_misspelt_platform_never_claims_a_cloud(reporting: Connection) -> None:
    """A cloud keeps its platform for ever, and all its events would be turned away."""
    with pytest.raises(InvalidInput, match="'openstak' is not a platform; the registry knows gardener, harbor"):
        create(reporting, "p", platform="openstak")
    assert create(reporting, "p").platform == "openstack"


def test_a_group_is_a_project_of_the_platform_meta(reporting: Connection) -> None:
    """It owns no resources; projects become members of it."""
    group = create(reporting, "customer-alpha", platform="meta", cloud="customers", name="Customer Alpha")
    assert group.platform == "meta"


def test_the_cloud_may_be_left_out_where_its_platform_has_exactly_one(reporting: Connection) -> None:
    """With none or several, the answer says what to name."""
    with pytest.raises(InvalidInput, match="openstack has no cloud yet"):
        create(reporting, "p", cloud=None)
    register_cloud(reporting, "openstack", "os-1", "test")
    register_cloud(reporting, "hetzner", "h-1", "test")
    assert create(reporting, "p", cloud=None).address == "os-1/p"
    assert create(reporting, "p", cloud=None) == create(reporting, "p", cloud="os-1")
    register_cloud(reporting, "openstack", "os-2", "test")
    with pytest.raises(InvalidInput, match="several clouds; name the cloud: one of os-1, os-2"):
        create(reporting, "q", cloud=None)


def test_a_patch_changes_what_it_names_and_nothing_else(reporting: Connection) -> None:
    """RFC 7396: null takes away, objects are merged, all else replaces."""
    project = create(reporting, "p", name="One", metadata={"a": 1, "b": {"c": 1.5, "d": [1]}})
    assert patch_project(reporting, project.id, {"name": "Two"}, "ann").metadata == project.metadata
    patched = patch_project(reporting, project.id, {"metadata": {"a": None, "b": {"d": 2}, "e": {"f": None}}}, "ann")
    assert (patched.name, patched.metadata) == ("Two", {"b": {"c": Decimal("1.5"), "d": 2}, "e": {}})
    assert patch_project(reporting, project.id, {"name": None}, "ann").name is None
    assert patch_project(reporting, project.id, {"metadata": None}, "ann").metadata == {}
    assert get_project(reporting, project.id) == patch_project(reporting, project.id, {}, "ann")


def test_a_patch_is_audited_with_old_and_new_unless_it_changes_nothing(reporting: Connection) -> None:
    """What is said already changes nothing."""
    project = create(reporting, "p", name="One", metadata={"a": 1})
    patch_project(reporting, project.id, {"name": "One", "metadata": {"a": 1, "b": None}}, "ann")
    patch_project(reporting, project.id, {"name": "Two"}, "ann")
    rows = reporting.execute(
        "select actor, subject, detail from reporting.audit_log where action = 'project.update'"
    ).fetchall()
    old, new = {"name": "One", "metadata": {"a": 1}}, {"name": "Two", "metadata": {"a": 1}}
    assert rows == [("ann", "os/p", {"old": old, "new": new})]


def test_a_patch_that_makes_no_sense_is_refused(reporting: Connection) -> None:
    """An empty name, metadata that cannot be stored, a project that does not exist."""
    project = create(reporting, "p")
    with pytest.raises(InvalidInput, match="name"):
        patch_project(reporting, project.id, {"name": ""}, "test")
    with pytest.raises(InvalidInput, match="NUL"):
        patch_project(reporting, project.id, {"metadata": {"a": "\0"}}, "test")
    with pytest.raises(NotFound):
        patch_project(reporting, uuid4(), {"name": "x"}, "test")
    assert get_project(reporting, project.id) == project


def test_projects_are_listed_by_address_page_by_page(reporting: Connection) -> None:
    """Each comes once, whatever the size of the page."""
    rows = [create(reporting, name, cloud=cloud) for cloud in ("os-a", "os-b") for name in ("p", "q", "r")]
    seen = page = list_projects(reporting, limit=2)
    while page:
        page = list_projects(reporting, after=(page[-1].cloud, page[-1].external_id), limit=2)
        seen = seen + page
    assert seen == rows
    assert list_projects(reporting, after=("os-a", "q"), limit=1) == [rows[2]]


def test_projects_are_chosen_by_platform_cloud_and_id(reporting: Connection) -> None:
    """Filters narrow each other."""
    os_p, os_q = create(reporting, "p"), create(reporting, "q")
    hetzner_p = create(reporting, "p", platform="hetzner", cloud="h")
    assert list_projects(reporting, platform="hetzner") == [hetzner_p]
    assert list_projects(reporting, cloud="os") == [os_p, os_q]
    assert list_projects(reporting, external_id="p") == [hetzner_p, os_p]
    assert list_projects(reporting, external_id="p", cloud="os") == [os_p]
    assert list_projects(reporting, external_id="p", cloud="os", platform="hetzner") == []


def test_only_visible_projects_are_shown(reporting: Connection) -> None:
    """A key is the cloud and the id together; nothing visible is nothing shown."""
    os_p, os_q = create(reporting, "p"), create(reporting, "q")
    hetzner_p = create(reporting, "p", platform="hetzner", cloud="h")
    assert list_projects(reporting, visible={("os", "p"), ("h", "q")}) == [os_p]
    assert list_projects(reporting, visible=set()) == []
    assert get_project(reporting, os_p.id, {("os", "p")}) == os_p
    for foreign in (os_q, hetzner_p):
        with pytest.raises(NotFound):
            get_project(reporting, foreign.id, {("os", "p")})
