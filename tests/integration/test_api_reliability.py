"""Processes and servers that are killed in the middle of batches, and processes that ingest at once (rule 22).

No event is lost, none is doubled, and the projection of every resource is what the model says of its whole history.
"""

import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from tally.services.installation import Databases, running
from tally.services.projection import rebuild
from tally.settings import Settings
from tally.store.database import Connection, connected
from tally.store.embedded import EmbeddedServer
from tests import histories
from tests.integration.api_process import answers, api_process, wait_until
from tests.integration.retrying import Batch, Sender, World, as_sent, in_batches, sending, strange_world
from tests.integration.test_ingest_concurrency import assert_whole, locked, wait_until_somebody_waits
from tests.integration.test_order_independence import expected_projection, projection

WORLD = strange_world(resources=40, events_each=12)
RAWS = as_sent(WORLD)
CONTESTED = ("alpha", "thing", "r-20")  # whoever holds its lock stops batches in their middle


def shuffled(seed: int, per_batch: int) -> Sequence[Batch]:
    """All events, in an order of their own."""
    raws = RAWS.copy()
    random.Random(seed).shuffle(raws)
    return in_batches(raws, per_batch)


def assert_as_sent(reporting: Connection, world: World, senders: Sequence[Sender]) -> None:
    """Every event is stored once and was accepted or known; the projection is the model's, and a replay's."""
    assert_whole(reporting, sum(map(len, world.values())))
    assert sum(sender.counts["rejected"] for sender in senders) == 0
    for resource, history in world.items():
        assert projection(reporting, resource) == expected_projection(history), resource


def test_processes_that_are_killed_in_mid_batch(
    home: Path, reporting: Connection, reporting_url: str, metering_url: str, dagster_url: str
) -> None:
    """Kill -9 of all of them while every sender is in a transaction, and of one by one afterwards."""
    histories.register(reporting)
    urls = {"reporting_url": reporting_url, "metering_url": metering_url, "dagster_url": dagster_url}
    with api_process(home, urls, api_workers=2) as api:
        senders = [Sender([api.client.url], shuffled(seed, 37)) for seed in (1, 2, 3)]
        with sending(senders):
            with locked(reporting_url, CONTESTED):
                wait_until_somebody_waits(reporting)
                for worker in api.workers():
                    os.kill(worker, signal.SIGKILL)
            wait_until(lambda: answers(api.client))
            os.kill(api.workers()[0], signal.SIGKILL)
        assert all(sender.failures for sender in senders)
    assert_as_sent(reporting, WORLD, senders)


def test_a_postgresql_that_is_killed_in_mid_batch(home: Path) -> None:
    """Kill -9 of a server named by URL while batches are in a transaction; once it is back, so is the API."""
    with running(Settings(home)) as databases, api_process(home, named(databases), api_workers=2) as api:
        url = databases.reporting_url
        with connected(url) as reporting:
            histories.register(reporting)
        senders = [Sender([api.client.url], shuffled(seed, 37)) for seed in (4, 5)]
        with sending(senders):
            with pytest.raises(psycopg.OperationalError):  # the session that holds the lock dies, too
                kill_in_mid_batch(home, url)
            wait_until(lambda: not answers(api.client))
            assert answers(api.client, "/healthz")
            wait_until(lambda: all(sender.failures for sender in senders))  # those, too, that had waited for their turn
            successor = EmbeddedServer(home)
            successor.start()
        wait_until(lambda: answers(api.client))
        assert all(sender.failures for sender in senders)
        with connected(url) as reporting:
            assert_as_sent(reporting, WORLD, senders)
        successor.stop()


def named(databases: Databases) -> dict[str, str]:
    """Their URLs, by their names."""
    return {name: str(url) for name, url in databases._asdict().items() if name.endswith("_url")}


def test_two_servers_with_the_same_and_with_interleaved_events_and_a_rebuild_beside_them(
    home: Path, reporting: Connection, reporting_url: str, metering_url: str, dagster_url: str
) -> None:
    """Each event is accepted by exactly one, whoever sends it first."""
    histories.register(reporting)
    urls = {"reporting_url": reporting_url, "metering_url": metering_url, "dagster_url": dagster_url}
    with api_process(home, urls, api_workers=1) as one, api_process(home, urls, api_workers=1) as other:
        both = [one.client.url, other.client.url]
        senders = [
            Sender(both, shuffled(6, 41)),
            Sender(both[::-1], shuffled(7, 29)),
            Sender(both[:1], in_batches(RAWS[::2], 23)),
            Sender(both[1:], in_batches(RAWS[1::2], 23)),
        ]
        with sending(senders):
            for _ in range(5):
                rebuild(reporting)
    assert [sum(sender.counts[status] for sender in senders) for status in ("accepted", "deduplicated")] == [
        len(RAWS),
        2 * len(RAWS),
    ]
    assert_as_sent(reporting, WORLD, senders)


def kill_in_mid_batch(home: Path, url: str) -> None:
    """Stop a batch in its middle, and kill the server then."""
    with connected(url) as reporting, locked(url, CONTESTED):
        wait_until_somebody_waits(reporting)
        kill_postgresql(home)


def kill_postgresql(home: Path) -> None:
    """Kill the server of an installation, a child of this process; its sessions end when they find out."""
    pid = int((home / "postgres/data/postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)  # until then another server takes it for alive
