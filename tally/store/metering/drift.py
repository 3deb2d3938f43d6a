"""How far rounding has drifted: what a project is billed beside the sum of its exact amounts (rule 23).

Each record is rounded by itself, so that a resource that changes every few minutes is billed more, or less, than it
costs. Where the amounts come from, and what becomes of a finding, does not belong here.
"""

from collections.abc import Sequence
from uuid import UUID

from tally.store.database import Connection

KIND = "rounding_drift"

# Above half a percent. A handful of records may differ by a few cents, whatever they cost.
_MOST_PERCENT = "0.5"
_LEAST = "0.05"

_FOUND = f"""
    with billed as (
        select cloud, project_id, min(platform) as platform, currency, sum(amount) as amount,
            sum(amount_exact) as amount_exact
        from ledger.rated_records as rated
        where run_id = any(%(members)s) {{in_scope}}
        group by cloud, project_id, currency
    )

    insert into ledger.findings (run_id, kind, cloud, platform, resource_type, subject, detail, at_risk)
    select %(run_id)s, '{KIND}', cloud, platform, '', project_id,
        'billed ' || amount || ' ' || currency || ', exactly ' || trim_scale(round(amount_exact, 6))
        || ': rounding came to ' || amount - round(amount_exact, 2),
        abs(round(amount - amount_exact, 2))
    from billed
    where abs(amount - amount_exact) >= {_LEAST}
        and abs(amount - amount_exact) * 100 > {_MOST_PERCENT} * abs(amount_exact)
    on conflict do nothing"""

# A correction is about the projects that it concerns.
_CONCERNED = """and exists (
            select from ledger.rated_records as own
            where own.run_id = %(run_id)s and own.cloud = rated.cloud and own.project_id = rated.project_id
        )"""


def write_drift(connection: Connection, run_id: UUID, members: Sequence[UUID] = ()) -> int:
    """Write a finding for each project whose bill differs from its exact costs by more than half a percent.

    ``members`` are the finalized runs that a correction stands on: reversals take back what they have written, so that
    all together are what counts. Returns how many findings there are.
    """
    query = _FOUND.format(in_scope=_CONCERNED if members else "")
    parameters = {"run_id": run_id, "members": [*members, run_id]}
    return connection.execute(query.encode(), parameters, prepare=False).rowcount
