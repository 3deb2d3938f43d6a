"""Collectors as they are in life: each sends its batches in order, and repeats one until it is answered."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice

import requests

from tests import histories
from tests.histories import EFFECTS, INSTANTS, SIZES, SOURCES, STATES, Resource
from tests.model import Record

EVENTS = "/api/v1/events"
PATIENCE_SECONDS = 180
REPEATED = {429, 500, 502, 503, 504}

Batch = Sequence[bytes]
World = dict[Resource, list[Record]]


@dataclass
class Sender:
    """One collector; ``counts`` is what its answers said, ``failures`` how often it had to send again."""

    urls: Sequence[str]
    batches: Sequence[Batch]
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("accepted", "deduplicated", "rejected"), 0))
    failures: int = 0

    def run(self) -> None:
        """Send everything."""
        session = requests.Session()
        session.trust_env = False
        addresses = cycle(self.urls)
        for batch in self.batches:
            answer = self._answer(session, next(addresses), b"[" + b",".join(batch) + b"]")
            for status in self.counts:
                self.counts[status] += answer[status]

    def _answer(self, session: requests.Session, url: str, body: bytes) -> dict[str, int]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                response = session.post(
                    url + EVENTS, data=body, headers={"Content-Type": "application/json"}, timeout=30
                )
            except requests.RequestException:
                response = None
            if response is not None and response.status_code not in REPEATED:
                assert response.status_code == 200, response.text
                answer: dict[str, int] = response.json()
                return answer
            self.failures += 1
            time.sleep(0.1)
        raise AssertionError("no answer")


@contextmanager
def sending(senders: Sequence[Sender]) -> Iterator[None]:
    """Let all send while the block does something to the server, and wait until they have been answered."""
    failed: list[BaseException] = []

    def run(sender: Sender) -> None:
        try:
            sender.run()
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
    assert failed == []


def in_batches(raws: Sequence[bytes], size: int) -> list[Batch]:
    """Cut into batches."""
    rest = iter(raws)
    return list(iter(lambda: list(islice(rest, size)), []))


def strange_world(resources: int, events_each: int, seed: int = 1) -> World:
    """Histories full of ties, re-creations, orphans and void events, the same for the same arguments."""
    chance = random.Random(seed)
    return {
        ("alpha", "thing", f"r-{number}"): [
            Record(
                timestamp=chance.choice(INSTANTS),
                event_id=f"{number}/{step}",
                effect=(effect := chance.choice(EFFECTS)),
                source=chance.choice(SOURCES),
                project_id=chance.choice(("p1", "p2")),
                size=chance.choice([None, *SIZES]),
                state=chance.choice([None, *STATES]),
                usage={"pulls": 1} if effect == "usage" else None,
            )
            for step in range(events_each)
        ]
        for number in range(resources)
    }


def as_sent(world: World) -> list[bytes]:
    """All events of a world, resource by resource."""
    return [
        histories.as_sent(histories.tally_event(resource, record))
        for resource, history in world.items()
        for record in history
    ]
