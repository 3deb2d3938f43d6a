"""The table of violating rows that Dagster shows."""

from assets.checks import _table
from resources.expectations import Verdict


def row(subject: str) -> dict[str, str]:
    return {"cloud": "os-1", "resource_type": "instance", "subject": subject, "detail": "lived 1 us"}


def test_a_name_with_a_bar_stays_in_its_cell() -> None:
    """Names come from outside: a bar or a backslash in one is text, not the end of a cell."""
    shown = _table(Verdict("coverage", 1, [row("a|b\\c")])).md_str or ""
    header, _, line = shown.splitlines()
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["cloud", "resource_type", "subject", "detail"]
    assert r"a\|b\\c" in line


def test_what_is_not_shown_is_counted() -> None:
    """The first rows tell what is wrong, the number how far it goes."""
    shown = _table(Verdict("coverage", 1000, [row(str(number)) for number in range(100)])).md_str or ""
    assert shown.endswith("and 980 more")
