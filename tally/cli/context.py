"""What commands have in common: arguments, the installation they work on, and how they say what goes on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from tally.cli import terminal
from tally.domain.period import BillingPeriod
from tally.services import installation, orchestrator
from tally.settings import Settings
from tally.store.database import Connection, connected

Period = Annotated[str, typer.Argument(metavar="PERIOD", help="A month such as 2026-03.", show_default=False)]
Metadata = Annotated[str, typer.Option(help='A JSON object, such as \'{"cost_centre": "4711"}\'.', metavar="JSON")]
Reason = Annotated[str, typer.Option(help="Why, if a finalized month is concerned; it is recorded with your name.")]
Until = Annotated[str, typer.Option(metavar="WHEN", help="When it ends: an instant, or a month, at its end.")]


def month_of(text: str) -> tuple[Settings, BillingPeriod]:
    """Read a month in the zone of the installation."""
    settings = Settings.from_environment()
    return settings, BillingPeriod.parse(text, settings.zone)


@contextmanager
def reporting_database() -> Iterator[tuple[Settings, Connection]]:
    """Run the installation, and connect to its reporting database."""
    settings = Settings.from_environment()
    with installation.running(settings) as databases, connected(databases.reporting_url) as reporting:
        yield settings, reporting


def run_job(
    settings: Settings,
    databases: installation.Databases,
    job: str,
    month: BillingPeriod,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Run a job of Dagster for a month, saying how it goes."""
    orchestrator.run_job(settings, databases, job, str(month), actor=terminal.actor(), say=say, tags=tags)


def say(line: str) -> None:
    """Tell how it goes, on stderr."""
    terminal.err().print(line, style="dim", soft_wrap=True)  # one line, however long, also where it is no terminal


def group(name: str, description: str) -> typer.Typer:
    """Make a group of subcommands, such as tally project; alone it shows its help."""
    commands = typer.Typer(name=name, help=description, no_args_is_help=False)

    @commands.callback(invoke_without_command=True)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
            raise typer.Exit(2)

    return commands
