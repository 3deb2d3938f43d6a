"""How far the timelines have been derived. What derives them is dbt_project/models/intermediate."""

from tally.store.database import Connection


def forget_derived(metering: Connection) -> None:
    """Let the timelines hold nothing of what has arrived, as before the first run."""
    metering.execute("update raw.derived set load_id = 0, registry_version = 0")
