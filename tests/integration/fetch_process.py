"""A process that begins a run and is killed while it fetches counters, for the tests that go on with what it left.

Usage: python -m tests.integration.fetch_process REPORTING_URL METERING_URL VICTORIA_URL DAYS. It says "fetching" when
so many days are stored and the samples of the next one are coming in, and then waits for its end.
"""

import sys
import time
from collections.abc import Iterator
from datetime import datetime

from tally.domain.samples import Line
from tally.services import runs
from tally.services.counters import Counters
from tally.store.database import connected
from tally.store.victoria_metrics import VictoriaMetrics
from tests.integration.metering_sql import NOW
from tests.integration.test_counter_fetch import MARCH, MAX_GAP, SOURCES


class Slow:
    """A server whose answer for one of the days never ends."""

    def __init__(self, url: str, days: int) -> None:
        self._server = VictoriaMetrics(url)
        self._days = days

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:
        """The samples; of the last day, only the first line."""
        for line in self._server.export(selector, start, end):
            yield line
            if not self._days:
                sys.stdout.write("fetching\n")
                sys.stdout.flush()
                time.sleep(600)
        self._days -= 1


def main(reporting_url: str, metering_url: str, victoria_url: str, days: str) -> None:
    """Begin a run of March."""
    counters = Counters(Slow(victoria_url, int(days)), SOURCES, MAX_GAP)
    with connected(reporting_url) as reporting, connected(metering_url) as metering, runs.metering_lock(metering):
        runs.start(reporting, metering, MARCH, lambda: NOW, counters)


if __name__ == "__main__":
    main(*sys.argv[1:])
