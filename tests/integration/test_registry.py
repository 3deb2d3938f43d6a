"""The registry of resource types: what Tally ships, what operators define, versions (rule 6)."""

from decimal import Decimal
from typing import Any

import pytest
from psycopg.errors import LockNotAvailable

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.resource_type import ResourceType, definition_hash
from tally.services.invalidation import Bounds, find_invalidated
from tally.services.projection import rebuild
from tally.services.registry import (
    Defined,
    current_registry,
    define_type,
    list_types,
    load_builtin_types,
    versions_of_type,
)
from tally.store.database import Connection, connected
from tally.store.reporting.projection import lock, resources_after
from tally.store.reporting.registry import add_definition
from tests.integration.sending import at, count, current, event, projection, send, statuses

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
    same = define_type(reporting, "test", "one", again, "test")
    assert (first.created, first.changed, same.created, same.changed) == (True, True, False, False)
    assert same.version == first.version
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
        {"size": {"$ref": "https://example.com/size.json"}},
        {"size": {"description": "half \ud800"}},
    ],
)
def test_a_faulty_definition_changes_nothing(reporting: Connection, definition: dict[str, object]) -> None:
    """Rule 6: it is refused by name, and the version stays."""
    before = count(reporting, "resource_types")
    with pytest.raises(InvalidInput, match=r"test\.one"):
        define_type(reporting, "test", "one", definition, "test")
    assert count(reporting, "resource_types") == before


@pytest.mark.parametrize(("platform", "resource_type"), [("test", "o.ne"), ("te/st", "one"), ("", "one"), ("test", "")])
def test_a_faulty_name_changes_nothing(reporting: Connection, platform: str, resource_type: str) -> None:
    """A name stands in prices and in paths."""
    before = count(reporting, "resource_types")
    with pytest.raises(InvalidInput, match="no name"):
        define_type(reporting, platform, resource_type, DEFINITION, "test")
    assert count(reporting, "resource_types") == before


def test_types_are_listed_page_by_page(reporting: Connection) -> None:
    """By platform and name, each in the version that holds."""
    define_type(reporting, "openstack", "image", DEFINITION, "test")
    everything = list_types(reporting)
    assert len(everything) == len(current_registry(reporting))
    first = list_types(reporting, limit=3)
    rest = list_types(reporting, after=(first[-1].platform, first[-1].resource_type))
    assert [*first, *rest] == everything
    of_harbor = [(row.resource_type, row.origin) for row in list_types(reporting, platform="harbor")]
    assert of_harbor == [("repository", "builtin")]
    assert [row.origin for row in everything if row.resource_type == "image"] == ["operator"]
    assert list_types(reporting, platform="nowhere") == []


def test_all_versions_of_a_type_stay(reporting: Connection) -> None:
    """Rule 6: a run names the version that it used, and it can be read."""
    versions = [
        define_type(reporting, "test", "one", {"lifecycle": {name: "create"}}, "test").version for name in "abc"
    ]
    rows = versions_of_type(reporting, "test", "one")
    assert [row.version for row in rows] == versions
    assert [list(row.definition["lifecycle"]) for row in rows] == [["a"], ["b"], ["c"]]
    with pytest.raises(NotFound, match=r"test\.two"):
        versions_of_type(reporting, "test", "two")


# What a change does to stored events.

THING = {"platform": "test", "cloud": "t", "resource_type": "thing"}
BEFORE: dict[str, Any] = {
    "size": {"type": "object", "properties": {"gb": {"type": "number"}}},
    "lifecycle": {"a": {"effect": "create", "state": "on"}, "b": "delete", "u": "usage", "noise": "ignore"},
    "counters": ["reads", "writes"],
}


def before(reporting: Connection) -> None:
    """A type, and events of it in two clouds."""
    define_type(reporting, "test", "thing", BEFORE, "test")
    sent = [
        event("1", "01T00:00:00", "a", "t-1", payload={"size": {"gb": 10}}, **THING),
        event("2", "02T00:00:00", "u", "t-1", payload={"usage": {"reads": 5}}, **THING),
        event("3", "01T00:00:00", "a", "t-2", payload={"size": {"gb": 20}}, **THING),
        event("4", "02T00:00:00", "b", "t-2", **THING),
        event("5", "03T00:00:00", "noise", "t-2", payload={"size": 5, "usage": {"reads": "many"}, "state": 7}, **THING),
        event("6", "01T00:00:00", "a", "t-3", payload={"size": {"gb": 20}}, **(THING | {"cloud": "t2"})),
    ]
    assert statuses(send(reporting, *sent)) == ["accepted"] * len(sent)


