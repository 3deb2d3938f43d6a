"""What is kept of a resource goes on from where it was, and comes out as from its whole history (rule 12)."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

import pytest

from tally.domain.event import Event, decode_event
from tally.services import runs
from tally.store.database import Connection
from tally.store.metering.handover import Taken, remember
from tally.store.metering.load import next_load_id, refresh_statistics
from tests import histories
from tests.bench.events import END, copy_raw
from tests.integration.metering_sql import dbt, meter
from tests.model import Record

pytestmark = pytest.mark.slow

RESOURCES = 500
LOADS = 4
KEPT = {
    "int_void_events": "*",
    "int_intervals_first_half": "*, size::text as spelled",
    "int_intervals_second_half": "*, size::text as spelled",
    "int_lifetimes": "*",
    "int_proved_lives": "*",
}
Arrival = tuple[int, Event]


def test_what_goes_on_from_before_is_what_the_whole_history_gives(reporting: Connection, metering: Connection) -> None:
    """Of half of the resources each load brings what is later than all before, of the others anything."""
    histories.register(reporting)
    chance = random.Random(2026)
    arrivals = [each for number in range(RESOURCES) for each in arriving(chance, number)]
    arrivals = sorted([*arrivals, *respelled()], key=itemgetter(0))
    for _, some in groupby(arrivals, key=itemgetter(0)):
        load_id = next_load_id(metering)
        copy_raw(metering, sorted((event for _, event in some), key=by_key), load_id)
        remember(reporting, Taken(load_id, END))
        refresh_statistics(metering)
        run = meter(reporting, metering, select="+int_proved_lives")
        runs.fail(metering, run.id, "of no further interest")
    gone_on = kept(metering)
    dbt(metering, "run", run, "int_changed_resources int_resource_intervals " + " ".join(KEPT), "--full-refresh")
    for name, rows in kept(metering).items():
        assert rows
        assert gone_on[name] == rows, name


def arriving(chance: random.Random, number: int) -> Iterator[Arrival]:
    """The events of a resource, each with the load that brings it."""
    resource = (f"cloud-{number % 2}", chance.choice(histories.RESOURCE_TYPES), f"r-{number}")
    history = random_history(chance)
    loads = [chance.randrange(LOADS) for _ in history]
    if number % 2:
        history.sort(key=lambda record: record.timestamp)
        loads.sort()
    for load, record in zip(loads, history, strict=True):
        told = replace(record, event_id=f"{record.event_id}/{number}")
        yield load, decode_event(histories.as_sent(histories.tally_event(resource, told)))


def respelled() -> Iterator[Arrival]:
    """The events of a resource whose size is told again in another spelling, before what does not tell it."""
    resource = ("cloud-0", "thing", "respelled")
    for load, size in enumerate(({"units": 1}, {"units": Decimal("1.0")}, None)):
        record = Record(histories.INSTANTS[load], f"respelled-{load}", "update" if load else "create", size=size)
        record = replace(record, state="shutoff" if size is None else "active")
        yield load, decode_event(histories.as_sent(histories.tally_event(resource, record)))


def random_history(chance: random.Random) -> list[Record]:
    """Events of one resource at few instants, in random order: a third of all resources without reconciliation."""
    instants = chance.sample(histories.INSTANTS, chance.randint(1, 8))
    sources: Sequence[str] = chance.choice((histories.SOURCES, ("collector",), ("reconciliation", "collector")))
    return [
        Record(
            timestamp=chance.choice(instants),
            event_id=name,
            effect=chance.choice(histories.EFFECTS),
            source=chance.choice(sources),
            project_id=chance.choice(("p1", "p2")),
            size=chance.choice((None, *histories.SIZES)),
            state=chance.choice((None, None, *histories.STATES)),
        )
        for name in chance.sample(histories.NAMES, chance.randint(1, len(histories.NAMES)))
    ]


def by_key(event: Event) -> tuple[object, ...]:
    """The order in which a load writes."""
    return (*event.resource, event.timestamp, event.event_id)


def kept(metering: Connection) -> dict[str, list[str]]:
    """All that is kept of the resources, row by row."""
    return {
        name: sorted(map(repr, metering.execute(f"select {columns} from metering.{name}".encode()).fetchall()))
        for name, columns in KEPT.items()
    }
