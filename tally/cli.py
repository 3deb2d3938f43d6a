"""The command line: reads arguments, calls services, prints. No rule of metering or billing stands here.

Exit codes: 0 done, 1 refused or failed (or events were rejected), 2 wrong usage, 130 interrupted. An error is one line
on stderr. Tables and documents go to stdout, progress to stderr.
"""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Annotated
from uuid import UUID

import typer

from tally import __version__, explanations, tables, terminal
from tally.domain.errors import Refused
from tally.domain.instants import format_instant, parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.principal import Role, Scope
from tally.services import bills as bill_service
from tally.services import clouds as cloud_service
from tally.services import completeness as completeness_service
from tally.services import corrections as correction_service
from tally.services import credentials as credential_service
from tally.services import installation, orchestrator, projection
from tally.services import projects as project_service
from tally.services import rejected as rejected_service
from tally.services import relations as relation_service
from tally.services import runs as run_service
from tally.services import waivers as waiver_service
from tally.services.completeness_policy import read_policy
from tally.services.correct import CorrectionRequest
from tally.services.demo import PERIOD as EXAMPLE_PERIOD
from tally.services.demo import load_example
from tally.services.documents import write_documents
from tally.services.explain import explain as what_it_stands_on
from tally.services.ingest import Ingest
from tally.services.ingest_files import Format, Summary, ingest_stream
from tally.services.late import finalized_periods
from tally.services.late_effect import late as what_is_late
from tally.services.verify import verify as compare
from tally.services.waivers import read_until
from tally.settings import Settings
from tally.store.database import Connection, connected
from tally.store.reporting.rejected import LetterFilter

