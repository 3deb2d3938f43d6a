"""An event that is committed while a run reads is in the run or late for it: never both, never neither (rule 18)."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from threading import Event, Thread
from typing import Any

import pytest

from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.services import runs
from tally.services.load import load
from tally.store.database import Connection, connect, connected
from tally.store.metering.late import events_outside, resources_outside
from tally.store.reporting.arrivals import waiting_before
from tests import histories
from tests.bench.events import copy_raw
from tests.integration.ledger_by_hand import begin_run
from tests.integration.sending import CREATE, event, send, volume
from tests.model import Model, Record

MARCH = BillingPeriod.parse("2026-03")
NOW = parse_instant("2026-05-01T00:00:00Z")
PATIENCE_SECONDS = 60


class Sender:
    """A transaction of its own that holds one event."""

    def __init__(self, url: str, name: str) -> None:
        self.connection = connect(url)
        self.connection.autocommit = False
        send(self.connection, volume(name, "05T00:00:00", CREATE, 10, resource_id=name))

    def commit(self) -> None:
        self.connection.commit()
        self.connection.close()

    def roll_back(self) -> None:
        self.connection.rollback()
        self.connection.close()


@pytest.fixture(autouse=True)
def _first(reporting: Connection) -> None:
    """The first event of a cloud registers it, that of a month may make its chunk: others would wait for its end."""
    send(reporting, volume("first", "01T00:00:00", CREATE, 10, resource_id="first"))


class HeldClock:
    """A clock that stops whoever asks for the second time: the load does, right before it takes its snapshot."""

    def __init__(self) -> None:
        self.asked, self.go_on = Event(), Event()
        self._times = 0

    def __call__(self) -> datetime:
        self._times += 1
        if self._times == 2:
            self.asked.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
        return NOW


def loads(metering: Connection) -> dict[str, int]:
    """The load of each event."""
    return dict(metering.execute("select event_id, load_id from raw.events").fetchall())  # type: ignore[arg-type]


def wait_until_the_load_waits(metering: Connection, table: str) -> None:
    """Return once a session waits for a lock on a table: the load has its snapshot by then."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = "select count(*) from pg_locks where not granted and relation = %s::regclass"
    while metering.execute(waiting, [table]).fetchone() == (0,):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("table", ["raw.current_resources", "raw.project_relations"])
def test_whatever_commits_around_the_snapshot_is_in_the_run_or_late_for_it(
    reporting: Connection, reporting_url: str, metering: Connection, metering_url: str, table: str
) -> None:
    """Transactions end before the snapshot, between snapshot and copy, after the copy, and after the load.

    A lock on a table that is filled before the events are copied, or after them, holds the load up in its snapshot.
    """
    names = ("before", "after the clock", "within", "within, too", "afterwards", "never")
    senders = {name: Sender(reporting_url, name) for name in names}
    clock = HeldClock()

    def start() -> None:
        with connected(reporting_url) as mine, connected(metering_url) as its:
            runs.start(mine, its, MARCH, clock)

    reader = Thread(target=start)
    with connected(metering_url) as holder:
        senders["before"].commit()
        with holder.transaction():
            holder.execute(f"lock table {table} in access exclusive mode".encode())
            reader.start()
            assert clock.asked.wait(PATIENCE_SECONDS)
            senders["after the clock"].commit()
            clock.go_on.set()
            wait_until_the_load_waits(metering, table)
            for name in ("within", "within, too"):
                senders[name].commit()
        reader.join(PATIENCE_SECONDS)
    senders["never"].roll_back()
    senders["afterwards"].commit()
    run = runs.running(metering, MARCH)
    in_the_run = dict.fromkeys(("first", "before", "after the clock"), 1)
    assert loads(metering) == in_the_run
    load(reporting, metering, lambda: NOW)
    assert loads(metering) == in_the_run | dict.fromkeys(("within", "within, too", "afterwards"), 2)
    assert events_outside(metering, run) == 3
    assert reporting.execute("select count(*) from reporting.pending_batches").fetchone() == (0,)


def test_under_load_every_event_is_in_exactly_one_load(
    reporting: Connection, reporting_url: str, metering: Connection
) -> None:
    """Four senders keep transactions open for random times while runs begin one after the other."""
    done = Event()

    def keep_sending(number: int) -> list[str]:
        chance, sent = random.Random(number), []
        while not done.is_set():
            name = f"{number}-{len(sent)}"
            sender = Sender(reporting_url, name)
            time.sleep(chance.random() / 50)
            finish: Callable[[], None] = sender.roll_back if chance.random() < 0.2 else sender.commit
            sent += [name] if finish == sender.commit else []
            finish()
        return sent

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(keep_sending, number) for number in range(4)]
        begun = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            while len(begun) < 8 or len(set(loads(metering).values())) < 3:
                begun.append(runs.start(reporting, metering, MARCH, lambda: NOW))
                assert time.monotonic() < deadline, "nobody sends"
        finally:
            done.set()
        sent = {"first", *(name for future in sending for name in future.result())}
    load(reporting, metering, lambda: NOW)
    known = loads(metering)
    assert set(known) == sent
    for run in begun:
        assert events_outside(metering, run) == sum(load_id > run.load_id for load_id in known.values())


