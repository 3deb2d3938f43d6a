"""The schemas in which a replay derives a run again, and how what it comes to differs from what counts.

dbt builds models in them (tally_dagster.replay). Records are compared by what they say, each as often as it is there.
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tally.store.database import Connection
from tally.store.metering.effective import RATED, USAGE
from tally.store.metering.runs import members

PREFIX = "replay_"  # as the variable schema_prefix of dbt
MOST_NAMED = 100

_SCHEMAS = ("staging", "metering", "marts")

# Which life a record is of may differ: nobody is billed for that, and a correction leaves it as it was.
_USAGE_SAYS = "cloud, platform, resource_type, resource_id, project_id, state, from_ts, to_ts, usage"
_RATED_SAYS = """rated.cloud, rated.platform, rated.resource_type, rated.resource_id, rated.project_id,
    rated.dimension, coalesce(rated.from_ts, used.from_ts) as from_ts, coalesce(rated.to_ts, used.to_ts) as to_ts,
    rated.quantity, rated.price, rated.state_modifier, rated.type_modifier,
    rated.amount_exact, rated.amount, rated.currency, rated.pricing_version"""


def _rated(rated: str, usage: str) -> str:
    return f"""
        select {_RATED_SAYS}
        from {rated} as rated
        inner join {usage} as used
            on used.cloud = rated.cloud and used.resource_type = rated.resource_type
                and used.resource_id = rated.resource_id and used.id = rated.usage_record_id"""


_USAGE_DIFFERS = f"""
    with counting as (select {_USAGE_SAYS} from {USAGE} as u),
    derived as (select {_USAGE_SAYS} from {PREFIX}metering.int_usage_records),
    differing as (
        select 'ledger' as side, only_here.* from (select * from counting except all select * from derived) as only_here
        union all
        select 'replay', only_here.* from (select * from derived except all select * from counting) as only_here
    )
    select side, cloud, resource_type, resource_id, project_id, from_ts, to_ts, '' as dimension, usage::text,
        count(*) over ()
    from differing order by cloud, resource_type, resource_id, from_ts, side limit {MOST_NAMED}"""

_RATED_DIFFERS = f"""
    with counting as ({_rated(RATED, "ledger.usage_records")}),
    derived as ({_rated(f"{PREFIX}metering.int_rated_records", f"{PREFIX}metering.int_usage_records")}),
    differing as (
        select 'ledger' as side, only_here.* from (select * from counting except all select * from derived) as only_here
        union all
        select 'replay', only_here.* from (select * from derived except all select * from counting) as only_here
    )
    select side, cloud, resource_type, resource_id, project_id, from_ts, to_ts, dimension, amount::text,
        count(*) over ()
    from differing order by cloud, resource_type, resource_id, from_ts, dimension, side limit {MOST_NAMED}"""


class Differing(NamedTuple):
    """A record that only the ledger, or only the replay has; ``says`` is its usage or its amount."""

    side: str
    cloud: str
    resource_type: str
    resource_id: str
    project_id: str
    from_ts: datetime
    to_ts: datetime
    dimension: str  # '' of usage
    says: str
    of: int  # how many there are in all; MOST_NAMED are told


def drop_replay(connection: Connection) -> None:
    """Take away what a replay has derived, also one that was broken off."""
    for schema in _SCHEMAS:
        connection.execute(f"drop schema if exists {PREFIX}{schema} cascade".encode())


def differing_usage(connection: Connection, run_id: UUID) -> list[Differing]:
    """How the usage that counts as of a run differs from the replay of it."""
    return _differing(connection, _USAGE_DIFFERS, run_id)


def differing_costs(connection: Connection, run_id: UUID) -> list[Differing]:
    """How the costs that count as of a run differ from the replay of it."""
    return _differing(connection, _RATED_DIFFERS, run_id)


def _differing(connection: Connection, query: str, run_id: UUID) -> list[Differing]:
    rows = connection.execute(query.encode(), {"members": members(connection, run_id)}, prepare=False).fetchall()
    return [Differing(*row) for row in rows]