app = typer.Typer(
    help="Meter and rate cloud resources from their lifecycle events: provable, closable, correctable bills.",
    epilog="Times are UTC, ISO 8601. Settings are TALLY_* variables: docs/reference/settings.md.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
project_app = typer.Typer(help="Register projects and say how they relate: who pays for whom.", no_args_is_help=False)
app.add_typer(project_app, name="project")
cloud_app = typer.Typer(help="Register the installations of platforms.", no_args_is_help=False)
app.add_typer(cloud_app, name="cloud")
credential_app = typer.Typer(help="Let collectors and other programs call the API.", no_args_is_help=False)
app.add_typer(credential_app, name="credential")
rejected_app = typer.Typer(help="See what was rejected, and try it again after the mending.", no_args_is_help=False)
app.add_typer(rejected_app, name="rejected")

Period = Annotated[str, typer.Argument(metavar="PERIOD", help="A month such as 2026-03.", show_default=False)]
Metadata = Annotated[str, typer.Option(help='A JSON object, such as \'{"cost_centre": "4711"}\'.', metavar="JSON")]
Reason = Annotated[str, typer.Option(help="Why, if a finalized month is concerned; it is recorded with your name.")]


Until = Annotated[str, typer.Option(metavar="WHEN", help="When it ends: an instant, or a month, at its end.")]


def main() -> None:
    """Run a command and exit; whatever goes wrong is one line on stderr."""
    signal.signal(signal.SIGTERM, terminal.terminated)
    try:
        status = app(standalone_mode=False) or 0
        if status == terminal.INTERRUPTED:  # typer makes Ctrl-C an exit code
            status = terminal.report(KeyboardInterrupt())
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the last door: no traceback leaves it
        status = terminal.report(error)
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


@app.command(
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


@app.command(epilog="Examples:  tally close 2026-03   |   tally close 2026-03 --finalize")
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
    settings, month = _month(period)
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            finalized = correction_service.is_finalized(metering, month)
        if finalized:
            if finalize:
                raise Refused(f"{month} is finalized already", [f"correct it: tally correct {month}"])
            terminal.err().print(f"{month} is finalized: this is a correction.", markup=False)
            _correct(settings, databases, month, {})
            return
        _job(settings, databases, "close_month", month)
        with connected(databases.metering_url) as metering:
            tables.bills(terminal.out(), bill_service.bills(metering, month))
            tables.findings(terminal.err(), run_service.findings(metering, month))
        if finalize:
            _job(settings, databases, "finalize_month", month)
            terminal.out().print(f"{month} is finalized: its records never change again.")


@app.command(
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
    settings, month = _month(period)
    with installation.running(settings) as databases:
        _waive(settings, databases, month, waive or [], reason, until=until)
        _job(settings, databases, "finalize_month", month)
    terminal.out().print(f"{month} is finalized: its records never change again.")


@app.command(epilog="Example:  tally completeness 2026-03")
def completeness(period: Period) -> None:
    """Say what stands between a closed month and its finalization: by kind of finding and cloud, with money at risk.

    Exits with 1 if something blocks that is not waived. What each kind means: docs/reference/findings.md.
    """
    settings, month = _month(period)
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


@app.command(
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
    settings, month = _month(period)
    with installation.running(settings) as databases:
        _waive(settings, databases, month, kinds, reason, cloud, until)


@app.command(epilog="Examples:  tally late   |   tally late 2026-03")
def late(
    period: Annotated[
        str, typer.Argument(metavar="PERIOD", help="Only what is late for this month.", show_default=False)
    ] = "",
) -> None:
    """List what is late for finalized months, with what a correction would change in minutes and money.

    Nothing is written: tally correct does it.
    """
    settings = Settings.from_environment()
    month = _month(period)[1] if period else None
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


@app.command(
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
    settings, month = _month(period)
    request = CorrectionRequest(price_version or None, everything, counters, reason.strip() or None)
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            correction_service.refuse_unless_finalized(metering, month)
        _correct(settings, databases, month, correction_service.tags(request))


@app.command(
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
    settings, month = _month(period)
    with installation.running(settings) as databases, connected(databases.metering_url) as metering:
        rows = bill_service.bills(metering, month, project or None)
    if form is tables.BillFormat.TABLE:
        tables.bills(terminal.out(), rows)
        return
    if project and len(rows) > 1:
        addresses = ", ".join(f"{row.cloud}/{row.project_id}" for row in rows)
        raise Refused(f"{project} is the id of several projects", [f"name one of {addresses}"])
    typer.echo(rows[0].document if project else "[" + ",\n".join(row.document.rstrip() for row in rows) + "]")


@app.command(epilog="Example:  tally explain 5f0c2d6e-8f0b-0c9d-9a53-1d4e2f7a6b10 --period 2026-03")
def explain(
    record: Annotated[UUID, typer.Argument(metavar="ID", help="The id of a rated record.")],
    period: Annotated[str, typer.Option(help="The month it is of; without it, all months are searched.")] = "",
) -> None:
    """Explain a cost from the cent to the events: the formula in numbers, prices, usage, events, run, reversals."""
    month = str(_month(period)[1]) if period else None
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.metering_url) as metering,
    ):
        explanations.explanation(terminal.out(), what_it_stands_on(metering, record, month))


@app.command(epilog="Example:  tally verify 2026-03")
def verify(period: Period) -> None:
    """Prove a finalized month: its hashes, its bills, and a replay of its usage and costs from the kept inputs.

    Nothing is changed; other runs wait meanwhile. Exits with 1 if something differs, and names it.
    """
    settings, month = _month(period)
    with installation.running(settings) as databases, connected(databases.metering_url) as metering:
        found = compare(metering, str(month), partial(orchestrator.run_replay, settings, databases, say=_say))
    tables.verified(terminal.out(), found)
    if found.differences:
        raise typer.Exit(1)


@app.command()
def periods() -> None:
    """List the months that were closed, and where each stands.

    open: it has not ended. grace: it has ended, and its grace has not. closable: tally finalize may be tried.
    finalized: it never changes again. corrected: corrections stand beside it.
    """
    settings = Settings.from_environment()
    with installation.running(settings) as databases, connected(databases.metering_url) as metering:
        tables.periods(terminal.out(), run_service.periods(metering, settings.grace, terminal.now))


@app.command()
def runs(
    period: Annotated[
        str, typer.Argument(metavar="PERIOD", help="Only the runs of this month.", show_default=False)
    ] = "",
) -> None:
    """List the runs, the newest first: what each read, what became of it, and why it failed."""
    month = _month(period)[1] if period else None
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.metering_url) as metering,
    ):
        rows = run_service.runs(metering, month)
        tables.runs(terminal.out(), rows, completeness_service.waivers_of(metering, rows))


@app.command()
def up() -> None:
    """Run PostgreSQL, the Dagster webserver and its daemon until Ctrl-C, which stops everything.

    The graph of assets is at /asset-groups, the runs at /runs. Materialize all there would finalize too: launch the job
    close_month for a month instead.
    """
    settings = Settings.from_environment()
    with installation.running(settings) as databases, suppress(KeyboardInterrupt):
        orchestrator.up(settings, databases, terminal.out().print)


@app.command(epilog="Examples:  tally api   |   tally api --host 0.0.0.0   |   tally api --development")
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


@app.command()
def demo() -> None:
    """Take in the example month, close it, and show its bills. Nothing is left running.

    Its events stay in TALLY_HOME. Set another TALLY_HOME for data of your own.
    """
    settings, month = _month(EXAMPLE_PERIOD)
    with installation.running(settings) as databases:
        with connected(databases.reporting_url) as reporting:
            tables.summary(terminal.out(), load_example(reporting, settings, terminal.actor(), terminal.now))
        with connected(databases.metering_url) as metering:
            finalized = any(run.status == "finalized" for run in run_service.runs(metering, month))
        if finalized:
            terminal.err().print(f"{month} is finalized already: these are its bills.")
        else:
            _job(settings, databases, "close_month", month)
        with connected(databases.metering_url) as metering:
            rows = bill_service.bills(metering, month)
    tables.bills(terminal.out(), rows, write_documents(rows, settings.home / "bills" / str(month)))


@app.command()
def migrate() -> None:
    """Bring the databases up to date, and say what was changed. Every command does; this one says so.

    Resource types and price files that are new are loaded, too.
    """
    settings = Settings.from_environment()
    with installation.serving(settings) as databases:
        tables.prepared(terminal.out(), installation.prepare(databases, settings.prices))


@app.command(epilog="Examples:  tally rebuild   |   tally rebuild --cloud os-prod-eu1")
def rebuild(
    cloud: Annotated[str, typer.Option(help="Only the resources of this cloud.")] = "",
) -> None:
    """Replay the current state of all resources from their events. Ingestion goes on meanwhile.

    It can be broken off at any time, and begun again.
    """
    with _reporting() as (_, reporting):
        total = projection.size(reporting, cloud or None)
        with terminal.counting("resources", total) as progress:
            replayed = projection.rebuild(reporting, cloud or None, progress=progress)
    terminal.out().print(f"replayed {replayed} resources")


@project_app.callback(invoke_without_command=True)
def project_root(context: typer.Context) -> None:
    """Show the help where no command is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@project_app.command(
    "create", epilog="Example:  tally project create os-prod-eu1/proj-456 --platform openstack --name 'Web shop'"
)
def project_create(
    project: Annotated[str, typer.Argument(metavar="CLOUD/PROJECT", help="The cloud, and the project's id in it.")],
    platform: Annotated[
        str, typer.Option(help="As in the registry of resource types, such as openstack; meta for a group of projects.")
    ],
    name: Annotated[str, typer.Option(help="What people call it.")] = "",
    metadata: Metadata = "{}",
) -> None:
    """Register a project, and its cloud if that is new. The same project again changes nothing."""
    cloud, slash, external_id = project.partition("/")
    if not slash:
        raise typer.BadParameter(f"{project!r} is no project; write cloud/project")
    values = terminal.json_object(metadata)
    with _reporting() as (_, reporting):
        created = project_service.create_project(
            reporting, platform, cloud, external_id, name or None, values, terminal.actor()
        )
    terminal.out().print(f"{created.address} {created.id}")


@project_app.command(
    "relate",
    epilog="Example:  tally project relate gardener-prod/team-alpha os-prod-eu1/shoot-abc infrastructure_tenant "
    "--from 2026-02-25T10:00:00Z",
)
def project_relate(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Where it starts, as cloud/project: who pays.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where it leads, as cloud/project: who is paid for.")],
    relation_type: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="infrastructure_tenant (TARGET is billed inside the bill of SOURCE), managed_by, member_of, "
            "same_owner or image_source.",
        ),
    ],
    valid_from: Annotated[
        str, typer.Option("--from", metavar="INSTANT", help="When it begins, such as 2026-03-01T00:00:00Z.")
    ],
    valid_to: Annotated[
        str, typer.Option("--to", metavar="INSTANT", help="When it ends (exclusive); open if absent.")
    ] = "",
    metadata: Metadata = "{}",
    reason: Reason = "",
) -> None:
    """Relate two projects, each written cloud/project. The same relation again changes nothing."""
    begin, end = parse_instant(valid_from), parse_instant(valid_to) if valid_to else None
    values = terminal.json_object(metadata)
    with _relating(reason) as (reporting, change):
        written = relation_service.relate(reporting, source, target, relation_type, begin, end, values, change)
    terminal.out().print(f"{source} {written.relation.type} {target} {written.relation.id}")


@project_app.command(
    "close", epilog="Example:  tally project close 0b6c1f0e-5c58-4bb1-9bd0-6f0e7d0c4f11 --to 2026-04-01T00:00:00Z"
)
def project_close(
    relation: Annotated[UUID, typer.Argument(metavar="RELATION", help="The id of the relation: tally project list.")],
    valid_to: Annotated[
        str, typer.Option("--to", metavar="INSTANT", help="When it ends (exclusive); now if absent.")
    ] = "",
    reason: Reason = "",
) -> None:
    """End a relation. It is kept, and still counts for every month that it was valid in.

    One that ends where it begins never counts.
    """
    end = parse_instant(valid_to) if valid_to else None
    with _relating(reason) as (reporting, change):
        closed = relation_service.close_relation(reporting, relation, end, change).relation
    assert closed.valid_to is not None
    terminal.out().print(f"{closed.id} ends at {format_instant(closed.valid_to)}")


@project_app.command("list")
def project_list() -> None:
    """List the projects and the relations between them."""
    with _reporting() as (_, reporting):
        projects, relations = project_service.list_projects(reporting), relation_service.list_relations(reporting)
    tables.projects(terminal.out(), projects, relations)


@cloud_app.callback(invoke_without_command=True)
def cloud_root(context: typer.Context) -> None:
    """Show the help where no command is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@cloud_app.command("register", epilog="Example:  tally cloud register openstack os-prod-eu1")
def cloud_register(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="The platform that it is an installation of.")],
    cloud: Annotated[str, typer.Argument(metavar="CLOUD", help="Its name in events and projects, without a slash.")],
) -> None:
    """Register a cloud. It belongs to its platform for ever; the same again changes nothing."""
    with _reporting() as (_, reporting):
        row, created = cloud_service.register_cloud(reporting, platform, cloud, terminal.actor())
    terminal.out().print(f"{row.cloud} {'is registered' if created else 'was registered'}", markup=False)


