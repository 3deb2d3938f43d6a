"""Projects, and the relations between them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

import typer

from tally.cli import tables, terminal
from tally.cli.context import Metadata, Reason, group, reporting_database
from tally.domain.instants import format_instant, parse_instant
from tally.services import installation
from tally.services import projects as project_service
from tally.services import relations as relation_service
from tally.services.late import finalized_periods
from tally.settings import Settings
from tally.store.database import Connection, connected

commands = group("project", "Register projects and say how they relate: who pays for whom.")


@commands.command(
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
    with reporting_database() as (_, reporting):
        created = project_service.create_project(
            reporting, platform, cloud, external_id, name or None, values, terminal.actor()
        )
    terminal.out().print(f"{created.address} {created.id}")


@commands.command(
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


@commands.command(
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


@commands.command("list")
def project_list() -> None:
    """List the projects and the relations between them."""
    with reporting_database() as (_, reporting):
        projects, relations = project_service.list_projects(reporting), relation_service.list_relations(reporting)
    tables.projects(terminal.out(), projects, relations)


@contextmanager
def _relating(reason: str) -> Iterator[tuple[Connection, relation_service.Change]]:
    settings = Settings.from_environment()
    with installation.running(settings) as databases:
        with connected(databases.metering_url) as metering:
            finalized = finalized_periods(metering)
        change = relation_service.Change(terminal.actor(), terminal.now(), finalized, settings.zone, reason or None)
        with connected(databases.reporting_url) as reporting:
            yield reporting, change
