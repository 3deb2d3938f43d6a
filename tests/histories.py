"""Random histories of made-up resources, the ways in which they can arrive, and the Tally events that tell them.

Histories are chosen to hurt: few distinct instants, so that ties are frequent, month boundaries, both sources,
re-creations, late and orphan events. What they mean is the business of model.py.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

import simplejson
from hypothesis import strategies as st

from tally.domain.event import Event, decode_event
from tally.domain.instants import format_instant, parse_instant
from tally.services.registry import define_type
from tally.store.database import Connection
from tests.model import Record

PLATFORM = "test"
COUNTERS = ("pulls", "egress_gb")
STATES = ("active", "shutoff", "unknown")

# Two resource types of the same shape. An event type such as thing.update.shutoff implies its state.
DEFINITION: Mapping[str, Any] = {
    "size": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"units": {"type": "number", "minimum": 0}, "kind": {"type": "string"}},
    },
    "lifecycle": {
        **{f"thing.{effect}": effect for effect in ("create", "update", "usage", "delete", "ignore")},
        **{
            f"thing.{effect}.{state}": {"effect": effect, "state": state}
            for effect in ("create", "update")
            for state in STATES
        },
    },
    "normal_states": ["active"],
    "counters": list(COUNTERS),
}
RESOURCE_TYPES = ("thing", "gadget")

# What says otherwise later: that a thing is shut off was a misunderstanding.
MENDED: Mapping[str, Any] = DEFINITION | {
    "lifecycle": DEFINITION["lifecycle"]
    | {f"thing.{effect}.shutoff": {"effect": effect, "state": "unknown"} for effect in ("create", "update")}
}

Resource = tuple[str, str, str]           # (cloud, resource_type, resource_id)
World = Mapping[Resource, Sequence[Record]]
RESOURCES: Sequence[Resource] = [
    (cloud, resource_type, resource_id)
    for resource_id in ("1", "2", "3")
    for resource_type in RESOURCE_TYPES
    for cloud in ("alpha", "beta")
]

INSTANTS: Sequence[datetime] = [
    parse_instant(text)
    for text in (
        "2026-02-10T12:00:00Z",
        "2026-02-28T23:59:59.999999Z",
        "2026-03-01T00:00:00Z",
        "2026-03-01T00:00:00.000001Z",
        "2026-03-10T06:30:00Z",
        "2026-03-10T06:30:00.000001Z",
        "2026-03-20T18:00:00Z",
        "2026-03-31T23:59:59.999999Z",
        "2026-04-01T00:00:00Z",
        "2026-04-15T00:00:00Z",
    )
]

# In byte order, which is neither the order of a dictionary nor of a language.
NAMES = ("0", "10", "9", "A", "Aa", "B", "Z", "_", "a", "aa", "b", "z", "ß", "é", "\N{GRINNING FACE}")

# Equal by value where they look different: 1 and 1.0.
SIZES: Sequence[Mapping[str, Any]] = [
    {},
    {"units": 1},
    {"units": Decimal("1.0")},
    {"units": 2},
    {"units": Decimal("2.5"), "kind": "a"},
    {"units": Decimal("2.5"), "kind": "b"},
]
INCREMENTS = [Decimal(text) for text in ("0", "1", "2.5", "0.1", "0.000001")]

EFFECTS = ("create",) * 3 + ("update",) * 3 + ("delete",) * 3 + ("usage",) * 2 + ("ignore",)
SOURCES = ("collector", "collector", "reconciliation")

Item = TypeVar("Item")


def increments() -> st.SearchStrategy[dict[str, Decimal]]:
    """Increments of one or two counters."""
    return st.dictionaries(st.sampled_from(COUNTERS), st.sampled_from(INCREMENTS), min_size=1)


@st.composite
def records(draw: st.DrawFn, instants: Sequence[datetime], event_id: str) -> Record:
    """One event at one of the instants; usage and delete events may carry size and state that nobody should read."""
    effect = draw(st.sampled_from(EFFECTS))
    return Record(
        timestamp=draw(st.sampled_from(instants)),
        event_id=event_id,
        effect=effect,
        source=draw(st.sampled_from(SOURCES)),
        project_id=draw(st.sampled_from(("p1", "p2"))),
        size=draw(st.none() | st.sampled_from(SIZES)),
        state=draw(st.none() | st.sampled_from(STATES)),
        usage=draw(increments() if effect == "usage" else st.none() | increments()),
    )


@st.composite
def histories(draw: st.DrawFn, max_events: int = 10) -> list[Record]:
    """The history of one resource, with ids in random order."""
    instants = draw(st.lists(st.sampled_from(INSTANTS), min_size=1, max_size=5, unique=True))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=max_events, unique=True))
    return [draw(records(instants, name)) for name in names]


@st.composite
def worlds(draw: st.DrawFn, min_resources: int = 1) -> World:
    """Histories of several resources. Two clouds share ids of resources and events; within one, event ids differ."""
    resources = draw(
        st.lists(st.sampled_from(RESOURCES), min_size=min_resources, max_size=len(RESOURCES), unique=True)
    )
    return {
        (cloud, resource_type, resource_id): [
            replace(record, event_id=f"{record.event_id}/{resource_type}/{resource_id}") for record in draw(histories())
        ]
        for cloud, resource_type, resource_id in resources
    }


@st.composite
def arrivals(draw: st.DrawFn, items: Sequence[Item]) -> list[list[tuple[Item, bool]]]:
    """Every item once and some of them again, in random order and random batches; the flag marks what comes again."""
    repeated = draw(st.lists(st.sampled_from(items), max_size=len(items)))
    order = draw(st.permutations([*items, *repeated]))
    flagged = [(item, item in order[:at]) for at, item in enumerate(order)]
    cuts = sorted({0, len(order), *draw(st.lists(st.integers(0, len(order)), max_size=5))})
    return [flagged[start:end] for start, end in pairwise(cuts)]


def renamed(world: World, suffix: str) -> World:
    """The same world in other clouds, so that many of them fit into one database."""
    return {(f"{cloud}-{suffix}", *rest): history for (cloud, *rest), history in world.items()}  # type: ignore[misc]


def tally_event(resource: Resource, record: Record) -> dict[str, Any]:
    """The event that tells a record, with decimals in it.

    How the state is told changes with the id: in the payload, implied by the event type, or in the payload against the
    event type, where the payload wins (rule 5). A size that is not told is absent, or null, which says the same.
    """
    cloud, resource_type, resource_id = resource
    told = _told(record)
    payload: dict[str, Any] = {"note": "kept as sent"}
    event_type = f"thing.{record.effect}"
    if record.size is not None or not told:
        payload["size"] = record.size
    if record.usage is not None:
        payload["usage"] = record.usage
    if record.state is not None:
        changes = record.effect in ("create", "update")
        if changes and told:
            event_type = f"{event_type}.{record.state if told == 1 else 'shutoff'}"
        if not changes or told != 1:
            payload["state"] = record.state
    elif record.source == "reconciliation" and record.effect in ("create", "update", "delete"):
        event_type = f"reconcile.{record.effect}"
    return {
        "event_id": record.event_id,
        "timestamp": format_instant(record.timestamp),
        "event_type": event_type,
        "platform": PLATFORM,
        "cloud": cloud,
        "resource_type": resource_type,
        "resource_id": resource_id,
        "project_id": record.project_id,
        "source": record.source,
        "payload": payload,
    }


def as_sent(event: Mapping[str, Any]) -> bytes:
    """The JSON text of an event."""
    text: str = simplejson.dumps(event, use_decimal=True)
    return text.encode()


def as_loaded(world: World) -> Iterator[Event]:
    """The events of a world, in the order in which a load writes them."""
    for resource, history in sorted(world.items()):
        for record in sorted(history, key=lambda record: (record.timestamp, record.event_id.encode())):
            yield decode_event(as_sent(tally_event(resource, record)))


def as_sent_again(event: Mapping[str, Any]) -> bytes:
    """The same event by value in another spelling: another zone, other zeros, another order of keys (rule 1)."""
    zone = timezone(timedelta(hours=5, minutes=30))
    timestamp = parse_instant(event["timestamp"]).astimezone(zone).isoformat()
    respelled = json.loads(as_sent(event), parse_float=_with_a_zero_more, parse_int=_with_a_zero_more)
    return as_sent(dict(reversed((respelled | {"timestamp": timestamp}).items())))


def register(reporting: Connection) -> None:
    """Make the two made-up resource types known to a reporting database."""
    for resource_type in RESOURCE_TYPES:
        define_type(reporting, PLATFORM, resource_type, DEFINITION, actor="test")


def mend(reporting: Connection) -> None:
    """Give both types their mended definition, under which events that are stored already mean something else."""
    for resource_type in RESOURCE_TYPES:
        define_type(reporting, PLATFORM, resource_type, MENDED, actor="test", accept_invalidation="a misunderstanding")


def mended(record: Record) -> Record:
    """What a record says by the mended definition."""
    implied = record.effect in ("create", "update") and _told(record) == 1
    return replace(record, state="unknown") if implied and record.state == "shutoff" else record


def _told(record: Record) -> int:
    """How the event tells the state: 0 in the payload, 1 by the event type, 2 in the payload against the event type."""
    return sum(record.event_id.encode()) % 3


def _with_a_zero_more(number: str) -> Decimal:
    return Decimal(number if "E" in number.upper() else number + ("0" if "." in number else ".0"))