def change(reporting: Connection, accept: str = "", **changes: Any) -> Defined:
    """Change the type."""
    return define_type(reporting, "test", "thing", BEFORE | changes, "tester", accept_invalidation=accept)


def lifecycle(**changes: Any) -> dict[str, Any]:
    """The lifecycle with some event types changed; None takes one away."""
    changed: dict[str, Any] = BEFORE["lifecycle"] | changes
    return {name: value for name, value in changed.items() if value is not None}


CHANGES: list[tuple[dict[str, Any], list[str]]] = [
    ({"lifecycle": lifecycle(a=None)}, ["3 stored events of type 'a': create, state on becomes unknown"]),
    (
        {"lifecycle": lifecycle(b="update", u=None)},
        [
            "1 stored event of type 'b': delete becomes update",
            "1 stored event of type 'u': usage becomes unknown",
        ],
    ),
    (
        {"lifecycle": lifecycle(a={"effect": "create", "state": "off"})},
        ["3 stored events of type 'a': create, state on becomes create, state off"],
    ),
    (
        {"size": {"properties": {"gb": {"maximum": 15}}}},
        ["sizes of 2 stored events would be refused: size.gb: 20 is greater than the maximum of 15"],
    ),
    (
        {"size": {"properties": {"gb": {"type": "string"}}}},
        ["sizes of 3 stored events would be refused: size.gb: 20 is not of type 'string'; size.gb: 10 is not of type"],
    ),
    (
        {"size": {"required": ["cpus"]}},
        ["sizes of 3 stored events would be refused: size: 'cpus' is a required property"],
    ),
    ({"counters": ["writes"]}, ["usage of 1 stored event would be refused: usage.reads is none of writes"]),
    (
        {"counters": [], "size": {"properties": {"reads": {}}}},
        ["usage of 1 stored event would be refused: usage.reads is the name of another metric"],
    ),
    ({"counters": ["gb"], "size": {}}, ["sizes of 3 stored events", "usage of 1 stored event"]),
]


@pytest.mark.parametrize(("changes", "told"), CHANGES)
def test_a_change_that_concerns_stored_events_is_refused_unless_accepted(
    reporting: Connection, changes: dict[str, Any], told: list[str]
) -> None:
    """Rule 6: it says what it would do to how many events; accepted with a reason, it is audited with what it did."""
    before(reporting)
    version = current_registry(reporting).version
    with pytest.raises(Refused) as refusal:
        change(reporting, **changes)
    *reasons, advice = refusal.value.reasons
    assert len(reasons) == len(told)
    assert all(reason.startswith(line) for reason, line in zip(reasons, told, strict=True)), reasons
    assert all(reason.count("is a required property") <= 1 for reason in reasons)
    assert "accept" in advice
    assert current_registry(reporting).version == version
    done = change(reporting, accept="the provider counts anew", **changes)
    assert (done.changed, list(done.invalidates)) == (True, reasons)
    audited = reporting.execute(
        "select detail from reporting.audit_log where actor = 'tester' and action = 'resource_type.define'"
    ).fetchall()
    assert audited == [
        ({"version": done.version, "invalidates": reasons, "accepted_because": "the provider counts anew"},)
    ]
    again = change(reporting, **changes)
    assert (again.changed, list(again.invalidates)) == (False, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"lifecycle": lifecycle(new="update")},
        {"size": {"properties": {"gb": {"maximum": 20}}}},
        {"size": {}, "descriptive": ["gb"]},
        {"counters": ["reads"]},
        {"counters": []},
        {"normal_states": ["on"]},
    ],
)
def test_a_change_that_all_stored_events_fit_is_taken(reporting: Connection, changes: dict[str, Any]) -> None:
    """Nobody has to accept what concerns nothing, and nothing is folded again."""
    before(reporting)
    done = change(reporting, **changes)
    assert (done.created, done.changed, list(done.invalidates), done.rebuilt) == (False, True, [], 0)


@pytest.mark.parametrize(
    ("effect", "told"),
    [
        ("update", ["size is no object", "state is no text", "usage is no object of non-negative numbers"]),
        ("usage", ["usage is no object of non-negative numbers"]),
    ],
)
def test_what_nobody_judged_cannot_become_what_is_read(reporting: Connection, effect: str, told: list[str]) -> None:
    """Events that were ignored may hold anything: one that no timeline could read stays ignored, whoever accepts it."""
    before(reporting)
    with pytest.raises(Refused) as refusal:
        change(reporting, accept="please", lifecycle=lifecycle(noise=effect))
    assert len(refusal.value.reasons) == len(told)
    assert all(line in reason for reason, line in zip(refusal.value.reasons, told, strict=True))
    assert change(reporting, accept="please", lifecycle=lifecycle(noise=None)).changed


