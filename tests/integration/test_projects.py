"""Projects and their relations in the registry: idempotent, versioned, without cycles, audited (rule 28)."""

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.graph import Relation
from tally.domain.instants import parse_instant
from tally.services.projects import Project, close_relation, create_project, list_projects, list_relations, relate
from tally.store.database import Connection
from tests.integration.sending import count

TENANT = "infrastructure_tenant"


def create(reporting: Connection, external_id: str, **changes: Any) -> Project:
    """Register a project of the cloud "os"."""
    fields = {"platform": "openstack", "cloud": "os", "name": None, "metadata": {}} | changes
    return create_project(reporting, external_id=external_id, actor="test", **fields)


def connect(
    reporting: Connection, source: str, target: str, since: str = "2026-01-01", until: str | None = None, **changes: Any
) -> Relation:
    """Relate two projects of the cloud "os" from a day to a day."""
    fields = {"relation_type": TENANT, "metadata": {}} | changes
    valid_to = None if until is None else parse_instant(f"{until}T00:00:00Z")
    valid_from = parse_instant(f"{since}T00:00:00Z")
    return relate(
        reporting, f"os/{source}", f"os/{target}", valid_from=valid_from, valid_to=valid_to, actor="test", **fields
    )


@pytest.fixture
def projects(reporting: Connection) -> dict[str, UUID]:
    """Four registered projects."""
    return {name: create(reporting, name).id for name in ("a", "b", "c", "d")}


def test_a_project_is_registered_once(reporting: Connection) -> None:
    """The same again changes nothing, and is audited once."""
    first = create(reporting, "p/1", name="One", metadata={"cost_center": 4711, "rate": 0.5})
    assert create(reporting, "p/1", name="One", metadata={"rate": 0.50, "cost_center": 4711}) == first
    assert list_projects(reporting) == [first]
    assert first.address == "os/p/1"
    audited = reporting.execute(
        "select actor, action, subject from reporting.audit_log where action like 'project.%'"
    ).fetchall()
    assert audited == [("test", "project.create", "os/p/1")]


@pytest.mark.parametrize("change", [{"name": "Two"}, {"metadata": {"a": 1}}])
def test_a_project_with_other_content_is_refused(reporting: Connection, change: dict[str, Any]) -> None:
    """Nothing is overwritten by creating."""
    create(reporting, "p", name="One")
    with pytest.raises(Refused, match="os/p"):
        create(reporting, "p", **({"name": "One"} | change))


def test_rule_1_a_cloud_of_another_platform_is_refused(reporting: Connection) -> None:
    """Rule 1: the first project registers its cloud."""
    create(reporting, "p")
    with pytest.raises(Refused, match="openstack"):
        create(reporting, "q", platform="hetzner")
    assert len(list_projects(reporting)) == 1


@pytest.mark.parametrize("name", ["", "x" * 600, "a\0b", "\ud800"])
def test_a_name_is_a_text_that_can_be_stored(reporting: Connection, name: str) -> None:
    """The limits of events hold for projects."""
    with pytest.raises(InvalidInput, match="external_id"):
        create(reporting, name)


def test_an_address_means_one_project(reporting: Connection) -> None:
    """A slash can stand in the cloud and in the id, but not to make two projects of one address."""
    create(reporting, "x/p", cloud="os")
    with pytest.raises(Refused, match="os/x/p"):
        create(reporting, "p", cloud="os/x")


def test_a_relation_is_kept_with_its_metadata(reporting: Connection, projects: dict[str, UUID]) -> None:
    """Rule 28: the same again changes nothing."""
    metadata = {"pricing_adjustments": [{"type": "discount", "percent": 15}]}
    relation = connect(reporting, "a", "b", relation_type="managed_by", metadata=metadata)
    assert (relation.source, relation.target, relation.version) == (projects["a"], projects["b"], 1)
    assert connect(reporting, "a", "b", relation_type="managed_by", metadata=metadata) == relation
    assert list_relations(reporting) == [relation]
    audited = reporting.execute("select subject from reporting.audit_log where action = 'relation.create'").fetchall()
    assert audited == [("os/a managed_by os/b",)]


