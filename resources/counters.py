"""The sampled counters of the installation: their sources, and the VictoriaMetrics that holds them."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from dagster import ConfigurableResource

from tally.services.counter_sources import read_counter_sources
from tally.services.counters import Counters
from tally.settings import Settings
from tally.store.victoria_metrics import VictoriaMetrics


class SampledCounters(ConfigurableResource):  # type: ignore[type-arg]
    """URL of VictoriaMetrics and file of sources; what is left empty comes from the environment.

    So a URL that holds a password never becomes configuration that Dagster shows or stores.
    """

    url: str = ""
    sources: str = ""
    max_gap_seconds: int | None = None

    def counters(self, say: Callable[[str], None]) -> Counters | None:
        """What a run fetches; None if the installation names no VictoriaMetrics. ``say`` hears how far it is.

        Raises:
            InvalidInput: with everything that is wrong with the file of sources.
        """
        settings = Settings.from_environment()
        url = self.url or settings.victoriametrics_url
        path = Path(self.sources) if self.sources else settings.counter_sources
        if not url or path is None:
            return None
        seconds = self.max_gap_seconds
        max_gap = settings.counter_max_gap if seconds is None else timedelta(seconds=seconds)
        return Counters(VictoriaMetrics(url), read_counter_sources(path), max_gap, say)
