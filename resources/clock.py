"""The clock of a run: the system's, or an instant that a test decides."""

from datetime import UTC, datetime

from dagster import ConfigurableResource

from tally.domain.instants import parse_instant


class Clock(ConfigurableResource):  # type: ignore[type-arg]
    """Tells the time in UTC. ``instant`` (ISO 8601 with a zone) stops it there."""

    instant: str = ""

    def now(self) -> datetime:
        """The present instant."""
        return parse_instant(self.instant) if self.instant else datetime.now(UTC)
