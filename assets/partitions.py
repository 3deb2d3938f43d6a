"""One partition per billing period, and the run that is being made in it.

A key such as 2026-03 names the month, whatever the zone of the installation: services turn it into instants. The zone
says only since when there is one.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dagster import AssetCheckExecutionContext, AssetExecutionContext, MonthlyPartitionsDefinition
from dagster_shared.utils.warnings import PreviewWarning

from resources.databases import Metering
from resources.installation import Installation
from tally.domain.period import FIRST_METERED
from tally.domain.run import Run
from tally.services import runs
from tally.services.correct import CorrectionRequest
from tally.settings import Settings

# The running month is included: a run of it is preliminary. In Tokyo it begins nine hours before that of UTC.
MONTHS = MonthlyPartitionsDefinition(
    start_date=FIRST_METERED, fmt="%Y-%m", end_offset=1, timezone=Settings.from_environment().zone
)


@contextmanager
def partitioned_checks() -> Iterator[None]:
    """Define checks by month: Dagster calls it a preview, which nobody who starts Tally has to read each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PreviewWarning)
        yield


def requested(tags: Mapping[str, str]) -> CorrectionRequest:
    """What the tags of a Dagster run ask of a correction: tally/price_version, tally/everything, and so on."""
    return CorrectionRequest(
        tags.get("tally/price_version") or None,
        tags.get("tally/everything") == "true",
        tags.get("tally/counters") == "true",
        tags.get("tally/reason") or None,
    )


def running(
    context: AssetExecutionContext | AssetCheckExecutionContext, metering: Metering, installation: Installation
) -> Run:
    """The run that is being made for the partition's month."""
    return runs.running(metering.connection, installation.period(context.partition_key))
