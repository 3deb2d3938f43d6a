"""A name has one meaning for a type: what both a size and usage call by it is a finding."""

from decimal import Decimal
from typing import Any

from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.metering_sql import meter
from tests.integration.sending import CREATE, RESIZE, event, send, statuses, volume

# An operator's: sizes may hold more than is listed, and usage any name that is not listed.
OPEN = {
    "size": {"properties": {"size_gb": {"type": "integer"}}},
    "lifecycle": {"create": "create", "use": "usage"},
}


def told(event_id: str, when: str, event_type: str, resource_type: str, resource_id: str, **payload: Any) -> Any:
    names = {"platform": "test", "cloud": "test-1", "resource_type": resource_type}
    return event(event_id, when, event_type, resource_id, payload=payload, **names)


def test_a_counter_that_is_also_an_attribute_of_sizes_is_found(reporting: Connection, metering: Connection) -> None:
    """Of one resource, or of two of a type. No event alone shows it: ingestion takes them. Usage means the counter."""
    for resource_type in ("share", "bucket", "queue"):
        define_type(reporting, "test", resource_type, OPEN, "test")
    outcomes = send(
        reporting,
        told("1", "01T00:00:00", "create", "share", "both", size={"size_gb": 1, "iops": 100}),
        told("2", "02T00:00:00", "use", "share", "both", usage={"iops": Decimal("2.5"), "reads": 1}),
        told("3", "01T00:00:00", "create", "bucket", "sized", size={"tier": "cold"}),
        told("4", "01T00:00:00", "create", "bucket", "used", size={}),
        told("5", "02T00:00:00", "use", "bucket", "used", usage={"tier": 3}),
        told("6", "01T00:00:00", "create", "queue", "plain", size={"iops": 100}),
        told("7", "02T00:00:00", "use", "queue", "plain", usage={"reads": 1}),
        told("8", "02T00:00:00", "use", "queue", "plain", usage={"size_gb": 1}),
    )
    assert statuses(outcomes) == ["accepted"] * 7 + ["invalid_usage"]
    meter(reporting, metering, select="+int_findings")
    found = metering.execute(
        "select resource_type, subject from metering.int_findings where kind = 'ambiguous_metric' order by 1"
    ).fetchall()
    assert found == [("bucket", "tier"), ("share", "iops")]
    usage = metering.execute(
        "select usage ->> 'iops', usage ->> 'reads' from metering.int_usage_records where resource_id = 'both'"
    )
    assert usage.fetchall() == [("2.5", "1")]


def test_a_counter_of_whatever_name_is_found_where_nobody_prices_it(
    reporting: Connection, metering: Connection
) -> None:
    """Also one that bears the sign for the whole of a type, which has a price."""
    send(
        reporting,
        volume("1", "01T00:00:00", CREATE, 10),
        event("2", "02T00:00:00", RESIZE, payload={"usage": {"*": 1, "iops": 1}}),
    )
    meter(reporting, metering, select="+int_findings")
    found = metering.execute("select subject from metering.int_findings where kind = 'unpriced' order by 1").fetchall()
    assert found == [("*",), ("iops",)]
