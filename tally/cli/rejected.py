"""Dead letters: seen, and tried again."""

from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import group, reporting_database
from tally.services import rejected as rejected_service
from tally.services.ingest import Ingest
from tally.store.reporting.rejected import LetterFilter

commands = group("rejected", "See what was rejected, and try it again after the mending.")


def _known(reason: str) -> str:
    """Refuse a reason that there is none of: a misspelt one would look like nothing rejected."""
    if reason and reason not in rejected_service.REASONS:
        known = ", ".join(sorted(rejected_service.REASONS))
        raise typer.BadParameter(f"{reason!r} is no reason for which events are rejected; there are {known}")
    return reason


@commands.command("list", epilog="Example:  tally rejected list --reason unknown_event_type --cloud os-prod-eu1")
def rejected_list(
    reason: Annotated[
        str, typer.Option(callback=_known, help="Only those rejected for this reason: docs/reference/events.md.")
    ] = "",
    cloud: Annotated[str, typer.Option(help="Only those of this cloud.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those that have been taken since, too.")] = False,  # noqa: FBT002 - a flag
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")] = 100,
    before: Annotated[
        int | None, typer.Option(min=1, max=2**63 - 1, metavar="ID", help="Only those with a smaller id.")
    ] = None,
) -> None:
    """List rejected events, the newest first."""
    which = LetterFilter(reason or None, cloud or None, replayed=None if everything else False)
    with reporting_database() as (_, reporting):
        letters = rejected_service.list_letters(reporting, which, after=before, limit=limit)
    tables.rejected(terminal.out(), letters)
    if len(letters) == limit:
        terminal.err().print(f"there may be more: --before {letters[-1].id}")


@commands.command("show", epilog="Example:  tally rejected show 17 > event.json")
def rejected_show(
    number: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Its id: tally rejected list.")],
) -> None:
    """Print what was sent, byte for byte; why it was rejected goes to standard error."""
    with reporting_database() as (_, reporting):
        letter = rejected_service.show_letter(reporting, number)
    tables.rejected(terminal.err(), [letter.row])
    typer.echo(letter.raw, nl=False)


@commands.command(
    "replay", epilog="Examples:  tally rejected replay --reason unknown_event_type   |   tally rejected replay --id 17"
)
def rejected_replay(
    reason: Annotated[str, typer.Option(callback=_known, help="All that were rejected for this reason.")] = "",
    cloud: Annotated[str, typer.Option(help="Of these, only those of this cloud.")] = "",
    number: Annotated[int | None, typer.Option("--id", metavar="ID", min=1, max=2**63 - 1, help="Or this one.")] = None,
) -> None:
    """Try rejected events again. What is taken is done with; what is rejected again stays, with the reason of now.

    Exits with 1 if anything was rejected again.
    """
    if bool(reason) == bool(number) or (cloud and number):
        raise typer.BadParameter("name either --reason, and perhaps --cloud, or --id")
    with reporting_database() as (settings, reporting):
        door = Ingest(reporting, clock=terminal.now, clock_skew=settings.clock_skew, actor=terminal.actor())
        if number:
            replay = rejected_service.replay_one(reporting, door, number, terminal.actor())
        else:
            which = LetterFilter(reason, cloud or None)
            with terminal.counting("events", rejected_service.count_open(reporting, which)) as progress:
                replay = rejected_service.replay_all(reporting, door, which, terminal.actor(), progress)
    tables.replay(terminal.out(), replay)
    if replay.results["rejected"]:
        raise typer.Exit(1)
