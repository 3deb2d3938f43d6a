"""What partners are owed."""

from enum import StrEnum
from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import Period, month_of
from tally.services import installation
from tally.services.kickbacks import as_csv, as_json, kickbacks
from tally.store.database import connected

commands = typer.Typer()


class Format(StrEnum):
    """How the report is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@commands.command(epilog="Examples:  tally kickback 2026-03   |   tally kickback 2026-03 --partner corp --format csv")
def kickback(
    period: Period,
    partner: Annotated[str, typer.Option(help="One partner, as cloud/project or by its id alone.")] = "",
    form: Annotated[
        Format, typer.Option("--format", help="A table of partners, or with each bill behind them json or csv.")
    ] = Format.TABLE,
) -> None:
    """Print what partners are owed for a closed month, as it counts: corrections included."""
    settings, month = month_of(period)
    with installation.running(settings) as databases, connected(databases.metering_url) as metering:
        report = kickbacks(metering, str(month), partner or None)
    if form is Format.TABLE:
        tables.kickbacks(terminal.out(), report.partners)
    else:
        typer.echo(as_json(report) if form is Format.JSON else as_csv(report), nl=form is Format.JSON)
