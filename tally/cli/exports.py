"""Bills and charges as files for others: pages, CSV, FOCUS."""

from collections.abc import Collection
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tally.cli import terminal
from tally.cli.context import Period, month_of
from tally.domain.errors import InvalidInput
from tally.domain.period import BillingPeriod
from tally.services import bills as bill_service
from tally.services import installation
from tally.services.bill_documents import BillForm, export_bills
from tally.services.documents import path_of
from tally.services.focus_export import Names, export_focus
from tally.services.ledger_queries import latest
from tally.settings import Settings
from tally.store.database import Connection, connected

commands = typer.Typer()


class ExportFormat(StrEnum):
    """What is written."""

    HTML = "html"
    CSV = "csv"
    JSON = "json"
    FOCUS_CSV = "focus-csv"
    FOCUS_PARQUET = "focus-parquet"


@commands.command(
    epilog="Examples:  tally export 2026-03 --format html --to /srv/bills   |   "
    "tally export 2026-03 --format focus-parquet --to /srv/focus --project os-prod-eu1/proj-456"
)
def export(
    period: Period,
    form: Annotated[ExportFormat, typer.Option("--format", help="Bills as html, csv or json; charges as focus.")],
    to: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where; PERIOD/FORMAT is made, or replaced, in it.")],
    project: Annotated[str, typer.Option(help="One billed project, as cloud/project or by its id alone.")] = "",
) -> None:
    """Write the bills of a month, or its charges as FOCUS 1.2 datasets, as files.

    A bill is a file of its own: DIRECTORY/PERIOD/FORMAT/CLOUD/PROJECT. FOCUS is one file for the month, and one for
    each correction of it. Files appear when they are whole.
    """
    settings, month = month_of(period)
    if to.exists() and not to.is_dir():
        raise InvalidInput(f"{to} is no directory")
    with (
        installation.running(settings) as databases,
        connected(databases.metering_url) as metering,
    ):
        billed = _billed(metering, month, project) if project else None
        for path in _export(metering, settings, month, form, to / str(month) / form, billed):
            terminal.out().print(str(path), soft_wrap=True)


def _billed(metering: Connection, month: BillingPeriod, project: str) -> list[tuple[str, str]]:
    return [(bill.cloud, bill.project_id) for bill in bill_service.bills(metering, month, project)]


def _export(
    metering: Connection,
    settings: Settings,
    month: BillingPeriod,
    form: ExportFormat,
    folder: Path,
    billed: Collection[tuple[str, str]] | None,
) -> list[Path]:
    if form in {ExportFormat.FOCUS_CSV, ExportFormat.FOCUS_PARQUET}:
        file_type, names = form.removeprefix("focus-"), Names.of(settings)
        write = partial(export_focus, metering, month, file_type, names=names, now=terminal.now())
        if billed is None:
            return write(folder)
        return [path for project in billed for path in write(folder / path_of(*project, ""), billed=[project])]
    issuer = settings.invoice_issuer_name or settings.provider_name
    return export_bills(metering, latest(metering, str(month)), BillForm(form), folder, issuer, billed)
