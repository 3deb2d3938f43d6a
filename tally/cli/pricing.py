"""Price versions: files judged and loaded, versions listed, shown and compared."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pricing.comparison import compare
from pricing.lint import Lint
from pricing.price_text import to_yaml
from tally.cli import price_tables, terminal
from tally.cli.context import group
from tally.cli.grid import RowFormat
from tally.services import installation, price_files
from tally.settings import Settings
from tally.store.database import Connection, connected

commands = group("pricing", "Price versions: judge, load, list, show and compare them.")

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Price files, or folders of them.", show_default=False)
]
Version = Annotated[
    str, typer.Argument(help="The name of a loaded version, or a file: what ends with .yaml or holds a slash.")
]
Form = Annotated[RowFormat, typer.Option("--format", help="A table for people; json or csv for programs.")]


class VersionFormat(StrEnum):
    """How a version is shown."""

    YAML = "yaml"
    TABLE = "table"


@commands.command(
    "lint", epilog="Examples:  tally pricing lint 2026-07.yaml   |   tally pricing lint --installed prices/"
)
def pricing_lint(
    files: Files,
    installed: Annotated[  # noqa: FBT002 - a flag
        bool,
        typer.Option(
            "--installed",
            help="Judge as loading would: by the registry and the versions of the installation, in its databases.",
        ),
    ] = False,
) -> None:
    """Tell everything that is wrong with price files, with line numbers; exits with 1 if anything is.

    Without --installed no database is needed: the form is judged, and the names of what ships with Tally. Only the
    installation knows resource types of one's own, versions that collide, and names that are taken.
    """
    with _judge(installed=installed) as judge:
        judged = [(path, judge(path)) for path in price_files.price_files(files)]
    for path, found in judged:
        price_tables.lint(terminal.out(), path, found)
    if any(found.faults for _, found in judged):
        raise typer.Exit(1)


@commands.command("load", epilog="Example:  tally pricing load 2026-07.yaml")
def pricing_load(files: Files) -> None:
    """Load price files, all or none. What is loaded already is not loaded again, and a loaded version never changes."""
    with _databases() as (reporting, metering):
        added = price_files.load_files(reporting, metering, price_files.price_files(files))
    for name in added:
        terminal.out().print(f"loaded price version: {name}")
    if not added:
        terminal.out().print("everything is loaded already")


@commands.command("list")
def pricing_list(form: Form = RowFormat.TABLE) -> None:
    """List the loaded versions: the months they hold for, and the closed months that were rated with them."""
    with _databases() as (_, metering):
        rows = price_files.versions_in_use(metering)
    price_tables.versions(terminal.out(), rows, form)


@commands.command("show", epilog="Example:  tally pricing show 2026-03 > 2026-07.yaml")
def pricing_show(
    version: Version,
    form: Annotated[
        VersionFormat, typer.Option("--format", help="A file that reads back as the same version, or a table.")
    ] = VersionFormat.YAML,
) -> None:
    """Print a version."""
    with _versions(version) as metering:
        shown = price_files.version_of(metering, version)
    if form is VersionFormat.YAML:
        typer.echo(to_yaml(shown), nl=False)
    else:
        price_tables.version(terminal.out(), shown)


@commands.command("diff", epilog="Example:  tally pricing diff 2026-03 2026-07.yaml")
def pricing_diff(before: Version, after: Version, form: Form = RowFormat.TABLE) -> None:
    """Compare two versions: what is added, removed and changed, by how much and how many percent."""
    with _versions(before, after) as metering:
        changes = compare(price_files.version_of(metering, before), price_files.version_of(metering, after))
    price_tables.changes(terminal.out(), changes, form)


@contextmanager
def _judge(*, installed: bool) -> Iterator["partial[Lint]"]:
    if not installed:
        yield partial(price_files.lint_without_database)
        return
    with _databases() as (reporting, metering):
        yield partial(price_files.lint_for, reporting, metering)


@contextmanager
def _databases() -> Iterator[tuple[Connection, Connection]]:
    with (
        installation.running(Settings.from_environment()) as databases,
        connected(databases.reporting_url) as reporting,
        connected(databases.metering_url) as metering,
    ):
        yield reporting, metering


@contextmanager
def _versions(*names: str) -> Iterator[Connection | None]:
    """The metering database, if one of the versions is not a file."""
    with ExitStack() as stack:
        files_only = all(map(price_files.is_file, names))
        yield None if files_only else stack.enter_context(_databases())[1]
