"""Taking events in."""

from contextlib import ExitStack
from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.services import installation
from tally.services.ingest import Ingest
from tally.services.ingest_files import Format, Summary, ingest_stream
from tally.settings import Settings
from tally.store.database import connected

commands = typer.Typer()


@commands.command(
    epilog="Examples:  tally ingest events.jsonl   |   tally ingest --format nova --cloud os-prod-eu1 nova.log"
)
def ingest(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files to read; - is standard input.")],
    form: Annotated[
        Format, typer.Option("--format", help="Tally events (docs/reference/events.md), or notifications of nova.")
    ] = Format.TALLY,
    cloud: Annotated[str, typer.Option(help="The cloud that sent the notifications; events name it themselves.")] = "",
) -> None:
    """Take events in. A repeated event is counted, not stored; what is rejected is kept as a dead letter.

    Exits with 1 if anything was rejected, and says why.
    """
    if (form is Format.NOVA) != bool(cloud):
        raise typer.BadParameter("--format nova needs --cloud, and events name their cloud themselves")
    settings = Settings.from_environment()
    summary = Summary()
    with ExitStack() as stack:
        streams = [(name, stack.enter_context(terminal.opened(name))) for name in files]
        databases = stack.enter_context(installation.running(settings))
        reporting = stack.enter_context(connected(databases.reporting_url))
        door = Ingest(reporting, clock=terminal.now, clock_skew=settings.clock_skew, actor=terminal.actor())
        for name, stream in streams:
            with terminal.progress(name, stream) as progress, terminal.readable(name):
                ingest_stream(door, stream, form, cloud, summary, progress)
    tables.summary(terminal.out(), summary)
    if summary.rejected:
        raise typer.Exit(1)
