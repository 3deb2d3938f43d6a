"""Bills without their line items: what pricing.bill writes around them, cut where they belong.

The items themselves are text that stays in the database (tally.store.metering.bill_texts).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pricing.bill import LineItems, ProjectRef, RelatedProject, build_bill
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.accounts import Account
from tally.services.adjustments import Terms, rows_of
from tally.store.metering.adjustments import AdjustmentRow
from tally.store.metering.bill_texts import BillFrame, ItemsPlace
from tally.store.metering.bills import ProjectCosts

# On both sides of the number that stands in for line items. JSON text holds this sign only as an escape.
_SIGN = "\x1e"


@dataclass(frozen=True, slots=True)
class FramedBill:
    """A bill without its line items, and its adjustments as rows of the ledger."""

    frame: BillFrame
    adjustments: tuple[AdjustmentRow, ...]


def framed_bill(
    run: Run,
    refs: Mapping[ProjectKey, ProjectRef],
    costs: Mapping[ProjectKey, Sequence[ProjectCosts]],
    terms: Terms,
    currency: str,
    account: Account,
) -> FramedBill:
    """Write the bill of an account around what its projects cost."""
    shown: list[ProjectCosts] = []

    def items(project: ProjectKey) -> Iterator[LineItems]:
        for one in costs.get(project, ()):
            yield LineItems(one.resource_type, f"{_SIGN}{len(shown)}{_SIGN}", one.total)
            shown.append(one)

    billed = account.billed
    own = list(items(billed))
    related = [RelatedProject(kind, refs[key], list(items(key))) for key, kind in account.related.items()]
    bill = build_bill(run.period_from, run.period_to, refs[billed], own, related, currency, terms.of(billed))
    *cut, after = bill.document.split(_SIGN)
    places = [
        ItemsPlace(before, *shown[int(number)][:4], is_related=int(number) >= len(own))
        for before, number in zip(cut[::2], cut[1::2], strict=True)
    ]
    frame = BillFrame(*billed, refs[billed].platform, bill.total, currency, places, after)
    return FramedBill(frame, tuple(rows_of(*billed, bill.adjustments, currency)))
