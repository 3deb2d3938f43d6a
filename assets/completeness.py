"""The completeness report as metadata of what a run makes: by kind and cloud, blocking or not, and who waived it."""

from collections.abc import Sequence
from typing import Any

from dagster import MetadataValue

from tally.domain.completeness import Line
from tally.services.completeness import Report


def completeness_metadata(report: Report) -> dict[str, MetadataValue[Any]]:
    """What stands between a run and its finalization, or stood there and was waived."""
    lines = [line for line in report.lines if line.action != "ignore"]
    blocking = sorted({line.kind for line in lines if line.blocks})
    told: dict[str, MetadataValue[Any]] = {
        "findings": MetadataValue.int(sum(line.count for line in lines)),
        "blocking_findings": MetadataValue.int(sum(line.count for line in lines if line.blocks)),
    }
    if blocking:
        told["blocking_kinds"] = MetadataValue.text(", ".join(blocking))
    if lines:
        told["completeness"] = MetadataValue.md(_table(report, lines))
    return told


def _table(report: Report, lines: Sequence[Line]) -> str:
    head = "| Kind | Cloud | Count | Policy | Waived | At risk | Example |\n|---|---|---|---|---|---|---|\n"
    return head + "\n".join("| " + " | ".join(_cell(text) for text in _row(report, line)) + " |" for line in lines)


def _row(report: Report, line: Line) -> Sequence[str]:
    waived = f"by {line.waiver.actor}: {line.waiver.reason}" if line.waiver else ""
    more = " and more" if line.untold else ""
    money = "" if line.at_risk is None else f"{line.at_risk} {report.currency or ''}{more}"
    return (line.kind, line.cloud, str(line.count), line.action, waived, money, line.examples[0])


def _cell(text: str) -> str:
    """Names come from outside: a bar in one of them would end its cell, and a line break the table."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())
