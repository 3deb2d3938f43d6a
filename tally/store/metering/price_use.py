"""Price versions with what they are used by. How they are kept is prices.py's business."""

from datetime import date, datetime
from typing import NamedTuple

from tally.store.database import Connection


class VersionUse(NamedTuple):
    """A loaded version; ``runs`` are those that count, ``months`` and ``finalized`` the months they are of."""

    version: str
    valid_from: date
    valid_to: date | None  # as it stands, or where the next version begins
    currency: str
    content_hash: str
    loaded_at: datetime
    runs: int
    months: list[str]
    finalized: list[str]


def versions_in_use(connection: Connection) -> list[VersionUse]:
    """List all versions, by the first day that they hold for."""
    rows = connection.execute(
        """
        select v.version, v.valid_from,
            coalesce(v.valid_to, lead(v.valid_from) over (order by v.valid_from)), v.currency, v.content_hash,
            v.loaded_at, coalesce(used.runs, 0), coalesce(used.months, '{}'), coalesce(used.finalized, '{}')
        from ledger.pricing_versions as v
        left join (
            select prices.pricing_version, count(*) as runs, array_agg(distinct period order by period) as months,
                array_agg(distinct period order by period) filter (where status = 'finalized') as finalized
            from ledger.runs
            inner join ledger.run_prices as prices on prices.run_id = runs.id
            where status in ('completed', 'finalized')
            group by prices.pricing_version
        ) as used on used.pricing_version = v.version
        order by v.valid_from"""
    )
    return [VersionUse(*row) for row in rows]
