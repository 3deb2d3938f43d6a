"""Writing the differences of a listing as synthetic events, through the door that all events come through.

A chunk of resources is judged and written in one transaction under their locks, so that no event can come in between:
what was compared before may no longer be a difference by then.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tally.domain.drift import CREATE, DELETE, UPDATE, Change, Listing, Verdict, judge
from tally.domain.event import Event
from tally.services.ingest import Ingest, InvalidInputEvent, Outcome
from tally.services.listing import MAX_ERRORS, Taken
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.reporting import listings, projection
from tally.store.reporting.events import Resource
from tally.store.reporting.listings import Difference

RESOURCES_PER_TRANSACTION = 500

_COUNTED_AS = {CREATE: "created", UPDATE: "updated", DELETE: "deleted"}


class Differences:
    """The differences between one cloud and its inventory."""

    def __init__(
        self,
        connection: Connection,
        platform: str,
        cloud: str,
        *,
        clock: Callable[[], datetime],
        clock_skew: timedelta,
        actor: str,
        told: Callable[[Sequence[Outcome]], object] = lambda _: None,
    ) -> None:
        """Write over ``connection`` on behalf of ``actor``; ``told`` hears what became of events that are committed."""
        self._connection = connection
        self._platform = platform
        self._cloud = cloud
        self._clock = clock
        self._clock_skew = clock_skew
        self._told = told
        self._ingest = Ingest(connection, clock=clock, clock_skew=clock_skew, actor=actor)

    def write(self, taken: Taken) -> tuple[Counter[str], list[str]]:
        """Write the differences of one type; return how many were created, updated, deleted, skipped and rejected.

        Also one line for each of the first rejections.

        Raises:
            Unavailable: if the database fails; what was committed by then stays.
        """
        counts: Counter[str] = Counter()
        errors: list[str] = []
        last = ""
        while found := listings.differences_after(
            self._connection, taken.resource_type, last, RESOURCES_PER_TRANSACTION
        ):
            with self._connection.transaction():
                outcomes = self._write_chunk(taken, found, counts, errors)
            self._told(outcomes)
            last = found[-1].resource_id
        return counts, errors

    def _write_chunk(
        self, taken: Taken, found: Sequence[Difference], counts: Counter[str], errors: list[str]
    ) -> list[Outcome]:
        verdicts = self._judge(taken, found)
        counts["skipped"] += sum(verdict.waits for verdict in verdicts.values())
        waiting = {resource: list(verdict.changes) for resource, verdict in verdicts.items()}
        everything: list[Outcome] = []
        # First the first change of each resource: after a create that is rejected, a delete would end what never began.
        while sending := [(resource, changes.pop(0)) for resource, changes in waiting.items() if changes]:
            outcomes = self._ingest.ingest_events([self._input(resource, change) for resource, change in sending])
            for (resource, change), outcome in zip(sending, outcomes, strict=True):
                if outcome.status == "accepted":
                    counts[_COUNTED_AS[change.event_type]] += 1
                elif outcome.status == "rejected":
                    counts["rejected"] += 1
                    if len(errors) < MAX_ERRORS:
                        errors.append(_rejection(resource, change, outcome))
                    waiting[resource].clear()
            everything += outcomes
        return everything

    def _judge(self, taken: Taken, found: Sequence[Difference]) -> dict[Resource, Verdict]:
        circumstances = Listing(taken.started_at, self._clock() + self._clock_skew, taken.since)
        listed = {(self._cloud, taken.resource_type, one.resource_id): one.listed for one in found}
        projection.lock(self._connection, listed)
        known = projection.rows(self._connection, listed)
        return {resource: judge(each, known.get(resource), circumstances) for resource, each in listed.items()}

    def _input(self, resource: Resource, change: Change) -> Event | InvalidInputEvent:
        cloud, resource_type, resource_id = resource
        event_id = change.event_id(resource)
        if change.project_id is None:
            return self._whose(resource, event_id, change)
        return Event(
            event_id=event_id,
            timestamp=change.timestamp,
            event_type=change.event_type,
            platform=self._platform,
            cloud=cloud,
            resource_type=resource_type,
            resource_id=resource_id,
            project_id=change.project_id,
            source="reconciliation",
            payload=change.payload,
        )

    def _whose(self, resource: Resource, event_id: str, change: Change) -> InvalidInputEvent:
        """Keep what no event can be made of; without an instant, so that it is one dead letter however often seen."""
        cloud, resource_type, resource_id = resource
        seen = {"event_id": event_id, "event_type": change.event_type, "platform": self._platform, "cloud": cloud}
        seen |= {"resource_type": resource_type, "resource_id": resource_id, "source": "reconciliation"}
        raw = write_json(seen | {"payload": change.payload}).encode()
        detail = f"{cloud}/{resource_type}/{resource_id} exists, and its platform does not tell whose it is"
        return InvalidInputEvent(raw, "unknown_project", detail, cloud, event_id, self._platform, resource_type)


def _rejection(resource: Resource, change: Change, outcome: Outcome) -> str:
    return f"{resource[1]}: {change.event_type} of {resource[2]!r} is a dead letter: {outcome.reason}: {outcome.detail}"
