"""What a correction does to attributions and bills: those that no longer hold are taken back, and written again."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from pricing.bill import ProjectRef, build_cancellation, to_json
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.adjustments import Terms, agreed_of
from tally.services.runs import corrected_run
from tally.store.database import Connection
from tally.store.metering import bills as store
from tally.store.metering.adjustments import AdjustmentRow, Agreed, select_adjustments
from tally.store.metering.bills import AttributionRow, BillRow, IssuedBill


def corrected_bills(
    metering: Connection,
    run: Run,
    attributions: Sequence[AttributionRow],
    terms: Terms,
    write: Callable[[Collection[ProjectKey]], Sequence[AdjustmentRow]],
) -> list[AdjustmentRow]:
    """Write how attributions and bills differ from those that count; returns the adjustments of new bills.

    ``attributions`` and ``terms`` are all that hold now; ``write`` writes the bills of some projects from the records
    that count, but for their adjustments, which it returns.
    """
    former_run = corrected_run(metering, run)
    former, now = set(store.attributions(metering, former_run.id)), set(attributions)
    store.insert_attributions(metering, run.id, former - now, sign=-1)
    store.insert_attributions(metering, run.id, now - former)
    changed = {(a.cloud, a.project_id) for a in former ^ now} | set(store.projects_with_records(metering, run.id))
    concerned = {
        (a.billed_cloud, a.billed_project_id) for a in former | now if (a.cloud, a.project_id) in changed
    }
    concerned |= _agreed_otherwise(metering, former_run.id, terms, {(a.billed_cloud, a.billed_project_id) for a in now})
    issued = {(bill.cloud, bill.project_id): bill for bill in store.issued_bills(metering, former_run.id, concerned)}
    adjustments = write(concerned)
    unchanged = set(store.drop_unchanged(metering, run.id, former_run.id))
    gone = [_cancellation(run, old) for project, old in issued.items() if project not in unchanged]
    store.insert_bills(metering, run.id, gone)
    return [row for row in adjustments if (row.cloud, row.project_id) not in unchanged]


def _agreed_otherwise(
    metering: Connection, former_run_id: UUID, terms: Terms, billed: set[ProjectKey]
) -> set[ProjectKey]:
    """Find the projects whose bills were adjusted by other terms than hold now."""
    former: defaultdict[ProjectKey, set[Agreed]] = defaultdict(set)
    for row in select_adjustments(metering, former_run_id):
        former[row.cloud, row.project_id].add(row.agreed)
    return {project for project in billed if former[project] != {agreed_of(term) for term in terms.of(project)}}


def _cancellation(run: Run, bill: IssuedBill) -> BillRow:
    project = ProjectRef(bill.cloud, bill.project_id, bill.platform)
    document = to_json(
        build_cancellation(
            run.period_from, run.period_to, project, bill.total, bill.currency, str(bill.run_id), bill.document_hash
        )
    )
    digest = hashlib.sha256(document.encode()).hexdigest()
    return BillRow(
        bill.cloud, bill.project_id, bill.platform, -bill.total, bill.currency, document, digest, bill.run_id
    )
