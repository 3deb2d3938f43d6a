"""Bills, and what proves them."""

from functools import partial
from typing import Annotated
from uuid import UUID

import typer

from tally.cli import explanations, tables, terminal
from tally.cli.context import Period, month_of, say
from tally.domain.errors import Refused
from tally.services import bills as bill_service
from tally.services import installation, orchestrator
from tally.services.explain import explain as what_it_stands_on
from tally.services.verify import verify as compare
from tally.settings import Settings
from tally.store.database import connected, reading

commands = typer.Typer()


@commands.command(
    epilog="Examples:  tally bill 2026-03   |   tally bill 2026-03 --project os-prod-eu1/proj-456 --format json"
)
def bill(
    period: Period,
    project: Annotated[str, typer.Option(help="One project, as cloud/project or by its id alone.")] = "",
    form: Annotated[
        tables.BillFormat,
        typer.Option("--format", help="A table, or the documents: a list, or with --project the one document."),
    ] = tables.BillFormat.TABLE,
) -> None:
    """Print the bills of a closed month, as they count: corrections included."""
    settings, month = month_of(period)
    with (
        installation.running(settings) as databases,
        connected(databases.metering_url) as metering,
        reading(metering),  # a run that replaces this one meanwhile takes its documents away
    ):
        rows = bill_service.bills(metering, month, project or None)
        if form is tables.BillFormat.TABLE:
            tables.bills(terminal.out(), rows)
            return
        if project and len(rows) > 1:
            addresses = ", ".join(f"{row.cloud}/{row.project_id}" for row in rows)
            raise Refused(f"{project} is the id of several projects", [f"name one of {addresses}"])
        documents = bill_service.documents(metering, rows)
        if project:
            typer.echo(next(documents))
            return
        typer.echo("[", nl=False)
        for number, document in enumerate(documents):
            typer.echo((",\n" if number else "") + document.rstrip(), nl=False)
        typer.echo("]")


@commands.command(epilog="Example:  tally explain 5f0c2d6e-8f0b-0c9d-9a53-1d4e2f7a6b10 --period 2026-03")
def explain(
    record: Annotated[
        UUID, typer.Argument(metavar="ID", help="The id of a rated record: x_RatedRecordId of a FOCUS export.")
    ],
    period: Annotated[str, typer.Option(help="The month it is of; without it, all months are searched.")] = "",
) -> None:
    """Explain a cost from the cent to the events: the formula in numbers, prices, usage, events, run, reversals."""
    month = str(month_of(period)[1]) if period else None
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.metering_url) as metering,
    ):
        explanations.explanation(terminal.out(), what_it_stands_on(metering, record, month))


@commands.command(epilog="Example:  tally verify 2026-03")
def verify(period: Period) -> None:
    """Prove a finalized month: its hashes, its bills, and a replay of its usage and costs from the kept inputs.

    Nothing is changed; other runs wait meanwhile. Exits with 1 if something differs, and names it.
    """
    settings, month = month_of(period)
    with installation.running(settings) as databases, connected(databases.metering_url) as metering:
        found = compare(metering, str(month), partial(orchestrator.run_replay, settings, databases, say=say), say)
    tables.verified(terminal.out(), found)
    if found.differences:
        raise typer.Exit(1)
