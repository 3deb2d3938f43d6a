"""Delivery of finalized bills to other systems, and how far it is."""

from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import month_of
from tally.domain.delivery import DeliveryStatus
from tally.services import deliver as service
from tally.services import installation
from tally.services.delivery_targets import named, read_targets
from tally.settings import Settings
from tally.store.database import connected

commands = typer.Typer()

Month = Annotated[str, typer.Argument(metavar="PERIOD", help="Only the documents of this month.", show_default=False)]
Target = Annotated[str, typer.Option(metavar="NAME", help="Only this target of TALLY_DELIVERY_TARGETS.")]


@commands.command(epilog="Examples:  tally deliver   |   tally deliver 2026-03 --target erp   |   tally deliver --due")
def deliver(
    period: Month = "",
    target: Target = "",
    due: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--due", help="Leave out what has failed and waits for its next attempt.")
    ] = False,
) -> None:
    """Deliver the documents of finalized months to the targets that do not have them: invoices, credit notes.

    Each arrives once, however often this is called, broken off, or called twice at the same time. Exits with 1 if a
    target has not taken something; tally deliveries says what.
    """
    settings = Settings.from_environment()
    month = str(month_of(period)[1]) if period else None
    destinations = named(read_targets(settings.delivery_targets), target or None)
    with installation.running(settings) as databases:
        outcomes = service.deliver(
            databases.metering_url, destinations, terminal.now, period=month, only_due=due
        )
    tables.delivered(terminal.out(), outcomes)
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)


@commands.command(
    epilog='Examples:  tally resend 2026-03 --target erp --reason "restored from Monday"   |   '
    'tally resend 2026-03-WH5NHBCSDRHVWBXS --target drop --reason "file lost"   |   '
    'tally resend 2026-03 --target erp --withdraw --reason "booked by hand"'
)
def resend(
    what: Annotated[list[str], typer.Argument(metavar="NUMBER|PERIOD...", help="Documents, or all of a month.")],
    target: Annotated[str, typer.Option(metavar="NAME", help="The target that has lost them.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded with your name.")],
    withdraw: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--withdraw", help="End a sending that was asked for so, and that the target does not take.")
    ] = False,
) -> None:
    """Have documents that were delivered sent once more, under the same number and key: by the next tally deliver."""
    change, told = (
        (service.withdraw, "are not sent again after all")
        if withdraw
        else (service.send_again, "are sent again by the next delivery")
    )
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
    ):
        request = service.DocumentRequest(target, what, reason.strip(), terminal.actor(), terminal.now())
        count = change(reporting, metering, request)
    terminal.out().print(f"{target}: {count} document(s) {told}")


@commands.command(epilog="Examples:  tally deliveries   |   tally deliveries 2026-03 --target erp --status delivered")
def deliveries(
    period: Month = "",
    target: Annotated[str, typer.Option(metavar="NAME", help="Only this target.")] = "",
    status: Annotated[
        DeliveryStatus | None, typer.Option(help="Which documents are listed; without it those that have failed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most documents that are listed.")] = 100,
) -> None:
    """Say how far each target is with each month, and list documents: attempts, the last error, the next attempt."""
    month = str(month_of(period)[1]) if period else None
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.metering_url) as metering,
    ):
        if target:
            service.refuse_unknown(metering, target)
        progress = service.progress(metering, month, target or None)
        rows = service.list_deliveries(
            metering, period=month, target=target or None, status=status or "failed", limit=limit
        )
    tables.deliveries(terminal.out(), progress, rows)
