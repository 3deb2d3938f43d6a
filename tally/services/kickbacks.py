"""The kickback report: what a month owes to each partner, and for which bills (rule 29).

What counts is told, corrections included. A partner is the project that the relation leads to.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from itertools import groupby
from typing import Any

import simplejson

from pricing.documents.spreadsheet import plain_text
from pricing.money import total
from tally.domain.errors import NotFound
from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering.adjustments import AdjustmentRow, select_adjustments
from tally.store.metering.runs import latest_run

PartnerKey = tuple[str, str, str]  # (cloud, project_id, currency)

# The columns of the CSV: one row for each kickback of each bill.
COLUMNS = (
    "period", "partner_cloud", "partner_project_id", "partner_name", "cloud", "project_id", "relation_id",
    "relation_type", "description", "scope", "rate", "base", "amount", "currency",
)


@dataclass(frozen=True, slots=True)
class PartnerKickback:
    """What one partner is owed in one currency; amounts of two currencies are never added."""

    cloud: str
    project_id: str
    name: str
    currency: str
    amount: Decimal
    lines: tuple[AdjustmentRow, ...]   # by billed project, relation and place

    @property
    def key(self) -> PartnerKey:
        """Its place in the report."""
        return (self.cloud, self.project_id, self.currency)


@dataclass(frozen=True, slots=True)
class KickbackReport:
    """The kickbacks as of a run, by partner and currency; empty if nothing is owed to anybody."""

    run: Run
    partners: tuple[PartnerKickback, ...]


def kickbacks(metering: Connection, period: str, partner: str | None = None) -> KickbackReport:
    """Report the kickbacks of a month: of all partners, or of one (``project`` or ``cloud/project``).

    Raises:
        NotFound: if the month has no completed run.
    """
    run = latest_run(metering, period)
    if run is None:
        raise NotFound(f"{period} has no completed run; close it first: tally close {period}")
    rows = select_adjustments(metering, run.id, "kickback", partner)
    cloud, slash, project = (partner or "").partition("/")
    if not rows and slash:
        rows = select_adjustments(metering, run.id, "kickback", project, cloud)
    by_partner = groupby(rows, key=lambda row: (row.agreed.target_cloud, row.agreed.target_project_id, row.currency))
    return KickbackReport(run, tuple(_partner(tuple(lines)) for _, lines in by_partner))


def partner_view(kickback: PartnerKickback) -> dict[str, Any]:
    """What JSON says of one partner."""
    partner = {"cloud": kickback.cloud, "project_id": kickback.project_id, "name": kickback.name}
    return {
        "partner": partner,
        "currency": kickback.currency,
        "amount": kickback.amount,
        "lines": [_line_view(line) for line in kickback.lines],
    }


def as_json(report: KickbackReport) -> str:
    """Write the report as one JSON document."""
    content = {
        "period": report.run.period,
        "run_id": str(report.run.id),
        "status": report.run.status,
        "partners": [partner_view(partner) for partner in report.partners],
    }
    return simplejson.dumps(content, use_decimal=True, ensure_ascii=False, indent=2)


def as_csv(report: KickbackReport) -> str:
    """Write the report as CSV (RFC 4180) with a header; its lines end with a bare line feed, as files do here.

    No text of it is a formula.
    """
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_csv_rows(report))
    return text.getvalue()


def _partner(lines: tuple[AdjustmentRow, ...]) -> PartnerKickback:
    to, currency = lines[0].agreed, lines[0].currency
    amount = total(line.amount for line in lines)
    return PartnerKickback(to.target_cloud, to.target_project_id, to.target_name, currency, amount, lines)


def _line_view(line: AdjustmentRow) -> dict[str, Any]:
    return {
        "cloud": line.cloud,
        "project_id": line.project_id,
        "relation_id": str(line.agreed.relation_id),
        "relation_type": line.agreed.relation_type,
        "description": line.agreed.description,
        "scope": line.agreed.scope,
        "rate": line.agreed.rate,
        "base": line.base,
        "amount": line.amount,
    }


def _csv_rows(report: KickbackReport) -> Iterable[dict[str, Any]]:
    for partner in report.partners:
        owed = {
            "period": report.run.period,
            "partner_cloud": partner.cloud,
            "partner_project_id": partner.project_id,
            "partner_name": partner.name,
            "currency": partner.currency,
        }
        for line in partner.lines:
            row = owed | _line_view(line)
            yield {name: plain_text(value) if isinstance(value, str) else value for name, value in row.items()}
