"""What a run has written, added up: of a correction, how it changes what counts."""

from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from tally.store.database import Connection


class ProjectSum(NamedTuple):
    """What the records of a run that concern a project add up to, reversals with their negated values.

    ``currency`` is None where nothing of it has a price.
    """

    cloud: str
    project_id: str
    currency: str | None
    reversed_records: int  # of usage and of costs together
    new_records: int
    minutes: Decimal
    amount: Decimal


class BillSum(NamedTuple):
    """How many bills a run has taken back and written, and what they add up to."""

    reversed_bills: int
    new_bills: int
    total: Decimal


def project_sums(connection: Connection, run_id: UUID) -> list[ProjectSum]:
    """One row a project, and another for each further currency, by (cloud, project_id)."""
    rows = connection.execute(
        """with usage as (
               select cloud, project_id, count(*) filter (where sign = -1) as reversed,
                   count(*) filter (where sign = 1) as written, sum((usage ->> 'minutes')::numeric) as minutes
               from ledger.usage_records where run_id = %(run_id)s group by cloud, project_id
           ),

           rated as (
               select cloud, project_id, currency, count(*) filter (where sign = -1) as reversed,
                   count(*) filter (where sign = 1) as written, sum(amount) as amount,
                   row_number() over (partition by cloud, project_id order by currency) as no
               from ledger.rated_records where run_id = %(run_id)s group by cloud, project_id, currency
           )

           select cloud, project_id, rated.currency,
               coalesce(usage.reversed, 0) + coalesce(rated.reversed, 0),
               coalesce(usage.written, 0) + coalesce(rated.written, 0),
               coalesce(usage.minutes, 0), coalesce(rated.amount, 0.00)
           from (select *, 1 as no from usage) as usage
           full join rated using (cloud, project_id, no)
           order by cloud, project_id, rated.currency""",
        {"run_id": run_id},
    ).fetchall()
    return [ProjectSum(*row) for row in rows]


def bill_sum(connection: Connection, run_id: UUID) -> BillSum:
    """The bills of a run, added up."""
    row = connection.execute(
        """select count(*) filter (where sign = -1), count(*) filter (where sign = 1), coalesce(sum(total), 0.00)
           from ledger.bills where run_id = %s""",
        [run_id],
    ).fetchone()
    assert row is not None
    return BillSum(*row)
