"""The command itself: its options, and how it ends."""

import signal
import sys
from typing import Annotated

import typer

from tally import __version__
from tally.cli import terminal
from tally.cli.parts import Parts

app = typer.Typer(
    cls=Parts,
    help="Meter and rate cloud resources from their lifecycle events: provable, closable, correctable bills.",
    epilog="Times are UTC, ISO 8601. Settings are TALLY_* variables: docs/reference/settings.md.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run a command and exit; whatever goes wrong is one line on stderr."""
    signal.signal(signal.SIGTERM, terminal.terminated)
    terminal.open_outputs()
    try:
        terminal.refuse_empty(sys.argv)
        status = app(standalone_mode=False, prog_name="tally") or 0
        if status == terminal.INTERRUPTED:  # typer makes Ctrl-C an exit code
            status = terminal.report(KeyboardInterrupt())
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the last door: no traceback leaves it
        status = terminal.report(error)
        terminal.drop_unwritten()
    sys.exit(status)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Show the help where no command is named."""
    if version:
        typer.echo(f"tally {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
