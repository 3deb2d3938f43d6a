"""The installations of platforms."""

from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import group, reporting_database
from tally.services import clouds as cloud_service

commands = group("cloud", "Register the installations of platforms.")


@commands.command("register", epilog="Example:  tally cloud register openstack os-prod-eu1")
def cloud_register(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="The platform that it is an installation of.")],
    cloud: Annotated[str, typer.Argument(metavar="CLOUD", help="Its name in events and projects, without a slash.")],
) -> None:
    """Register a cloud. It belongs to its platform for ever; the same again changes nothing."""
    with reporting_database() as (_, reporting):
        row, created = cloud_service.register_cloud(reporting, platform, cloud, terminal.actor())
    terminal.out().print(f"{row.cloud} {'is registered' if created else 'is registered already'}")


@commands.command("list")
def cloud_list() -> None:
    """List the clouds and their platforms."""
    with reporting_database() as (_, reporting):
        tables.clouds(terminal.out(), cloud_service.list_clouds(reporting))
