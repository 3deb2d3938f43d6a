"""A month of two bills, finalized in April, and corrected by a delete that came late: what is handed on of it.

`shop` runs an m1.large (4 vcpus, 8 GB, 80 GB: 0.20 an hour), which is off for ten days at half the price and sends
18.5 GB out, and a volume of 100 GB ssd, of 200 GB from the 16th. The volume of `shop-archive` is billed with it. `gone`
runs an m1.large, too: that it was deleted on the 20th at noon is known on the 12th of April (S55).

Both are managed by a partner: `shop` pays 5 % more for instances and then 10 % less for everything, `gone` 10 % less;
what the partner is paid for `shop` is nobody's bill. After the month is finalized, all projects get other names and
tags.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.bill_documents import BillForm, export_bills
from tally.services.focus_export import Names, export_focus
from tally.services.projects import ProjectPatch, create_project, patch_project
from tally.services.relations import relate
from tally.store.database import Connection
from tally.store.reporting.projects import select_projects
from tests.conftest import fresh_databases
from tests.integration.closing import instance
from tests.integration.month_by_hand import run_month
from tests.integration.registering import TENANT, change, day
from tests.integration.sending import CLOUD, send

PERIOD = "2026-03"
ISSUED = datetime(2026, 4, 4, 9, tzinfo=UTC)
CORRECTED = datetime(2026, 4, 12, 8, 30, tzinfo=UTC)
LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}

_PROJECTS = {
    "shop": ("Web Shop", {"cost_centre": "4711", "production": True}),
    "shop-archive": ("Web Shop, archive", {"cost_centre": "4712"}),
    "gone": (None, {}),
    "partner": ("Partner Corp", {}),
}
_OPERATION = "Managed operation"
_REBATE = {"type": "discount", "description": "Partner discount", "rate": Decimal("0.10"), "scope": "all"}
_AGREED = {
    "shop": [
        {"type": "surcharge", "description": _OPERATION, "rate": Decimal("0.05"), "scope": "openstack.instance"},
        _REBATE,
        {"type": "kickback", "rate": Decimal("0.10"), "scope": "all"},
    ],
    "gone": [_REBATE],
}


def _volume(
    event_id: str, when: str, event_type: str, resource_id: str, project: str, size_gb: int
) -> dict[str, object]:
    size = {"size_gb": size_gb, "type": "ssd"}
    event = instance(event_id, when, "", resource_id, project_id=project, size=size)
    return event | {"event_type": f"volume.{event_type}", "resource_type": "volume"}


IN_TIME = (
    instance("h-1", "02-10T08:00:00", "create.end", "web", project_id="shop", size=LARGE),
    instance("h-2", "03-05T12:00:00", "", "web", project_id="shop", payload={"usage": {"egress_gb": 18.5}})
    | {"event_type": "instance.usage"},
    instance("h-3", "03-11T00:00:00", "power_off.end", "web", project_id="shop"),
    instance("h-4", "03-21T00:00:00", "power_on.end", "web", project_id="shop"),
    _volume("h-5", "02-10T08:00:00", "create.end", "data", "shop", 100),
    _volume("h-6", "03-16T00:00:00", "resize.end", "data", "shop", 200),
    _volume("h-7", "03-01T00:20:00", "create.end", "tapes", "shop-archive", 100),
    instance("h-8", "02-01T00:00:00", "create.end", "old", project_id="gone", size=LARGE),
)
LATE = instance("h-9", "03-20T12:00:00", "delete.end", "old", project_id="gone")


NAMES = Names("Example Cloud", "Example Cloud", "Example Cloud")


@dataclass(frozen=True)
class HandedMonth:
    """The two runs of the month, and the folder with a folder of each format in it."""

    metering: Connection
    regular: Run
    correction: Run
    folder: Path


@contextmanager
def handed_month(
    server_url: str, reporting_template: str, metering_template: str, folder: Path
) -> Iterator[HandedMonth]:
    """Close the month, finalize it, correct it, and write all that is handed on."""
    with fresh_databases(server_url, reporting_template, metering_template) as (reporting, metering):
        for project, (name, metadata) in _PROJECTS.items():
            create_project(reporting, "openstack", CLOUD, project, name, metadata, "test")
        relate(reporting, f"{CLOUD}/shop", f"{CLOUD}/shop-archive", TENANT, day("2026-01-01"), None, None, change())
        for project, agreed in _AGREED.items():
            source, target, terms = f"{CLOUD}/{project}", f"{CLOUD}/partner", {"pricing_adjustments": agreed}
            relate(reporting, source, target, "managed_by", day("2026-01-01"), None, terms, change())
        send(reporting, *IN_TIME)
        regular = run_month(reporting, metering, now=ISSUED)
        for project in select_projects(reporting):
            patch = ProjectPatch(name=f"new {project.external_id}", metadata={"cost_centre": "9999"})
            patch_project(reporting, project.id, patch, "test")
        send(reporting, LATE)
        correction = run_month(reporting, metering, now=CORRECTED)
        for form in ("csv", "parquet"):
            export_focus(metering, BillingPeriod.parse(PERIOD), form, folder / f"focus-{form}", NAMES, CORRECTED)
        for bill_form in BillForm:
            export_bills(metering, correction, bill_form, folder / bill_form, NAMES.issuer)
        yield HandedMonth(metering, regular, correction, folder)