@cloud_app.command("list")
def cloud_list() -> None:
    """List the clouds and their platforms."""
    with _reporting() as (_, reporting):
        tables.clouds(terminal.out(), cloud_service.list_clouds(reporting))


@credential_app.callback(invoke_without_command=True)
def credential_root(context: typer.Context) -> None:
    """Show the help where no command is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@credential_app.command(
    "create",
    epilog="Examples:  tally credential create collector-eu1 --role ingest --platform openstack --cloud os-prod-eu1 "
    "> token   |   the same with --replaces ID --overlap-hours 24",
)
def credential_create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is for: the actor of the audit log.")],
    role: Annotated[
        Role, typer.Option(metavar="ROLE", help="ingest (sends events), sync (starts reconciliations) or operator.")
    ],
    platform: Annotated[str, typer.Option(help="The platform of its cloud.")] = "",
    cloud: Annotated[str, typer.Option(help="The one cloud that it is for; an operator has none.")] = "",
    days: Annotated[int | None, typer.Option(help="Days until it expires; 365 if nothing is said.")] = None,
    expires: Annotated[str, typer.Option(metavar="INSTANT", help="Or when: 2027-01-01T00:00:00Z.")] = "",
    certificate: Annotated[
        str, typer.Option(metavar="SUBJECT", help="Make no token: the subject of a certificate is the proof.")
    ] = "",
    replaces: Annotated[str, typer.Option(metavar="ID", help="The credential whose place it takes.")] = "",
    overlap_hours: Annotated[int, typer.Option(min=0, max=744, help="Hours that the replaced one still holds.")] = 0,
) -> None:
    """Create a credential. Its token goes to standard output, once: nobody can show it again."""
    if bool(platform) != bool(cloud):
        raise typer.BadParameter("--platform and --cloud come together")
    if days is not None and expires:
        raise typer.BadParameter("--days and --expires say the same; give one")
    now = terminal.now()
    with _reporting() as (_, reporting):
        created = credential_service.create_credential(
            reporting,
            name,
            role,
            Scope(platform, cloud) if cloud else None,
            parse_instant(expires) if expires else credential_service.expiry(now, days),
            terminal.actor(),
            now,
            subject=certificate or None,
            replaces=replaces or None,
            overlap=timedelta(hours=overlap_hours),
        )
    credential = created.credential
    until = format_instant(credential.expires_at)
    terminal.err().print(f"{credential.name} {credential.id} expires at {until}", markup=False, soft_wrap=True)
    if created.token is not None:
        terminal.err().print("Keep the token: it is shown this once. Send it as Authorization: Bearer <token>")
        typer.echo(created.token)


@credential_app.command("list")
def credential_list() -> None:
    """List the credentials, and whether each is accepted. No secret is shown: nobody but its owner has it."""
    with _reporting() as (_, reporting):
        tables.credentials(terminal.out(), credential_service.list_credentials(reporting), terminal.now())


@credential_app.command("revoke", epilog="Example:  tally credential revoke 0123456789abcdef")
def credential_revoke(
    credential: Annotated[str, typer.Argument(metavar="ID", help="Its id, as tally credential list shows it.")],
) -> None:
    """Refuse a credential from the next request on, for ever. The same again changes nothing."""
    with _reporting() as (_, reporting):
        revoked = credential_service.revoke_credential(reporting, credential, terminal.actor(), terminal.now())
    terminal.out().print(f"{revoked.name} {revoked.id} is revoked", markup=False)


@rejected_app.callback(invoke_without_command=True)
def rejected_root(context: typer.Context) -> None:
    """Show the help where no command is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@rejected_app.command("list", epilog="Example:  tally rejected list --reason unknown_event_type --cloud os-prod-eu1")
