"""The registry of resource types: what Tally ships, what operators define, versions (rule 6)."""

from decimal import Decimal

import pytest

from tally.domain.errors import InvalidInput
from tally.services.registry import current_registry, define_type, load_builtin_types
from tally.store.database import Connection, connected
from tests.integration.sending import count

DEFINITION = {"size": {"properties": {"size_gb": {"minimum": 0.5}}}, "lifecycle": {"a": "create"}}


def test_the_types_that_tally_ships_are_loaded_once(reporting: Connection) -> None:
    """Rule 6: they stand in the registry of every new database; loading them again changes nothing."""
    registry = current_registry(reporting)
    assert {platform for platform, _ in registry} == {"openstack", "hetzner", "stackit", "ionos", "gardener", "harbor"}
    assert load_builtin_types(reporting) == []
    assert current_registry(reporting) is registry
    assert len(registry) == count(reporting, "resource_types")


def test_the_version_counts_over_all_types(reporting: Connection) -> None:
    """Rule 6: one number names the state of the whole registry."""
    before = current_registry(reporting).version
    first = define_type(reporting, "test", "one", DEFINITION, "test")
    second = define_type(reporting, "test", "two", DEFINITION, "test")
    assert (first.version, second.version) == (before + 1, before + 2)
    assert current_registry(reporting).version == before + 2


def test_the_same_definition_again_is_no_new_version(reporting: Connection) -> None:
    """A definition is compared by content: neither the order of keys nor the way of writing a number counts."""
    first = define_type(reporting, "test", "one", DEFINITION, "test")
    again = {"lifecycle": {"a": "create"}, "size": {"properties": {"size_gb": {"minimum": Decimal("0.50")}}}}
    assert define_type(reporting, "test", "one", again, "test").version == first.version
    audited = reporting.execute("select count(*) from reporting.audit_log where subject = 'test.one'").fetchone()
    assert audited == (1,)


def test_a_definition_comes_back_with_decimals(reporting: Connection, reporting_url: str) -> None:
    """Floats of YAML are decimals from the registry on."""
    define_type(reporting, "test", "one", DEFINITION, "test")
    with connected(reporting_url) as other:
        minimum = current_registry(other)["test", "one"].size["properties"]["size_gb"]["minimum"]
    assert (minimum, type(minimum)) == (Decimal("0.5"), Decimal)


def test_a_change_is_seen_by_other_connections(reporting: Connection, reporting_url: str) -> None:
    """What a connection remembers is good for one version only."""
    before = current_registry(reporting)
    with connected(reporting_url) as other:
        define_type(other, "test", "one", DEFINITION, "test")
    assert ("test", "one") not in before
    assert ("test", "one") in current_registry(reporting)


def test_an_operators_definition_is_never_overridden(reporting: Connection) -> None:
    """Rule 6: not even by a start of Tally, and not if it says what Tally says."""
    shipped = current_registry(reporting)["openstack", "volume"]
    define_type(reporting, "openstack", "volume", dict(shipped.definition), "test")
    define_type(reporting, "openstack", "image", {"lifecycle": {"a": "create"}}, "test")
    assert load_builtin_types(reporting) == []
    assert "a" in current_registry(reporting)["openstack", "image"].lifecycle
    row = reporting.execute(
        "select origin from reporting.resource_types"
        " where platform = 'openstack' and resource_type = 'volume' order by version desc"
    ).fetchone()
    assert row == ("operator",)


@pytest.mark.parametrize(
    "definition",
    [
        {"size": {"type": "objekt"}},
        {"size": {"properties": {"count": {"type": "integer"}}}},
        {"lifecycle": {"a": "destroy"}},
        {"unknown": 1},
    ],
)
def test_a_faulty_definition_changes_nothing(reporting: Connection, definition: dict[str, object]) -> None:
    """Rule 6: it is refused by name, and the version stays."""
    before = count(reporting, "resource_types")
    with pytest.raises(InvalidInput, match=r"test\.one"):
        define_type(reporting, "test", "one", definition, "test")
    assert count(reporting, "resource_types") == before
