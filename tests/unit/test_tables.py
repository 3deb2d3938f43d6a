"""What the command line prints for people."""

import io
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from rich.console import Console

from tally.cli import tables
from tally.cli.grid import RowFormat, csv_text, show_rows
from tally.cli.terminal import PlainConsole
from tally.domain.run import Finding
from tally.services.ingest import Outcome
from tally.services.ingest_files import Summary
from tally.store.metering.bills import IssuedBill

NARROW = 40


def narrow() -> Console:
    return PlainConsole(file=io.StringIO(), width=NARROW)


def printed(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def bill(project: str) -> IssuedBill:
    return IssuedBill(UUID(int=1), "os-prod-eu1", project, "openstack", Decimal("1.5"), "EUR", document_hash="")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("two\nlines", r"two\nlines"),
        ("a\tb", r"a\tb"),
        ("\u202edorp", r"\u202edorp"),
        ("[red]x[/blue]", "[red]x[/blue]"),
        ("disk:fire:", "disk:fire:"),
        ("Büro 😀", "Büro 😀"),
    ],
)
def test_a_name_is_shown_and_not_obeyed(name: str, shown: str) -> None:
    """In a cell and in a line: what a collector sends neither moves the cursor nor forges a line."""
    console = narrow()
    tables.bills(console, [bill(name)])
    tables.findings(console, [Finding("anomaly", True, "os", "openstack", "instance", name, "d")])
    *_, row, line = printed(console)
    assert row.startswith(f"os-prod-eu1   {shown}  ")
    assert line == f"finding anomaly, blocks finalizing: os openstack instance {shown}: d"


def test_what_programs_read_is_printed_as_it_is() -> None:
    """Line by line, however long and whatever it holds."""
    console = narrow()
    show_rows(console, [{"name": "[b]:fire:" + "x" * 60}, {"name": "b"}], ["name"], RowFormat.CSV)
    assert printed(console) == ["name", "[b]:fire:" + "x" * 60, "b"]


def test_a_row_is_one_line_on_a_narrow_terminal() -> None:
    """So that ids and paths can be copied, and lines be searched."""
    console, path = narrow(), Path("/data") / ("folder" * 10) / "p[1].json"
    tables.bills(console, [bill("p" * 60)], [path])
    lines = printed(console)
    assert f"os-prod-eu1   {'p' * 60}    1.50   EUR" in lines
    assert str(path) in lines


def test_no_text_of_a_csv_is_a_formula() -> None:
    """What platforms and customers call things is never worked out; numbers below zero are numbers."""
    rows = [{"project": "=1+1", "change": Decimal("-0.50")}]
    assert csv_text(rows, ("project", "change")) == "project,change\n'=1+1,-0.50"


def test_findings_are_one_line_a_kind() -> None:
    """With the first one of each, blocking ones first, and how many more there are."""
    console = narrow()
    found = [
        Finding("missing_gauge", True, "os-1", "openstack", "instance", subject, "it lacks [vcpus]")
        for subject in ("vm-1", "vm-2")
    ]
    tables.findings(
        console, [*found, Finding("unlisted_state", False, "", "openstack", "volume", "error", "full price")]
    )
    assert printed(console) == [
        "finding missing_gauge, blocks finalizing: os-1 openstack instance vm-1: it lacks [vcpus] (and 1 more)",
        "finding unlisted_state: openstack volume error: full price",
    ]


def test_the_same_reason_is_told_once() -> None:
    """A file of another kind is wrong in the same way on every line."""
    console, summary = narrow(), Summary()
    summary.add([Outcome("rejected", "", "invalid_json", "it is no JSON")] * 3)
    tables.summary(console, summary)
    assert printed(console)[1:] == ["  invalid_json: 3", "    it is no JSON"]
