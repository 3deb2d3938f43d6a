"""SQL of the audit log: who wrote what. A row is written in the transaction of what it tells of."""

from collections.abc import Mapping
from typing import Any

from tally.store.database import Connection
from tally.store.json_text import write_json


def record(connection: Connection, actor: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
    """Add a row; ``action`` is verb.noun turned round, such as ``project.create``."""
    connection.execute(
        "insert into reporting.audit_log (actor, action, subject, detail) values (%s, %s, %s, %s::jsonb)",
        [actor, action, subject, write_json(detail)],
    )
