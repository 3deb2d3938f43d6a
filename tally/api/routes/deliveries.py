"""What has become of the delivery of documents to other systems. Nothing is delivered here."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Metering
from tally.api.paging import Paged
from tally.api.parameters import NameFilter, PeriodFilter
from tally.domain.delivery import DeliveryStatus
from tally.services.deliver import list_deliveries
from tally.store.metering.deliveries import DeliveryRow

router = APIRouter()


@router.get("/api/v1/deliveries", operation_id="listDeliveries")
def deliveries(
    metering: Metering,
    page: Paged,
    period: PeriodFilter = None,
    target: NameFilter = None,
    status: Annotated[DeliveryStatus | None, Query()] = None,
) -> JsonAnswer:
    """List documents and targets by (target, run_id, cloud, project_id, document type, sending)."""
    after = page.after(str, UUID, str, str, int, int)
    rows = list_deliveries(
        metering,
        period=period,
        target=target,
        status=status,
        after=after and (after[0], after[1], after[2], after[3], after[4], after[5]),
        limit=page.fetch,
    )
    return page.answer(rows, lambda row: row.key, _delivery)


def _delivery(row: DeliveryRow) -> dict[str, Any]:
    return {
        "target": row.target,
        "number": row.document.number,
        "document_type": row.document_type,
        "period": row.period,
        "run_id": str(row.run_id),
        "cloud": row.cloud,
        "project_id": row.project_id,
        "status": row.status,
        "attempts": row.attempts,
        "attempted_at": instant(row.attempted_at),
        "next_attempt_at": instant(row.next_attempt_at) if row.is_under_way else None,
        "last_error": row.last_error,
        "delivered_at": instant(row.delivered_at),
        "receipt": row.receipt,
        "sending": row.sending,
        "asked_at": instant(row.asked_at),
        "asked_by": row.asked_by,
        "reason": row.reason,
        "withdrawn_at": instant(row.withdrawn_at),
        "withdrawn_by": row.withdrawn_by,
        "withdrawal_reason": row.withdrawal_reason,
    }
