"""The price lab: what described usage would cost, and what a draft of prices would make of a closed month."""

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from tally.api.contract import operations
from tally.cli import quote_tables, terminal, what_if_tables
from tally.cli.context import month_of
from tally.cli.grid import RowFormat
from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import decode_json
from tally.domain.principal import ProjectKey
from tally.services import installation, price_files
from tally.services.pricing import version_named
from tally.services.projects import find_project
from tally.services.quote_document import read_items, read_project
from tally.services.quotes import quote as price
from tally.services.what_if import what_if as compare
from tally.store.database import Connection, connected

commands = typer.Typer()

MAX_FILE_BYTES = 4 * 1024 * 1024


@commands.command(
    epilog="Examples:  tally quote openstack.instance vcpus=4 ram_gb=8 disk_gb=80   |   tally quote openstack.volume "
    "size_gb=100 type=ssd --hours 90.5 --period 2026-04   |   tally quote --file items.json --format json"
)
def quote(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="TYPE [NAME=VALUE...]", help="platform.type, and its size.", show_default=False),
    ] = None,
    state: Annotated[str, typer.Option(help="The state it is in; that of a new resource, if absent.")] = "",
    hours: Annotated[str, typer.Option(help="How long, from the start of the month; all of it, if absent.")] = "",
    usage: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What a counter counts; may be repeated.")
    ] = None,
    file: Annotated[
        str, typer.Option(help="Several items instead: a JSON file in the form of POST /api/v1/quotes; - is stdin.")
    ] = "",
    project: Annotated[
        str, typer.Option(help="For a registered project, as cloud/project: what its bill agrees on is applied.")
    ] = "",
    period: Annotated[str, typer.Option(help="The month; the present one, if absent.")] = "",
    price_version: Annotated[str, typer.Option(help="A loaded version, instead of the one of the month.")] = "",
    form: Annotated[RowFormat, typer.Option("--format", help="A table for people; json or csv for programs.")] = (
        RowFormat.TABLE
    ),
) -> None:
    """Tell what described usage costs in a month, to the cent as its bill would say. Nothing is stored."""
    if bool(what) == bool(file):
        raise typer.BadParameter("say what is to be quoted: a type with its size, or --file")
    body = _from_file(file) if file else {"items": [_item(what or [], state, hours, usage or [])]}
    month = period or body.get("period") or f"{terminal.now():%Y-%m}"
    body = _checked(body | {"period": month} | ({"price_version": price_version} if price_version else {}))
    settings, parsed = month_of(month)
    with (
        installation.running(settings) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
    ):
        made = price(
            reporting,
            metering,
            parsed,
            read_items(body),
            price_version=body.get("price_version"),
            project=_project(reporting, project) if project else read_project(body),
        )
    quote_tables.quote(terminal.out(), made, form)


@commands.command(
    "what-if",
    epilog="Examples:  tally what-if --pricing 2026-07.yaml --period 2026-03   |   "
    "tally what-if --pricing draft.yaml --period 2026-03 --format csv",
)
def what_if(
    pricing: Annotated[str, typer.Option(help="The draft: a price file, or a loaded version.", show_default=False)],
    period: Annotated[str, typer.Option(help="A closed month: its usage that counts is rated.", show_default=False)],
    form: Annotated[RowFormat, typer.Option("--format", help="A table for people; json or csv for programs.")] = (
        RowFormat.TABLE
    ),
) -> None:
    """Tell what a draft of prices would have made of a closed month. The draft is not loaded, nothing is written.

    Compared are costs by project, where they arise, before adjustments.
    """
    settings, month = month_of(period)
    draft = price_files.read_price_file(Path(pricing)) if price_files.is_file(pricing) else None
    with (
        installation.running(settings) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
    ):
        made = compare(reporting, metering, str(month), draft or version_named(metering, pricing))
    what_if_tables.what_if(terminal.out(), made, form)


def _project(reporting: Connection, address: str) -> ProjectKey:
    found = find_project(reporting, address)
    return found.cloud, found.external_id


def _item(what: list[str], state: str, hours: str, usage: list[str]) -> dict[str, Any]:
    platform, dot, resource_type = what[0].partition(".")
    if not dot:
        raise typer.BadParameter(f"{what[0]!r} is no type; write platform.type, such as openstack.instance")
    item: dict[str, Any] = {"platform": platform, "resource_type": resource_type}
    item |= {"size": _values(what[1:]), "usage": _values(usage)}
    if hours:
        item["hours"] = _value(hours)
    return item | ({"state": state} if state else {})


def _values(pairs: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or name in found:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE, or the name is given twice")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    """Read a number, true or false; a text, with quotes or without."""
    try:
        value = decode_json(text.encode())
    except InvalidEvent:
        return text
    return value if isinstance(value, int | Decimal | str) else text


def _from_file(name: str) -> dict[str, Any]:
    with terminal.opened(name) as stream, terminal.readable(name):
        raw = stream.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"{name} is longer than {MAX_FILE_BYTES} bytes; make several quotes of it")
    try:
        body = decode_json(raw)
    except InvalidEvent as error:
        raise InvalidInput(f"{name}: {error.detail}") from None
    if not isinstance(body, dict):
        raise InvalidInput(f"{name} is not a JSON object with items")
    return body


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    operations()["createQuote"].check_body("application/json", body)
    return body
