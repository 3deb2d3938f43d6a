"""The life of a month: closed, looked at, finalized, corrected."""

from collections.abc import Mapping
from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import Period, Until, month_of, run_job, say
from tally.domain.errors import Refused
from tally.domain.instants import format_instant
from tally.domain.period import BillingPeriod
from tally.services import bills as bill_service
from tally.services import completeness as completeness_service
from tally.services import corrections as correction_service
from tally.services import finalize as finalization
from tally.services import installation
from tally.services import runs as run_service
from tally.services import waivers as waiver_service
from tally.services.completeness_policy import read_policy
from tally.services.correct import CorrectionRequest
from tally.services.late import finalized_periods
from tally.services.late_effect import late as what_is_late
from tally.services.waivers import read_until
from tally.settings import Settings
from tally.store.database import connected

commands = typer.Typer()


@commands.command(epilog="Examples:  tally close 2026-03   |   tally close 2026-03 --finalize")
def close(
    period: Period,
    finalize: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--finalize", help="Then make it immutable, as tally finalize does.")
    ] = False,
) -> None:
    """Meter, rate and bill a month with everything that has arrived. A later close replaces it, until it is finalized.

    A month that has not ended is metered to date, and cannot be finalized. What a person should look at is printed as
    findings: docs/reference/findings.md. Of a finalized month it is a correction: tally correct.
    """
    settings, month = month_of(period)
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            finalized = correction_service.is_finalized(metering, month)
            run_service.refuse_start(metering, month, terminal.now())
        if finalized:
            if finalize:
                raise Refused(f"{month} is finalized already", [f"correct it: tally correct {month}"])
            terminal.err().print(f"{month} is finalized: this is a correction.")
            _correct(settings, databases, month, {})
            return
        run_job(settings, databases, "close_month", month)
        with connected(databases.metering_url) as metering:
            tables.bills(terminal.out(), bill_service.bills(metering, month))
            tables.findings(terminal.err(), run_service.findings(metering, month))
        if finalize:
            run_job(settings, databases, "finalize_month", month)
            terminal.out().print(f"{month} is finalized: its records never change again.")


@commands.command(
    epilog="Example:  tally finalize 2026-03 --waive unpriced --reason 'free until May, see contract 12'",
)
def finalize(
    period: Period,
    waive: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Let findings of this kind pass; can be repeated.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why they may pass; it is recorded with your name.")] = "",
    until: Until = "",
) -> None:
    """Make a closed month immutable, after its end and grace. Refused, with the reasons, while anything is open."""
    if bool(waive) != bool(reason):
        raise typer.BadParameter("--waive and --reason come together")
    if until and not waive:
        raise typer.BadParameter("--until says when a waiver ends; name --waive and --reason")
    settings, month = month_of(period)
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            finalization.refuse_early(metering, month, settings.grace, terminal.now())
        _waive(settings, databases, month, waive or [], reason, until=until)
        run_job(settings, databases, "finalize_month", month)
    terminal.out().print(f"{month} is finalized: its records never change again.")


@commands.command(epilog="Example:  tally completeness 2026-03")
def completeness(period: Period) -> None:
    """Say what stands between a closed month and its finalization: by kind of finding and cloud, with money at risk.

    Exits with 1 if something blocks that is not waived. What each kind means: docs/reference/findings.md.
    """
    settings, month = month_of(period)
    policy = read_policy(settings.completeness_policy)
    with (
        installation.running(settings) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
    ):
        report = completeness_service.report(reporting, metering, str(month), policy, terminal.now())
    tables.completeness(terminal.out(), report)
    if report.blocks:
        raise typer.Exit(1)


@commands.command(
    epilog="Example:  tally waive 2026-03 dead_letter --cloud os-prod-eu1 --until 2026-05 --reason 'a test system'"
)
def waive(
    period: Period,
    kinds: Annotated[list[str], typer.Argument(metavar="KIND...", help="Kinds of findings that block it.")],
    reason: Annotated[str, typer.Option(help="Why they may pass; it is recorded with your name.")],
    cloud: Annotated[str, typer.Option(help="Only in this cloud.")] = "",
    until: Until = "",
) -> None:
    """Let findings of a kind pass for a month, whether it is to be finalized or to be corrected."""
    settings, month = month_of(period)
    with installation.running(settings) as databases:
        _waive(settings, databases, month, kinds, reason, cloud, until)


