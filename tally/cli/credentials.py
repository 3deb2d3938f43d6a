"""Credentials of those that call the API."""

from datetime import timedelta
from typing import Annotated

import typer

from tally.cli import tables, terminal
from tally.cli.context import group, reporting_database
from tally.domain.instants import format_instant, parse_instant
from tally.domain.principal import Role, Scope
from tally.services import credentials as credential_service

commands = group("credential", "Let collectors and other programs call the API.")


@commands.command(
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
    with reporting_database() as (_, reporting):
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
    terminal.err().print(f"{credential.name} {credential.id} expires at {until}", soft_wrap=True)
    if created.token is not None:
        terminal.err().print("Keep the token: it is shown this once. Send it as Authorization: Bearer <token>")
        typer.echo(created.token)


@commands.command("list")
def credential_list() -> None:
    """List the credentials, and whether each is accepted. No secret is shown: nobody but its owner has it."""
    with reporting_database() as (_, reporting):
        tables.credentials(terminal.out(), credential_service.list_credentials(reporting), terminal.now())


@commands.command("revoke", epilog="Example:  tally credential revoke 0123456789abcdef")
def credential_revoke(
    credential: Annotated[str, typer.Argument(metavar="ID", help="Its id, as tally credential list shows it.")],
) -> None:
    """Refuse a credential from the next request on, for ever. The same again changes nothing."""
    with reporting_database() as (_, reporting):
        revoked = credential_service.revoke_credential(reporting, credential, terminal.actor(), terminal.now())
    terminal.out().print(f"{revoked.name} {revoked.id} is revoked")