def test_a_type_that_comes_back_gives_its_events_a_meaning_again(reporting: Connection) -> None:
    """Forgotten event types stay stored; whoever makes them known again is told how many there are."""
    before(reporting)
    change(reporting, accept="by mistake", lifecycle=lifecycle(b=None))
    with pytest.raises(Refused, match="1 stored event of type 'b': unknown becomes delete"):
        change(reporting)
    assert change(reporting, accept="the mistake is mended").changed


def test_rule_6_resources_follow_a_new_lifecycle_at_once(reporting: Connection) -> None:
    """Rule 6: what an event type does is the registry's word, also for what is stored; what it forgot does nothing."""
    before(reporting)
    assert current(reporting, "t-2")["deleted_at"] == at("02T00:00:00")
    done = change(reporting, accept="they never end", lifecycle=lifecycle(b=None, a={"effect": "create", "state": "x"}))
    assert done.rebuilt == 3
    states = {
        name: (current(reporting, name)["state"], current(reporting, name)["deleted_at"]) for name in ("t-1", "t-2")
    }
    assert states == {"t-1": ("x", None), "t-2": ("x", None)}
    assert_replayed(reporting)
    assert change(reporting, accept="all of it was a mistake", lifecycle={"other": "create"}).rebuilt == 0
    assert count(reporting, "current_resources") == 0


def test_other_types_are_not_folded_again(reporting: Connection) -> None:
    """A change of one type costs what its resources cost."""
    before(reporting)
    send(reporting, event("v", "01T00:00:00", "volume.create.end"))
    reporting.execute("update reporting.current_resources set last_state = 'spoiled' where cloud not in ('t', 't2')")
    change(reporting, accept="test", lifecycle=lifecycle(a="create"))
    assert current(reporting)["last_event_id"] == "v"
    spoiled = reporting.execute("select count(*) from reporting.current_resources where last_state = 'spoiled'")
    assert spoiled.fetchone() == (1,)


def test_of_more_events_than_are_read_it_says_so(reporting: Connection) -> None:
    """The work is bounded, and nobody takes a part for the whole."""
    before(reporting)
    old = current_registry(reporting)["test", "thing"]
    new = ResourceType.from_definition("test", "thing", 0, BEFORE | {"size": {"required": ["cpus"]}})
    told = find_invalidated(reporting, [old], new, Bounds(events=5, values=1)).reasons
    assert told[0] == "only the 1 most frequent sizes were judged; there are more"
    assert told[1].startswith("sizes of 1 stored event would be refused")
    assert told[2] == "only the first 5 events of the type were read; there are more"
    exact = find_invalidated(reporting, [old], new, Bounds(events=6, values=3)).reasons
    assert [line.split(" would")[0] for line in exact] == ["sizes of 3 stored events"]


def test_a_new_release_folds_the_resources_of_its_types_again(reporting: Connection) -> None:
    """What ships with Tally changes, too: its resources follow when the new definition is loaded."""
    shipped = current_registry(reporting)["openstack", "volume"].definition
    changed = {"volume.create.end": {"effect": "create", "state": "as before"}}
    older = {**shipped, "lifecycle": {**shipped["lifecycle"], **changed}}
    with reporting.transaction():
        add_definition(reporting, "openstack", "volume", older, definition_hash(older), "builtin")
    send(reporting, event("1", "01T00:00:00", "volume.create.end"))
    assert current(reporting)["state"] == "as before"
    assert load_builtin_types(reporting) == ["openstack.volume"]
    assert current(reporting)["state"] == "available"
    assert_replayed(reporting)


def test_a_change_that_is_broken_off_is_finished_by_whoever_comes_next(
    reporting: Connection, reporting_url: str
) -> None:
    """The version holds, and what it left to do is written down with it: at the next start, or by the same request."""
    before(reporting)
    held = resources_after(reporting, ("", "", ""), 10)

    def break_off(effect: str) -> None:
        with connected(reporting_url) as other, reporting.transaction():
            lock(reporting, held)
            other.execute("set lock_timeout = '100ms'")
            with pytest.raises(LockNotAvailable):
                change(other, accept="test", lifecycle=lifecycle(b=effect))

    for effect, finish in (
        ("ignore", load_builtin_types),
        ("update", lambda session: change(session, lifecycle=lifecycle(b="update"))),
    ):
        break_off(effect)
        stale = projection(reporting)
        finish(reporting)
        assert projection(reporting) != stale
        assert count(reporting, "pending_folds") == 0
        assert_replayed(reporting)


def assert_replayed(reporting: Connection) -> None:
    """The projection is what the events say."""
    found = projection(reporting)
    rebuild(reporting)
    assert projection(reporting) == found