@commands.command(epilog="Examples:  tally late   |   tally late 2026-03")
def late(
    period: Annotated[
        str, typer.Argument(metavar="PERIOD", help="Only what is late for this month.", show_default=False)
    ] = "",
) -> None:
    """List what is late for finalized months, with what a correction would change in minutes and money.

    Nothing is written: tally correct does it.
    """
    settings = Settings.from_environment()
    month = month_of(period)[1] if period else None
    with (
        installation.running(settings) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
    ):
        months = [str(month)] if month else [finalized.period for finalized in finalized_periods(metering)]
        for name in months:
            tables.late(terminal.out(), what_is_late(reporting, metering, name))
    if not months:
        terminal.out().print("no month is finalized, so that nothing is late")


@commands.command(
    epilog="Examples:  tally correct 2026-03   |   tally correct 2026-03 --everything --reason 'a rule is mended'"
)
def correct(
    period: Period,
    everything: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--everything", help="Derive all resources again, not only those with later events.")
    ] = False,
    price_version: Annotated[
        str, typer.Option(metavar="VERSION", help="Rate by these prices, not by those it was finalized with.")
    ] = "",
    counters: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--counters", help="Fetch sampled counters again, instead of taking those that are kept.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why; it is recorded with the run. Each option needs one.")] = "",
) -> None:
    """Correct a finalized month by all that has arrived since: reversals and new records, in a run of its own.

    What was finalized stays. Without news nothing is written. tally late says beforehand what it would come to.
    """
    settings, month = month_of(period)
    request = CorrectionRequest(price_version or None, everything, counters, reason.strip() or None)
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            correction_service.refuse_unless_finalized(metering, month)
            run_service.refuse_start(metering, month, terminal.now(), request)
        _correct(settings, databases, month, correction_service.tags(request))


@commands.command()
def periods() -> None:
    """List the months that were closed, and where each stands.

    open: it has not ended. grace: it has ended, and its grace has not. closable: tally finalize may be tried.
    finalized: it never changes again. corrected: corrections stand beside it.
    """
    settings = Settings.from_environment()
    with installation.running(settings) as databases, connected(databases.metering_url) as metering:
        tables.periods(terminal.out(), run_service.periods(metering, settings.grace, terminal.now))


@commands.command()
def runs(
    period: Annotated[
        str, typer.Argument(metavar="PERIOD", help="Only the runs of this month.", show_default=False)
    ] = "",
) -> None:
    """List the runs, the newest first: what each read, what became of it, and why it failed."""
    month = month_of(period)[1] if period else None
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.metering_url) as metering,
    ):
        rows = run_service.runs(metering, month)
        tables.runs(terminal.out(), rows, completeness_service.waivers_of(metering, rows))


def _correct(
    settings: Settings, databases: installation.Databases, month: BillingPeriod, tags: Mapping[str, str]
) -> None:
    run_job(settings, databases, "close_month", month, tags)
    with connected(databases.metering_url) as metering:
        made = correction_service.last_correction(metering, month)
    assert made is not None, "the run of a finalized month is a correction"
    tables.differences(terminal.out(), made)


def _waive(
    settings: Settings,
    databases: installation.Databases,
    month: BillingPeriod,
    kinds: list[str],
    reason: str,
    cloud: str = "",
    until: str = "",
) -> None:
    policy, end = read_policy(settings.completeness_policy), read_until(until, settings.zone) if until else None
    with connected(databases.reporting_url) as reporting, connected(databases.metering_url) as metering:
        for kind in kinds:
            waiver, _ = waiver_service.waive(
                reporting,
                metering,
                month,
                kind,
                reason,
                policy,
                terminal.actor(),
                terminal.now(),
                cloud=cloud,
                until=end,
            )
            ends = f" until {format_instant(waiver.until)}" if waiver.until else ""
            say(f"{kind} is waived for {month}{ends}")
