"""What a PostgreSQL server has to be that no session can set: looked for before a database is migrated.

What a session can set belongs in database.py. Settings of memory, locks and the planner are the operator's: with
others, a statement takes longer or is refused by name, and nothing else comes out.
"""

from collections.abc import Iterator, Mapping

from tally.domain.errors import Refused
from tally.store.database import RELIED_ON, Connection, describe

OLDEST = 15  # the first release with what migrations and models are written in

_FACTS = (
    *RELIED_ON,
    "server_version_num",
    "server_encoding",
    "in_hot_standby",
    "transaction_read_only",
    "session_replication_role",
    "transaction_timeout",
)


def refuse_unfit(connection: Connection) -> None:
    """Refuse a database that would lose or change what Tally writes, or break it off.

    Raises:
        Refused: with every reason, and what to do about it.
    """
    rows = connection.execute(
        "select name, current_setting(name, true) from unnest(%s::text[]) as given (name)", [list(_FACTS)]
    )
    facts = {name: value or "" for name, value in rows}
    if reasons := list(faults(facts)):
        raise Refused(f"{describe(connection.info.dsn)} cannot be used", reasons)


def faults(facts: Mapping[str, str]) -> Iterator[str]:
    """What speaks against a server, by what its settings are: '' where it has none of a name."""
    if int(facts["server_version_num"]) < OLDEST * 10_000:
        yield f"it is of PostgreSQL {int(facts['server_version_num']) // 10_000}; {OLDEST} is the oldest that will do"
    if facts["server_encoding"] != "UTF8":
        yield f"its encoding is {facts['server_encoding']}; create it with encoding 'UTF8'"
    if facts["in_hot_standby"] == "on":
        yield "it is a standby, which takes no writes; name the primary"
    elif facts["transaction_read_only"] == "on":
        yield "it takes no writes; set default_transaction_read_only off for it and its role"
    if facts["session_replication_role"] != "origin":
        yield "session_replication_role is set, so that no trigger would protect what is finalized; reset it"
    if (limit := facts["transaction_timeout"]) not in ("", "0"):
        yield f"transaction_timeout is {limit}, and a load may take longer; set it to 0 for its role"
    if facts["tally.session"] != RELIED_ON["tally.session"]:
        yield "the settings of a session do not arrive; connect to the server itself, without a pooler in between"
        return
    for name, value in RELIED_ON.items():
        if facts[name] != value:
            yield f"{name} is {facts[name]} and not {value}; unset PGTZ, PGDATESTYLE and PGCLIENTENCODING"
