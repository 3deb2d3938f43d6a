"""Rule 15 for a thousand random histories and samples: each gain lies in the record in which the definition puts it.

The samples come from a server in memory: what a real one does is shown in test_counters.py.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tally.domain.counter import CounterSource
from tally.domain.samples import Line, from_milliseconds, to_milliseconds
from tally.services.counters import Counters
from tally.store.database import Connection
from tally.store.metering.handover import Taken, remember
from tests import histories
from tests.bench.events import END, copy_raw
from tests.histories import INSTANTS, Resource, World
from tests.integration.metering_sql import meter
from tests.integration.test_order_independence import MARCH
from tests.model import Lifetime, Model, Record

Series = Mapping[int, Decimal]            # what a counter showed, by millisecond
Sampled = Mapping[Resource, Sequence[Series]]

SOURCE = CounterSource(
    name="things",
    platform="test",
    resource_type="thing",
    metric="egress_gb",
    selector="things",
    clouds=("alpha",),
    resource_label="id",
    unit=Decimal("0.5"),
    cloud_label="cloud",
)
THINGS = 1000
# Around the instants at which events are: a sample at one of them, and one to either side, are the hard cases.
MOMENTS = [to_milliseconds(instant) + offset for instant in INSTANTS for offset in (-1, 0, 1)]


@dataclass(frozen=True)
class InMemory:
    """A server that has these samples."""

    sampled: Sampled

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:
        """The samples of the span, one line a series."""
        assert selector == SOURCE.selector
        for (cloud, _, resource_id), several in self.sampled.items():
            for number, series in enumerate(several):
                labels = {"cloud": cloud, "id": resource_id, "nic": str(number)}
                told = [(at, value) for at, value in sorted(series.items()) if start <= from_milliseconds(at) < end]
                yield Line(labels, [at for at, _ in told], [value for _, value in told])


def a_series(chance: random.Random) -> Series:
    """What one counter showed, with resets; often at few moments, so that they are those of events."""
    return {at: Decimal(chance.randint(0, 20)) for at in chance.sample(MOMENTS, chance.randint(2, 12))}


def a_history(chance: random.Random, number: int) -> list[Record]:
    """Some events of one thing, at few instants."""
    instants = chance.sample(INSTANTS, chance.randint(1, 5))
    return [
        Record(
            timestamp=chance.choice(instants),
            event_id=f"{name}/{number}",
            effect=chance.choice(histories.EFFECTS),
            source=chance.choice(histories.SOURCES),
            project_id=chance.choice(("p1", "p2")),
            size=chance.choice((None, *histories.SIZES)),
            usage=chance.choice((None, {"pulls": Decimal("0.1")}, {"egress_gb": Decimal(2)})),
        )
        for name in chance.sample(histories.NAMES, chance.randint(1, 8))
    ]


def test_each_gain_lies_in_the_record_in_which_the_definition_puts_it(
    reporting: Connection, metering: Connection
) -> None:
    """With what events bring, and nothing else; what no life takes is reported, and nothing else is."""
    chance = random.Random(2026)
    histories.register(reporting)
    things: Sequence[Resource] = [("alpha", "thing", f"t-{number}") for number in range(THINGS)]
    world = {thing: a_history(chance, number) for number, thing in enumerate(things)}
    sampled = {thing: [a_series(chance) for _ in range(chance.randint(0, 3))] for thing in things}
    sampled["alpha", "thing", "stranger"] = [a_series(chance)]
    copy_raw(metering, histories.as_loaded(world), load_id=1)
    remember(reporting, Taken(1, END))
    metering.execute("analyze raw.events")
    meter(reporting, metering, counters=Counters(InMemory(sampled), (SOURCE,), timedelta(days=40)))
    models = {resource: Model(world.get(resource, ())) for resource in sampled}
    assert recorded(metering, world) == {
        (resource, usage.from_ts): counted
        for resource, model in models.items()
        for usage, counted in expected(model, sampled[resource])
        if counted
    }
    assert reported(metering, sampled) == {
        resource: lost
        for resource, several in sampled.items()
        if (lost := sum((unplaced(models[resource], one) for one in several), Decimal(0)))
    }


def recorded(metering: Connection, world: World) -> dict[tuple[Resource, datetime], dict[str, Decimal]]:
    """The counters of the records of a world that have any."""
    rows = metering.execute(
        "select cloud, resource_type, resource_id, from_ts, counters from metering.int_usage_records"
        " where counters <> '{}'"
    ).fetchall()
    return {
        ((cloud, kind, name), from_ts): {metric: Decimal(value) for metric, value in counters.items()}
        for cloud, kind, name, from_ts, counters in rows
        if (cloud, kind, name) in world
    }


def reported(metering: Connection, sampled: Sampled) -> dict[Resource, Decimal]:
    """How much of each resource the findings say that no life takes."""
    rows = metering.execute(
        "select cloud, resource_type, split_part(subject, ' ', 1), split_part(detail, ' ', 1)::numeric"
        " from metering.int_findings where kind = 'counter_unplaced'"
    ).fetchall()
    return {tuple(resource): lost for *resource, lost in rows if tuple(resource) in sampled}  # type: ignore[misc]


def expected(model: Model, several: Sequence[Series]) -> Iterator[tuple[Any, dict[str, Decimal]]]:
    """Each record of March with its counters, by events and by samples."""
    gains = [placed for one in several for placed in in_lives(model, one)]
    for usage in model.usage(*MARCH):
        counted: dict[str, Decimal] = defaultdict(Decimal, usage.counters)
        for life, instant, gain in gains:
            at_the_close = instant == life.closed_at == usage.to_ts
            if life.no == usage.lifetime_no and (usage.from_ts <= instant < usage.to_ts or at_the_close):
                counted["egress_gb"] += gain
        yield usage, dict(counted)


def in_lives(model: Model, samples: Series) -> Iterator[tuple[Lifetime, datetime, Decimal]]:
    """Each gain with the life that takes it, at the instant of its later sample, or of the deletion that it spans."""
    lives = [life for life in model.lifetimes if life.opened_at != life.closed_at]
    showed = [(from_milliseconds(at), value * SOURCE.unit) for at, value in sorted(samples.items())]
    if showed:
        at, first = showed[0]
        begun = [life for life in lives if life.opened_at <= at]
        if begun and first and begun[-1].opened_at >= MARCH[0] and not begun[-1].open_left:
            yield begun[-1], min(at, begun[-1].closed_at or at), first
    for since, at, gain in gains_of(samples):
        if life := taker(lives, since, at):
            yield life, min(at, life.closed_at or at), gain


def taker(lives: Sequence[Lifetime], since: datetime, at: datetime) -> Lifetime | None:
    """The first life that was there at the later sample, its deletion included, or ended between the two."""
    there = [life for life in lives if life.opened_at <= at and (life.closed_at is None or at <= life.closed_at)]
    ended = [life for life in lives if life.closed_at is not None and since < life.closed_at < at]
    return min([*there, *ended], key=lambda life: life.no, default=None)


def gains_of(samples: Series) -> Iterator[tuple[datetime, datetime, Decimal]]:
    """The gains between neighbouring samples; a counter that fell began again at zero."""
    instants = sorted(samples)
    for place in range(1, len(instants)):
        former, value = samples[instants[place - 1]], samples[instants[place]]
        gain = value if value < former else value - former
        if gain:
            yield from_milliseconds(instants[place - 1]), from_milliseconds(instants[place]), gain * SOURCE.unit


def unplaced(model: Model, samples: Series) -> Decimal:
    """What a counter gained in March while no life could take it."""
    lives = [life for life in model.lifetimes if life.opened_at != life.closed_at]
    lost = [gain for since, at, gain in gains_of(samples) if MARCH[0] <= at < MARCH[1] and not taker(lives, since, at)]
    return sum(lost, Decimal(0))
