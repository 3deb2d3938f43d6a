"""SQL of the dead letters: raw bytes of what could not be taken, once per (cloud, event_id, content)."""

from collections.abc import Iterable
from typing import NamedTuple

from tally.store.database import Connection


class DeadLetter(NamedTuple):
    """What could not be taken and why; texts are empty where the input does not tell."""

    cloud: str
    event_id: str
    content_hash: bytes
    reason: str
    detail: str
    raw: bytes
    platform: str
    resource_type: str

    @property
    def key(self) -> tuple[str, str, bytes]:
        """Once per this."""
        return (self.cloud, self.event_id, self.content_hash)


def add(connection: Connection, letters: Iterable[DeadLetter]) -> None:
    """Keep letters. One that is kept already gets the latest reason, and counts as not yet replayed."""
    latest = {letter.key: letter for letter in letters}
    if not latest:
        return
    columns = zip(*(latest[key] for key in sorted(latest)), strict=True)
    connection.execute(
        """
        insert into reporting.rejected_events
            (cloud, event_id, content_hash, reason, detail, raw, platform, resource_type)
        select *
        from unnest(
            %b::text[], %b::text[], %b::bytea[], %b::text[], %b::text[], %b::bytea[], %b::text[], %b::text[]
        )
        on conflict (cloud, event_id, content_hash) do update set
            reason = excluded.reason, detail = excluded.detail, replayed_at = null
        """,
        [list(column) for column in columns],
    )
