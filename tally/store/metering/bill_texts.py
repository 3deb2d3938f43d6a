"""Bills, put together by the database: what stands around line items comes from pricing.bill, the items lie here.

The bill of one project may hold a million periods. No text of it leaves the database, so that what a process takes of
memory does not grow with it, and each is hashed and compressed where it was written.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from psycopg.errors import ProgramLimitExceeded
from psycopg.rows import TupleRow

from tally.domain.errors import Refused
from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering import line_items
from tally.store.metering.line_items import AskedItems
from tally.store.metering.tampering import HashedBill


class ItemsPlace(NamedTuple):
    """Where in a document the line items of a resource type of a project belong: after a piece of text."""

    before: str
    cloud: str
    project_id: str
    platform: str
    resource_type: str
    is_related: bool  # they are indented as part of related costs


class BillFrame(NamedTuple):
    """A bill without its line items."""

    cloud: str
    project_id: str
    platform: str
    total: Decimal
    currency: str
    places: Sequence[ItemsPlace]
    after: str  # what follows the last of them


_HEAD = ("cloud", "project_id", "platform", "total", "currency")


def write_bills(connection: Connection, run: Run, frames: Sequence[BillFrame], asked: AskedItems) -> None:
    """Write bills of a run, in a transaction of its own.

    ``asked`` are all projects on them. Meant for thousands of usage records: they are sorted in memory.

    Raises:
        Refused: if there are costs that no bill can show, naming them; if a document is longer than a text can be.
    """
    with connection.transaction():
        connection.execute(_COMPRESS)
        [(strange,)] = _execute(connection, _WRITTEN, run, frames, asked)
        if strange:
            reasons = line_items.select_strange(connection, run.id, asked)
            raise Refused(f"bills of {run.period}", reasons or [f"{_named(frames)}: there are costs without usage"])


def hash_bills(
    connection: Connection, run: Run, frames: Sequence[BillFrame], asked: AskedItems
) -> list[HashedBill]:
    """Make bills again from the records that count as of a run, and hash them; nothing is stored.

    Raises:
        Refused: if a document is longer than a text can be.
    """
    with connection.transaction():
        return [HashedBill(*row) for row in _execute(connection, _HASHED, run, frames, asked)]


def _execute(
    connection: Connection, query: str, run: Run, frames: Sequence[BillFrame], asked: AskedItems
) -> list[TupleRow]:
    heads = [(*frame[: len(_HEAD)], frame.after) for frame in frames]
    places = [(number, *place) for number, frame in enumerate(frames, start=1) for place in frame.places]
    values = {
        "run_id": run.id,
        **_arrays("frame", (*_HEAD, "after"), heads),
        **_arrays("place", ("frame_no", *ItemsPlace._fields), places),
    }
    try:
        return line_items.execute(connection, query, run.id, asked, values)
    except ProgramLimitExceeded:
        reason = f"{_named(frames)}: the document is longer than the 1 GB that PostgreSQL takes as a text"
        raise Refused(f"bills of {run.period}", [reason]) from None


def _named(frames: Sequence[BillFrame]) -> str:
    """Whose bills they are: mostly one, where one is long."""
    return " or ".join(f"{frame.cloud}/{frame.project_id}" for frame in frames)


def _arrays(prefix: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Parameters of a query, a column each."""
    return {f"{prefix}_{name}": [row[place] for row in rows] for place, name in enumerate(names)}


# Most of what writing takes is compression: far less by lz4, where the server has it.
_COMPRESS = """
    select set_config(name, 'lz4', true) from pg_settings
    where name = 'default_toast_compression' and 'lz4' = any(enumvals)"""

# Related costs stand four blanks deeper than what the bill lists of its own project.
_DOCUMENTS = f"""
    {line_items.ITEMS},

    texts as (
        select cloud, project_id, platform, resource_type, sum(strange) as strange,
            string_agg(item, E',\\n    ' order by resource_id) as text
        from items
        group by cloud, project_id, platform, resource_type
    ),

    frames as (
        select *
        from unnest(
            %(frame_cloud)s::text[], %(frame_project_id)s::text[], %(frame_platform)s::text[],
            %(frame_total)s::numeric[], %(frame_currency)s::text[], %(frame_after)s::text[]
        ) with ordinality as frames (cloud, project_id, platform, total, currency, after, no)
    ),

    places as (
        select *
        from unnest(
            %(place_frame_no)s::bigint[], %(place_before)s::text[], %(place_cloud)s::text[],
            %(place_project_id)s::text[], %(place_platform)s::text[], %(place_resource_type)s::text[],
            %(place_is_related)s::boolean[]
        ) with ordinality as places (frame_no, before, cloud, project_id, platform, resource_type, is_related, no)
    ),

    filled as (
        select places.frame_no, sum(coalesce(texts.strange, 1)) as strange,
            string_agg(
                places.before
                || case when places.is_related then replace(texts.text, E'\\n', E'\\n    ') else texts.text end,
                '' order by places.no
            ) as text
        from places
        left join texts using (cloud, project_id, platform, resource_type)
        group by places.frame_no
    ),

    documents as (
        select frames.cloud, frames.project_id, frames.platform, frames.total, frames.currency,
            concat(filled.text, frames.after) as document, filled.strange
        from frames
        left join filled on filled.frame_no = frames.no
    )"""

_HASH = "encode(sha256(convert_to(document, 'UTF8')), 'hex')"

_HASHED = f"{_DOCUMENTS} select cloud, project_id, total, {_HASH} from documents"

_WRITTEN = f"""
    {_DOCUMENTS},

    written as (
        insert into ledger.bills (run_id, sign, cloud, project_id, platform, total, currency, document, document_hash)
        select %(run_id)s, 1, cloud, project_id, platform, total, currency, document, {_HASH}
        from documents
    )

    select coalesce(sum(strange), 0)::bigint from documents"""
