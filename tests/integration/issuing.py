"""Finalized bills without the runs that make them: the words of the tests about delivery."""

import hashlib
from decimal import Decimal
from uuid import UUID

from pricing.bill import ProjectRef, build_cancellation, to_json
from tally.domain.period import BillingPeriod
from tally.store.database import Connection
from tally.store.metering import runs as run_store
from tally.store.metering.bills import BillRow, insert_bills
from tests.integration.registering import day

CLOUD = "os-prod-eu1"


def bill(project_id: str, total: str) -> BillRow:
    """A bill of a project; its document says no more than its total."""
    document = f'{{\n  "project_id": "{project_id}",\n  "total": {total}\n}}\n'
    digest = hashlib.sha256(document.encode()).hexdigest()
    return BillRow(CLOUD, project_id, "openstack", Decimal(total), "EUR", document, digest)


def cancellation(of: BillRow, run_id: UUID, period: str = "2026-03") -> BillRow:
    """What takes back a bill that a run has written."""
    month = BillingPeriod.parse(period)
    project = ProjectRef(of.cloud, of.project_id, of.platform)
    document = to_json(
        build_cancellation(month.start, month.end, project, of.total, "EUR", str(run_id), of.document_hash)
    )
    digest = hashlib.sha256(document.encode()).hexdigest()
    return BillRow(of.cloud, of.project_id, of.platform, -of.total, "EUR", document, digest, run_id)


def finalized(
    metering: Connection,
    *bills: BillRow,
    period: str = "2026-03",
    corrects: UUID | None = None,
    at: str = "2026-05-02",
    finalize: bool = True,
) -> UUID:
    """Write a run with bills, and finalize it."""
    month = BillingPeriod.parse(period)
    (load_id,) = metering.execute(
        "insert into raw.loads (load_id, started_at, registry_version, events)"
        " select coalesce(max(load_id), 0) + 1, now(), 1, 0 from raw.loads returning load_id"
    ).fetchone() or (0,)
    about = {"kind": "regular"} if corrects is None else {
        "kind": "correction", "corrects_run_id": corrects, "since_load_id": load_id - 1,
    }
    run = run_store.insert_run(
        metering,
        about
        | {
            "period": period,
            "period_from": month.start,
            "period_to": month.end,
            "zone": "UTC",
            "metered_to": month.end,
            "load_id": load_id,
            "registry_version": 1,
            "code_version": "test",
            "status": "running",
            "preliminary": False,
        },
    )
    insert_bills(metering, run.id, bills)
    run_store.mark_completed(metering, run.id, "hash", day(at))
    if finalize:
        run_store.mark_finalized(metering, run.id, day(at))
    return run.id
