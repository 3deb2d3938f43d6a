"""A charge: what one dimension of a usage record costs, with all that a document for the customer says of it."""

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID


class Charge(NamedTuple):
    """A rated record with its usage record and the project that is billed for it, for the time that it pays for.

    ``graduated`` says that the price has tiers of which each prices what is within it: several may price one record.
    ``charged_us`` is the time that is paid for where the price has a least time or steps, else None. ``sign`` is -1
    where a correction takes the record back: the values are those of the record, not negated.
    """

    billed_cloud: str
    billed_project_id: str
    cloud: str
    project_id: str
    platform: str
    resource_type: str
    resource_id: str
    resource_name: str | None
    state: str
    type: str | None
    from_ts: datetime
    to_ts: datetime
    dimension: str
    formula: str
    graduated: bool
    charged_us: int | None
    quantity: Decimal
    price: Decimal
    state_modifier: Decimal
    type_modifier: Decimal
    amount: Decimal
    amount_exact: Decimal
    currency: str
    pricing_version: str
    rated_record_id: UUID
    usage_record_id: UUID
    sign: int
