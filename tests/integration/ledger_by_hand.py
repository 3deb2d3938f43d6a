"""A ledger without events and dbt: usage that is written and rated by hand, from which bills are made.

What tests use that look at bills, adjustments and their corrections alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4, uuid5

from pricing.model import PriceVersion
from pricing.rating import Rate, rate
from tally.domain.graph import Relation
from tally.domain.instants import microseconds
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.bills import BillsMade, make_bills
from tally.services.pricing import version_named
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.metering import ledger
from tally.store.metering.runs import insert_run, mark_completed, mark_finalized

NOW = datetime(2026, 5, 1, tzinfo=UTC)
_NAMES = UUID("00000000-0000-4000-8000-000000000000")


@dataclass(frozen=True)
class Usage:
    """A usage record of a project, written cloud/project; without an end it lasts to the end of the month."""

    project: str
    platform: str
    resource_type: str
    resource_id: str
    usage: Mapping[str, Any] = field(default_factory=dict)
    state: str = "active"
    begin: datetime | None = None
    end: datetime | None = None


def project_id(project: str) -> UUID:
    """The registry id of a project, which is derived from its name."""
    return uuid5(_NAMES, project)


def add_projects(metering: Connection, platforms: Mapping[str, str], names: Mapping[str, str] | None = None) -> None:
    """Register projects, given by cloud/project with their platforms."""
    rows = [
        (project_id(project), platform, *project.split("/", 1), (names or {}).get(project))
        for project, platform in platforms.items()
    ]
    with metering.cursor().copy(
        "copy raw.projects (id, platform, cloud, external_id, name, load_id) from stdin"
    ) as copy:
        for row in rows:
            copy.write_row((*row, 1))


def add_relations(metering: Connection, relations: Iterable[Relation], load_id: int = 1) -> None:
    """Add versions of relations as a load has copied them."""
    with metering.cursor().copy(
        """copy raw.project_relations (id, version, source_id, target_id, relation_type, metadata, valid_from, valid_to,
               load_id) from stdin"""
    ) as copy:
        for r in relations:
            metadata = write_json(r.metadata)
            copy.write_row(
                (r.id, r.version, r.source, r.target, r.type, metadata, r.valid_from, r.valid_to, load_id)
            )


def begin_run(
    metering: Connection, load_id: int = 1, corrects: Run | None = None, period: str = "2026-03", scope: str = "all"
) -> Run:
    """Begin a run of a month at a load of its own."""
    month = BillingPeriod.parse(period)
    metering.execute(
        "insert into raw.loads (load_id, started_at, registry_version, events) values (%s, %s, 1, 0)", [load_id, NOW]
    )
    values: dict[str, Any] = {
        "period": period, "period_from": month.start, "period_to": month.end, "zone": month.zone, "kind": "regular",
        "status": "running", "preliminary": False, "metered_to": month.end, "load_id": load_id, "registry_version": 1,
        "pricing_version": "2026-03", "code_version": "test", "inputs_hash": "test",
        "scope": scope,
    }
    if corrects is not None:
        values |= {"kind": "correction", "corrects_run_id": corrects.id, "since_load_id": corrects.load_id}
    return insert_run(metering, values)


def write_usage(metering: Connection, run: Run, records: Sequence[Usage]) -> None:
    """Write usage into the ledger and rate it by the price version of the run."""
    version, month = version_named(metering, str(run.pricing_version)), BillingPeriod.parse(run.period)
    rated = [(uuid4(), record, *rates_of(version, record, month)) for record in records]
    with metering.cursor().copy(
        """copy ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign, project_id, state,
               lifetime_no, from_ts, to_ts, usage) from stdin"""
    ) as copy:
        for id_, r, begin, end, usage, _ in rated:
            cloud, project = r.project.split("/", 1)
            key = (cloud, r.platform, r.resource_type, r.resource_id, id_)
            copy.write_row((*key, run.id, 1, project, r.state, 1, begin, end, write_json(usage)))
    with metering.cursor().copy(
        """copy ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, usage_record_id,
               project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount, currency,
               pricing_version) from stdin"""
    ) as copy:
        for id_, r, _, _, _, rates in rated:
            cloud, project = r.project.split("/", 1)
            for one in rates:
                key = (cloud, r.platform, r.resource_type, r.resource_id, uuid5(id_, one.dimension))
                numbers = (one.quantity, one.price, one.state_modifier, one.type_modifier, one.amount_exact, one.amount)
                copy.write_row((*key, run.id, id_, project, one.dimension, *numbers, one.currency, version.version))
    metering.execute("analyze ledger.usage_records, ledger.rated_records")


def bill(metering: Connection, run: Run) -> BillsMade:
    """Make the bills of a run, and finalize it."""
    made = make_bills(metering, run)
    mark_completed(metering, run.id, ledger.fingerprint(metering, run.id), NOW)
    mark_finalized(metering, run.id, NOW)
    return made


def rates_of(
    version: PriceVersion, record: Usage, month: BillingPeriod
) -> tuple[datetime, datetime, dict[str, Any], Sequence[Rate]]:
    """(begin, end, usage, rates) of a usage record in a month."""
    begin, end = record.begin or month.start, record.end or month.end
    length = microseconds(end - begin)
    usage = {"minutes": Decimal(length // 60_000_000), "count": 1, **record.usage}
    kind = {"platform": record.platform, "resource_type": record.resource_type, "state": record.state}
    return begin, end, usage, rate(version, **kind, length_us=length, usage=usage).rates


DAY = timedelta(days=1)