def test_at_the_very_end_of_a_month_only_what_ends_a_life_or_has_to_do_with_usage_is_late_for_it(
    reporting: Connection, metering: Connection
) -> None:
    """Rules 10 and 15: the same before and after the load. What begins at that instant is of the next month."""
    run = runs.start(reporting, metering, MARCH, lambda: NOW)

    def at_the_end(resource_id: str, event_type: str, **fields: Any) -> dict[str, Any]:
        end = {"timestamp": "2026-04-01T00:00:00Z", "resource_type": "instance", "resource_id": resource_id}
        return event(f"{resource_id} {event_type}", "01T00:00:00", event_type, **end | fields)

    used = {"payload": {"usage": {"egress_gb": 1}}}
    send(
        reporting,
        volume("within", "31T23:59:59.999999", CREATE, 10),
        at_the_end("begun", "compute.instance.create.end"),
        at_the_end("begun", "compute.instance.power_off.end", payload={"usage": {}}),
        at_the_end("used", "instance.usage", **used),
        at_the_end("ended", "compute.instance.delete.end"),
        at_the_end("missed", "reconcile.delete", source="reconciliation"),
        at_the_end("changed in use", "compute.instance.power_off.end", **used),
        at_the_end("changed in use", "compute.instance.create.end"),
    )
    assert waiting_before(reporting, [MARCH.start, MARCH.end, MARCH.next.end]) == [0, 6, 8]
    load(reporting, metering, lambda: NOW)
    assert waiting_before(reporting, [MARCH.end]) == [0]
    assert events_outside(metering, run) == 6


def test_whatever_changes_a_month_is_late_for_it(reporting: Connection, metering: Connection) -> None:
    """Rule 18: of random histories one event comes late; where the usage of the month is another with it, it is found.

    There are many events at few instants about the end of the month, of which all carry usage where they may.
    """
    histories.register(reporting)
    load(reporting, metering, lambda: NOW)
    chance = random.Random(2026)
    worlds = {("alpha", "thing", f"r-{number}"): months_end(chance, number) for number in range(3000)}
    copy_raw(metering, histories.as_loaded({resource: history[1:] for resource, history in worlds.items()}), load_id=2)
    run = begin_run(metering, load_id=3)
    copy_raw(metering, histories.as_loaded({resource: history[:1] for resource, history in worlds.items()}), load_id=4)
    metering.execute("analyze raw.events")
    month = (MARCH.start, MARCH.end)
    changed = {
        resource
        for resource, history in worlds.items()
        if Model(history).usage(*month) != Model(history[1:]).usage(*month)
    }
    found = set(resources_outside(metering, run, len(worlds)))
    assert len(changed) > len(worlds) / 10
    assert changed - found == set()
    assert len(found) < len(worlds) * 0.9, "what is of the next month alone is not late"


def months_end(chance: random.Random, number: int) -> list[Record]:
    """The history of a resource about the end of March, in random order."""
    instants = [instant for instant in histories.INSTANTS if instant >= parse_instant("2026-03-20T00:00:00Z")]
    return [
        Record(
            timestamp=chance.choice(instants),
            event_id=f"{name}/{number}",
            effect=chance.choice(histories.EFFECTS),
            source=chance.choice(histories.SOURCES),
            project_id=chance.choice(("p1", "p2")),
            size=chance.choice((None, *histories.SIZES)),
            usage={"pulls": Decimal(1)},
        )
        for name in chance.sample(histories.NAMES, chance.randint(1, 6))
    ]


def test_what_comes_after_a_month_is_not_late_for_it_once_its_synthetic_events_are_decided(
    reporting: Connection, metering: Connection
) -> None:
    """Rules 9 and 18: a busy resource that was once taken for deleted does not keep months from being finalized."""
    histories.register(reporting)
    load(reporting, metering, lambda: NOW)
    day, end = histories.INSTANTS[4], histories.INSTANTS[8]
    later, at_last = histories.INSTANTS[9], parse_instant("2026-04-20T00:00:00Z")
    decided = {
        "void": [missed(day), told(end, "update")],
        "followed by a deletion": [missed(day), told(end, "delete")],
        "created again": [missed(day), told(end, "create")],
        "created, then deleted": [found(day), told(end, "delete")],
        "created, and no creation follows": [found(day)],
    }
    open_yet = {
        "the last thing heard": [missed(day)],
        "followed by silence only": [missed(day), replace(told(end, "update"), source="reconciliation")],
        "created by reconciliation": [missed(day), found(end), told(later, "update")],
        "created, and created": [found(day), told(at_last, "create")],
    }
    worlds = {("alpha", "thing", name): history for name, history in (decided | open_yet).items()}
    copy_raw(metering, histories.as_loaded(distinct(worlds)), load_id=2)
    run = begin_run(metering, load_id=3)
    ended = parse_instant("2026-04-18T00:00:00Z")
    late = {resource: [replace(told(ended, "delete"), event_id="z")] for resource in worlds}
    copy_raw(metering, histories.as_loaded(distinct(late)), load_id=4)
    assert {name for _, _, name in resources_outside(metering, run, len(worlds))} == open_yet.keys()


def distinct(world: histories.World) -> histories.World:
    """The same with an id of its own for each event of a cloud."""
    return {
        resource: [
            replace(record, event_id=f"{record.event_id}/{place}/{resource[2]}") for place, record in enumerate(history)
        ]
        for resource, history in world.items()
    }


def told(at: datetime, effect: str) -> Record:
    """What the collector says."""
    return Record(at, "c", effect)


def missed(at: datetime) -> Record:
    """What reconciliation concludes of a resource that the platform does not list."""
    return Record(at, "m", "delete", source="reconciliation")


def found(at: datetime) -> Record:
    """What it concludes of one that is listed and not known."""
    return Record(at, "f", "create", source="reconciliation")