def rejected_list(
    reason: Annotated[str, typer.Option(help="Only those rejected for this reason: docs/reference/events.md.")] = "",
    cloud: Annotated[str, typer.Option(help="Only those of this cloud.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Those that have been taken since, too.")] = False,  # noqa: FBT002 - a flag
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")] = 100,
    before: Annotated[
        int | None, typer.Option(min=1, max=2**63 - 1, metavar="ID", help="Only those with a smaller id.")
    ] = None,
) -> None:
    """List rejected events, the newest first."""
    which = LetterFilter(reason or None, cloud or None, replayed=None if everything else False)
    with _reporting() as (_, reporting):
        letters = rejected_service.list_letters(reporting, which, after=before, limit=limit)
    tables.rejected(terminal.out(), letters)
    if len(letters) == limit:
        terminal.err().print(f"there may be more: --before {letters[-1].id}")


@rejected_app.command("show", epilog="Example:  tally rejected show 17 > event.json")
def rejected_show(
    number: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Its id: tally rejected list.")],
) -> None:
    """Print what was sent, byte for byte; why it was rejected goes to standard error."""
    with _reporting() as (_, reporting):
        letter = rejected_service.show_letter(reporting, number)
    tables.rejected(terminal.err(), [letter.row])
    typer.echo(letter.raw, nl=False)


