"""One partition per billing period, and the run that is being made in it.

A key such as 2026-03 names the month, whatever the zone of the installation: services turn it into instants.
"""

from dagster import AssetCheckExecutionContext, AssetExecutionContext, MonthlyPartitionsDefinition

from resources.databases import Metering
from resources.installation import Installation
from tally.domain.run import Run
from tally.services import runs

# The running month is included: a run of it is preliminary.
MONTHS = MonthlyPartitionsDefinition(start_date="2020-01", fmt="%Y-%m", end_offset=1)


def running(
    context: AssetExecutionContext | AssetCheckExecutionContext, metering: Metering, installation: Installation
) -> Run:
    """The run that is being made for the partition's month."""
    return runs.running(metering.connection, installation.period(context.partition_key))
