"""Taking a listing: ask an adapter for each resource type, keep the answers, and compare them with the inventory.

Nothing that an adapter says or raises stops more than its type. What is written afterwards is the business of
synthetic.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from tally.domain.inventory import Adapter, Answer, Gap, Listed, Unknown, fault
from tally.store.database import Connection
from tally.store.reporting import listings
from tally.store.reporting.listings import Comparison

ANSWERS_AT_ONCE = 1000
MAX_ERRORS = 20  # told of each resource type
MAX_DETAIL = 300


@dataclass(frozen=True, slots=True)
class Taken:
    """The listing of one resource type, whose answers the session keeps."""

    resource_type: str
    started_at: datetime
    since: datetime | None  # when the previous listing that was compared had started
    gaps: tuple[str, ...]  # why it is not complete: the first reasons, one line each
    comparison: Comparison


def take(
    connection: Connection,
    cloud: str,
    adapter: Adapter,
    *,
    clock: Callable[[], datetime],
    previous: Mapping[str, datetime],
) -> list[Taken]:
    """List and compare all types of an adapter; ``previous`` holds the start of the last listing of each type."""
    listings.begin(connection)
    read = {name: _read(connection, adapter, name, clock) for name in dict.fromkeys(adapter.resource_types)}
    listings.settle(connection)
    return [
        Taken(
            name,
            started_at,
            previous.get(name),
            gaps,
            listings.compare(
                connection, cloud, name, started_at=started_at, since=previous.get(name), complete=not gaps
            ),
        )
        for name, (started_at, gaps) in read.items()
    ]


def _read(
    connection: Connection, adapter: Adapter, resource_type: str, clock: Callable[[], datetime]
) -> tuple[datetime, tuple[str, ...]]:
    started_at = clock()
    gaps: list[str] = []
    answers = _answers(adapter, resource_type)
    while page := list(islice(answers, ANSWERS_AT_ONCE)):
        kept: list[Listed | Unknown] = []
        for answer in page:
            reason = answer.reason if isinstance(answer, Gap) else fault(answer)
            if not isinstance(answer, Gap) and not reason:
                kept.append(answer)
            elif len(gaps) < MAX_ERRORS:
                gaps.append(_one_line(reason))
        if kept:
            listings.add(connection, resource_type, kept)
    return started_at, tuple(gaps)


def _answers(adapter: Adapter, resource_type: str) -> Iterator[Answer]:
    """Yield what an adapter answers; what it raises is a gap at the end."""
    try:
        yield from adapter.list_resources(resource_type)
    except Exception as error:  # noqa: BLE001 - whatever it is, this listing is not complete and the others go on
        yield Gap(f"{type(error).__name__}: {error}")


def _one_line(text: str) -> str:
    printable = text.encode("utf-8", "replace").decode().replace("\0", "?")
    return " ".join(printable.split())[:MAX_DETAIL] or "it failed without a reason"
