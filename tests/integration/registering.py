"""The words of tests about projects and relations: everything lies in the cloud "os", days are written 2026-01-01."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tally.domain.closed_periods import FinalizedPeriod
from tally.domain.graph import Relation
from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.project import Project
from tally.services.projects import create_project
from tally.services.relations import Change, relate
from tally.store.database import Connection

TENANT = "infrastructure_tenant"


def day(text: str) -> datetime:
    """The first instant of a day."""
    return parse_instant(f"{text}T00:00:00Z")


def change(
    now: str = "2026-06-01", finalized: Sequence[str] = (), reason: str | None = None, zone: str = "UTC"
) -> Change:
    """A change by "test", while these months are finalized."""
    months = [BillingPeriod.parse(month, zone) for month in finalized]
    closed = [FinalizedPeriod(str(month), month.start, month.end) for month in months]
    return Change("test", day(now), closed, zone, reason)


def create(reporting: Connection, external_id: str, **changes: Any) -> Project:
    """Register a project."""
    fields = {"platform": "openstack", "cloud": "os", "name": None, "metadata": {}} | changes
    return create_project(reporting, external_id=external_id, actor="test", **fields)


def connect(
    reporting: Connection,
    source: str,
    target: str,
    since: str = "2026-01-01",
    until: str | None = None,
    relation_type: str = TENANT,
    metadata: dict[str, Any] | None = None,
    by: Change | None = None,
) -> Relation:
    """Relate two projects from a day to a day."""
    end = None if until is None else day(until)
    written = relate(
        reporting, f"os/{source}", f"os/{target}", relation_type, day(since), end, metadata, by or change()
    )
    return written.relation
