"""The code location, assembled. Assets, checks, jobs and resources are defined in the modules they are taken from."""

from collections.abc import Mapping
from typing import Any

from dagster import Definitions, ResourceDefinition, definitions, in_process_executor

from assets import events, ledger
from assets.checks import invariant_checks
from assets.models import model_assets
from assets.watch import watching_checks
from resources.clock import Clock
from resources.counters import SampledCounters
from resources.databases import Databases, Metering
from resources.dbt import Dbt
from resources.expectations import Expectations
from resources.installation import Installation
from resources.manifest import manifest_path
from resources.platforms import Platforms
from tally_dagster.jobs import close_month, deliver_documents, finalize_month, reconcile
from tally_dagster.progress import progress
from tally_dagster.schedules import month_to_date
from tally_dagster.sensors import SENSORS

_HAVE_FIELDS = {"databases", "installation", "clock", "sampled_counters"}


def build_definitions(resource_overrides: Mapping[str, Any] | None = None) -> Definitions:
    """All definitions; tests override resources such as ``databases`` and ``clock``."""
    databases = (resource_overrides or {}).get("databases", Databases())
    resources = {
        "databases": databases,
        "metering": Metering(databases=databases),
        "dbt": Dbt(databases=databases),
        "expectations": Expectations(databases=databases),
        "installation": Installation(),
        "clock": Clock(),
        "sampled_counters": SampledCounters(),
        "platforms": Platforms(),
    }
    return Definitions(
        assets=[
            events.load,
            events.prices,
            *model_assets(manifest_path()),
            ledger.usage_records,
            ledger.rated_records,
            ledger.bills,
            ledger.completed_run,
            ledger.finalized_period,
        ],
        asset_checks=[*invariant_checks(), *watching_checks()],
        jobs=[close_month, deliver_documents, finalize_month, reconcile],
        schedules=[month_to_date()],
        sensors=SENSORS,
        resources={name: _as_loaded(name, made) for name, made in (resources | dict(resource_overrides or {})).items()},
        loggers={"progress": progress},
        # One process per run, also for what is materialized by hand: the metering lock belongs to a connection.
        executor=in_process_executor,
    )


def _as_loaded(name: str, made: Any) -> Any:
    """A resource that no run can set otherwise.

    Dagster offers the fields of a resource to whoever launches a run. By its clock or its grace a month could be
    finalized too early, and by its databases be metered elsewhere.
    """
    return ResourceDefinition(lambda _: made, config_schema={}) if name in _HAVE_FIELDS else made


@definitions
def defs() -> Definitions:
    """What the webserver, the daemon and ``dagster definitions validate`` find in this module."""
    return build_definitions()