@pytest.mark.usefixtures("projects")
def test_what_makes_no_sense_is_refused(reporting: Connection) -> None:
    """Unknown type, itself, unknown project, empty validity, no zone."""
    with pytest.raises(InvalidInput, match="cousin_of"):
        connect(reporting, "a", "b", relation_type="cousin_of")
    with pytest.raises(InvalidInput, match="itself"):
        connect(reporting, "a", "a")
    with pytest.raises(NotFound, match="os/nobody"):
        connect(reporting, "a", "nobody")
    with pytest.raises(InvalidInput, match="not after"):
        connect(reporting, "a", "b", "2026-01-01", "2026-01-01")
    with pytest.raises(InvalidInput, match="zone"):
        relate(
            reporting,
            "os/a",
            "os/b",
            TENANT,
            parse_instant("2026-01-01T00:00:00Z").replace(tzinfo=None),
            None,
            {},
            "test",
        )
    assert list_relations(reporting) == []


@pytest.mark.usefixtures("projects")
def test_a_relation_that_overlaps_its_like_is_refused(reporting: Connection) -> None:
    """Rule 28: per (source, target, type) one at a time; one may follow the other."""
    connect(reporting, "a", "b", "2026-01-01", "2026-03-10")
    with pytest.raises(Refused, match="overlaps"):
        connect(reporting, "a", "b", "2026-03-09")
    connect(reporting, "a", "b", "2026-03-10")
    with pytest.raises(Refused, match="overlaps"):
        connect(reporting, "a", "b", "2027-01-01", "2027-02-01")
    connect(reporting, "a", "b", relation_type="same_owner")
    assert len(list_relations(reporting)) == 3


@pytest.mark.usefixtures("projects")
def test_a_cycle_of_attribution_is_refused_with_its_path(reporting: Connection) -> None:
    """Rule 28: among relations that share any period, and only among those that attribute."""
    connect(reporting, "a", "b", "2026-01-01", "2026-03-10")
    connect(reporting, "b", "c")
    with pytest.raises(Refused, match="os/c -> os/a -> os/b -> os/c"):
        connect(reporting, "c", "a", "2026-03-20")
    connect(reporting, "c", "a", "2026-04-01")
    connect(reporting, "c", "b", relation_type="same_owner")


@pytest.mark.usefixtures("projects")
def test_a_second_parent_is_accepted(reporting: Connection) -> None:
    """Rule 28: which one counts is decided when billing."""
    connect(reporting, "a", "c")
    connect(reporting, "b", "c")
    assert len(list_relations(reporting)) == 2


@pytest.mark.usefixtures("projects")
def test_closing_appends_a_version(reporting: Connection) -> None:
    """Rule 28: nothing is overwritten or deleted; the database refuses it, too."""
    relation = connect(reporting, "a", "b")
    end = parse_instant("2026-04-01T00:00:00Z")
    closed = close_relation(reporting, relation.id, end, "test")
    assert (closed.version, closed.valid_to) == (2, end)
    assert close_relation(reporting, relation.id, end, "test") == closed
    assert list_relations(reporting) == [closed]
    versions = reporting.execute(
        "select version, valid_to from reporting.project_relations order by version"
    ).fetchall()
    assert versions == [(1, None), (2, end)]
    for statement in (
        "update reporting.project_relations set valid_to = now()",
        "delete from reporting.project_relations",
    ):
        with pytest.raises(psycopg.Error) as refusal:
            reporting.execute(statement.encode())
        assert refusal.value.sqlstate == "TA001"
    audited = reporting.execute(
        "select action from reporting.audit_log where action like 'relation.%' order by id"
    ).fetchall()
    assert audited == [("relation.create",), ("relation.close",)]


@pytest.mark.usefixtures("projects")
def test_an_end_that_makes_no_sense_is_refused(reporting: Connection) -> None:
    """Before the beginning, of nothing, or into what follows."""
    relation = connect(reporting, "a", "b", "2026-01-01", "2026-02-01")
    connect(reporting, "a", "b", "2026-03-01")
    with pytest.raises(InvalidInput, match="not after"):
        close_relation(reporting, relation.id, relation.valid_from, "test")
    with pytest.raises(NotFound):
        close_relation(reporting, uuid4(), relation.valid_from, "test")
    with pytest.raises(Refused, match="overlaps"):
        close_relation(reporting, relation.id, parse_instant("2026-03-02T00:00:00Z"), "test")
    assert count(reporting, "project_relations") == 2


def test_a_misspelt_platform_never_claims_a_cloud(reporting: Connection) -> None:
    """A cloud keeps its platform for ever, and all its events would be turned away."""
    with pytest.raises(InvalidInput, match="'openstak' is not a platform; the registry knows gardener, harbor"):
        create(reporting, "p", platform="openstak")
    assert create(reporting, "p").platform == "openstack"
