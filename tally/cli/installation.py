"""The installation: its servers, its databases, its example."""

from contextlib import suppress
from functools import partial
from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import month_of, reporting_database, run_job, say
from tally.domain.errors import InvalidInput
from tally.services import bills as bill_service
from tally.services import installation, orchestrator, projection
from tally.services import runs as run_service
from tally.services.bill_documents import BillForm, export_bills
from tally.services.clouds import find_cloud
from tally.services.demo import PERIOD as EXAMPLE_PERIOD
from tally.services.demo import load_example
from tally.services.handover import bring_together, events_to_look_at
from tally.services.ingest import Ingest
from tally.services.ledger_queries import latest
from tally.services.runs import metering_lock
from tally.services.timelines import derive_again
from tally.settings import Settings
from tally.store.database import connected, reading

commands = typer.Typer()


@commands.command()
def up() -> None:
    """Run PostgreSQL, the Dagster webserver and its daemon until Ctrl-C, which stops everything.

    The graph of assets is at /asset-groups, the runs at /runs. Materialize all there closes months, or corrects those
    that are finalized; only the job finalize_month finalizes one.
    """
    settings = Settings.from_environment()
    with installation.running(settings) as databases, suppress(KeyboardInterrupt):
        orchestrator.up(settings, databases, terminal.out().print)


@commands.command(epilog="Examples:  tally api   |   tally api --host 0.0.0.0   |   tally api --development")
def api(
    host: Annotated[str, typer.Option(help="Address to listen on; the port is TALLY_API_PORT.")] = "127.0.0.1",
    development: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--development", help="Without authentication, and for this machine only.")
    ] = False,
) -> None:
    """Serve the Reporting API until Ctrl-C: events in; inventory, history, usage and bills out.

    Callers need a token: tally credential create, or an OIDC issuer: docs/reference/security.md.
    """
    from tally.api.server import serve

    settings = Settings.from_environment()
    with installation.running(settings) as databases:
        serve(settings, databases, host, development=development, say=partial(typer.echo, err=True))


@commands.command()
def demo() -> None:
    """Take in the example month, close it, and show its bills. Nothing is left running.

    Its events stay in TALLY_HOME. Set another TALLY_HOME for data of your own.
    """
    settings, month = month_of(EXAMPLE_PERIOD)
    with installation.running(settings) as databases:
        with connected(databases.reporting_url) as reporting:
            tables.summary(terminal.out(), load_example(reporting, settings, terminal.actor(), terminal.now))
        with connected(databases.metering_url) as metering:
            finalized = any(run.status == "finalized" for run in run_service.runs(metering, month))
        if finalized:
            terminal.err().print(f"{month} is finalized already: these are its bills.")
        else:
            run_job(settings, databases, "close_month", month)
        with connected(databases.metering_url) as metering, reading(metering):
            rows, run = bill_service.bills(metering, month), latest(metering, str(month))
            paths = export_bills(metering, run, BillForm.JSON, settings.home / "bills" / str(month), issuer="")
    tables.bills(terminal.out(), rows, paths)


@commands.command()
def migrate() -> None:
    """Bring the databases up to date, and say what was changed. Every command does; this one says so.

    Resource types and price files that are new are loaded, too.
    """
    settings = Settings.from_environment()
    with installation.serving(settings) as databases:
        tables.prepared(terminal.out(), installation.prepare(databases, settings.prices))


@commands.command(
    epilog="Examples:  tally rebuild --cloud os-prod-eu1   |   tally rebuild --timelines   |   tally rebuild --events"
)
def rebuild(
    cloud: Annotated[str, typer.Option(help="Only the resources of this cloud.")] = "",
    timelines: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--timelines", help="Instead, let the next close derive the timelines of all clouds again.")
    ] = False,
    events: Annotated[  # noqa: FBT002 - a flag
        bool,
        typer.Option(
            "--events", help="Instead, bring two databases together of which one was restored from a backup."
        ),
    ] = False,
) -> None:
    """Replay the current state of all resources from their events. Ingestion goes on meanwhile.

    It can be broken off at any time, and begun again.
    """
    if sum([bool(cloud), timelines, events]) > 1:
        raise InvalidInput("--cloud, --timelines and --events exclude each other; only current state has a --cloud")
    if timelines:
        _derive_timelines_again()
        return
    if events:
        _bring_databases_together()
        return
    with reporting_database() as (_, reporting):
        if cloud:
            find_cloud(reporting, cloud)
        total = projection.size(reporting, cloud or None)
        with terminal.counting("resources", total) as progress:
            replayed = projection.rebuild(reporting, cloud or None, progress=progress)
    terminal.out().print(f"replayed {replayed} resources")


def _bring_databases_together() -> None:
    settings = Settings.from_environment()
    with (
        installation.running(settings) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
        metering_lock(metering, say=say),
        terminal.counting("events", events_to_look_at(reporting, metering)) as progress,
    ):
        door = Ingest(reporting, clock=terminal.now, clock_skew=settings.clock_skew, actor=terminal.actor())
        done = bring_together(reporting, metering, door, progress)
    tables.brought_together(terminal.out(), done)
    if done.rejected:
        raise typer.Exit(1)


def _derive_timelines_again() -> None:
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.metering_url) as metering,
    ):
        derive_again(metering, say)
    terminal.out().print("the next close derives all timelines again: tally close PERIOD")
