"""A bill as a page to read and to print: one HTML file, without scripts and without anything from elsewhere.

It shows what the documents say, what the corrections of the month have changed, and each resource as a picture.
Whatever comes from a platform is escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pricing.documents import timeline_picture
from pricing.documents.adjustments import billed_adjustments
from pricing.documents.differences import Difference, differences
from pricing.documents.timeline_picture import picture
from pricing.money import plain
from tally.domain.instants import parse_instant

Document = Mapping[str, Any]

_THIN_SPACE = "\u202f"
_MINUS = "\u2212"


@dataclass(frozen=True, slots=True)
class Issue:
    """A bill as a run has issued it; without a document, the run has taken it back and written no other.

    ``number`` is that of the invoice and ``credit_note`` that of what takes back the one before; empty where there is
    none, as before a month is finalized.
    """

    run_id: str
    issued_at: datetime
    document: Document | None
    document_hash: str
    reason: str = ""
    number: str = ""
    credit_note: str = ""

    @property
    def total(self) -> Decimal:
        """What is billed from then on."""
        return self.document["total"] if self.document else Decimal("0.00")


@dataclass(frozen=True, slots=True)
class BillPage:
    """What a page is made of: the bill of a project as it was issued first, and after each correction of it.

    ``period`` is a month such as 2026-03, ``status`` that of the run: ``preliminary``, ``completed`` or ``finalized``.
    """

    period: str
    zone: str
    status: str
    issuer: str
    cloud: str
    project_id: str
    project_name: str
    issues: Sequence[Issue]


@dataclass(frozen=True, slots=True)
class _Correction:
    number: int
    before: Issue
    after: Issue
    lines: Sequence[Difference]

    @property
    def change(self) -> Decimal:
        return self.after.total - self.before.total


def render_bill_page(page: BillPage) -> str:
    """Write the page of a bill."""
    issued = [issue.document for issue in page.issues if issue.document is not None]
    current = page.issues[-1].document
    period = issued[-1]["billing_period"]
    zone = ZoneInfo(page.zone)
    start, end = parse_instant(period["from"]), parse_instant(period["to"])
    return _template().render(
        page=page,
        month=f"{start.astimezone(zone):%B %Y}",
        start=start,
        end=end,
        zone=zone,
        current=page.issues[-1],
        currency=issued[-1]["currency"],
        parts=_parts(current),
        adjustments=billed_adjustments(current) if current else [],
        corrections=_corrections(page.issues),
        picture_of=lambda item: picture(item, start, end, zone),
        grid=timeline_picture,
    )


def _parts(document: Document | None) -> list[Document]:
    """The projects of a bill that have lines: its own, and those billed inside it."""
    return [part for part in (document, *document["related_costs"]) if part["line_items"]] if document else []


def _corrections(issues: Sequence[Issue]) -> list[_Correction]:
    return [
        _Correction(number, before, after, differences(before.document, after.document))
        for number, (before, after) in enumerate(pairwise(issues), start=1)
    ]


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("pricing.documents"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"amount": _amount, "signed": _signed, "local": _local, "number": _number, "rate": _rate}
    return environment.get_template("bill.html")


def _amount(value: Decimal) -> str:
    """Write 1234.5 as 1 234.50, with a minus that is as wide as a digit."""
    text = f"{value:,.2f}".replace(",", _THIN_SPACE)
    return text.replace("-", _MINUS)


def _signed(value: Decimal) -> str:
    return f"+{_amount(value)}" if value > 0 else _amount(value)


def _number(value: Decimal | int) -> str:
    return f"{Decimal(value):,f}".replace(",", _THIN_SPACE)


def _rate(value: Decimal) -> str:
    return f"{plain(value * 100)} %"


def _local(instant: datetime | str, zone: ZoneInfo) -> str:
    """Write an instant as a person reads it, to the second only where it has some."""
    moment = (parse_instant(instant) if isinstance(instant, str) else instant).astimezone(zone)
    seconds = ":%S.%f" if moment.microsecond else ":%S" if moment.second else ""
    return moment.strftime(f"%-d %b %Y %H:%M{seconds}")