@rejected_app.command(
    "replay", epilog="Examples:  tally rejected replay --reason unknown_event_type   |   tally rejected replay --id 17"
)
def rejected_replay(
    reason: Annotated[str, typer.Option(help="All that were rejected for this reason.")] = "",
    cloud: Annotated[str, typer.Option(help="Of these, only those of this cloud.")] = "",
    number: Annotated[int | None, typer.Option("--id", metavar="ID", min=1, max=2**63 - 1, help="Or this one.")] = None,
) -> None:
    """Try rejected events again. What is taken is done with; what is rejected again stays, with the reason of now.

    Exits with 1 if anything was rejected again.
    """
    if bool(reason) == bool(number) or (cloud and number):
        raise typer.BadParameter("name either --reason, and perhaps --cloud, or --id")
    with _reporting() as (settings, reporting):
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


def _month(text: str) -> tuple[Settings, BillingPeriod]:
    settings = Settings.from_environment()
    return settings, BillingPeriod.parse(text, settings.zone)


@contextmanager
def _reporting() -> Iterator[tuple[Settings, Connection]]:
    settings = Settings.from_environment()
    with installation.running(settings) as databases, connected(databases.reporting_url) as reporting:
        yield settings, reporting


@contextmanager
def _relating(reason: str) -> Iterator[tuple[Connection, relation_service.Change]]:
    settings = Settings.from_environment()
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            finalized = finalized_periods(metering)
        change = relation_service.Change(terminal.actor(), terminal.now(), finalized, settings.zone, reason or None)
        with connected(databases.reporting_url) as reporting:
            yield reporting, change


def _correct(
    settings: Settings, databases: installation.Databases, month: BillingPeriod, tags: Mapping[str, str]
) -> None:
    _job(settings, databases, "close_month", month, tags)
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
            _say(f"{kind} is waived for {month}{ends}")


def _job(
    settings: Settings,
    databases: installation.Databases,
    job: str,
    month: BillingPeriod,
    tags: Mapping[str, str] | None = None,
) -> None:
    orchestrator.run_job(settings, databases, job, str(month), actor=terminal.actor(), say=_say, tags=tags)


def _say(line: str) -> None:
    terminal.err().print(line, style="dim", markup=False)


if __name__ == "__main__":
    main()
