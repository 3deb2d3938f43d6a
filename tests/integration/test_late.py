"""Late relations: what was said of a finalized period after its run had read its inputs (rules 18 and 28)."""

from datetime import UTC, datetime

import pytest

from tally.domain.graph import Relation
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.late import LateRelation, finalized_periods, late_relations
from tally.services.load import load
from tally.services.relations import Change, close_relation, patch_relation
from tally.store.database import Connection
from tally.store.metering import runs as run_store
from tests.integration.registering import change, connect, create, day

MARCH = BillingPeriod.parse("2026-03")


def finalized_run(reporting: Connection, metering: Connection, period: BillingPeriod = MARCH) -> Run:
    """A finalized run of a period that has read what was said until now, and made nothing of it."""
    loaded = load(reporting, metering, lambda: datetime(2026, 5, 1, tzinfo=UTC))
    run = run_store.insert_run(
        metering,
        {
            "period": str(period),
            "period_from": period.start,
            "period_to": period.end,
            "zone": "UTC",
            "metered_to": period.end,
            "load_id": loaded.load_id,
            "registry_version": loaded.registry_version,
            "code_version": "test",
            "kind": "regular",
            "status": "running",
            "preliminary": False,
        },
    )
    run_store.mark_completed(metering, run.id, "hash", day("2026-05-02"))
    run_store.mark_finalized(metering, run.id, day("2026-05-02"))
    return run


@pytest.fixture
def relation(reporting: Connection) -> Relation:
    """A relation that every month since January sees."""
    for name in ("a", "b", "c"):
        create(reporting, name)
    return connect(reporting, "a", "b", metadata={"percent": 10})


def late(metering: Connection) -> Change:
    """A change with a reason, while what is finalized is finalized."""
    return Change("test", day("2026-06-01"), finalized_periods(metering), reason="said late")


def keys(rows: list[LateRelation]) -> list[tuple[str | None, int | None, int]]:
    """The reason, the version before and the version of each row."""
    return [(row.after.reason, row.before and row.before.version, row.after.version) for row in rows]


def test_finalized_periods_are_those_of_finalized_runs(reporting: Connection, metering: Connection) -> None:
    """The oldest first, with their instants."""
    assert finalized_periods(metering) == []
    for month in ("2026-03", "2026-02"):
        finalized_run(reporting, metering, BillingPeriod.parse(month))
    assert finalized_periods(metering) == [
        ("2026-02", day("2026-02-01"), day("2026-03-01")),
        ("2026-03", day("2026-03-01"), day("2026-04-01")),
    ]


def test_what_a_run_has_read_is_not_late(reporting: Connection, metering: Connection, relation: Relation) -> None:
    """Nor is what other periods alone see, or what leaves the period as it was."""
    run = finalized_run(reporting, metering)
    connect(reporting, "a", "c", "2026-04-01", by=late(metering))
    close_relation(reporting, relation.id, day("2026-03-20"), change())
    assert late_relations(reporting, metering, run) == []


@pytest.mark.parametrize("loaded", [False, True])
def test_what_was_said_later_is_late(
    reporting: Connection, metering: Connection, relation: Relation, loaded: bool  # noqa: FBT001 - a parameter of the test
) -> None:
    """New relations, new metadata, and relations that no longer are: with their reasons, loaded since or not."""
    run = finalized_run(reporting, metering)
    added = connect(reporting, "a", "c", "2026-03-31", by=late(metering))
    patch_relation(reporting, relation.id, {"metadata": {"percent": 11}}, late(metering))
    close_relation(reporting, relation.id, day("2026-03-01"), late(metering))
    if loaded:
        load(reporting, metering, lambda: datetime(2026, 6, 1, tzinfo=UTC))
    rows = late_relations(reporting, metering, run)
    assert [row for row in rows if row.after.id == added.id] == [LateRelation(None, added)]
    assert keys([row for row in rows if row.after.id == relation.id]) == [("said late", 1, 2), ("said late", 2, 3)]


def test_what_was_said_between_load_and_finalization_is_late(
    reporting: Connection, metering: Connection, relation: Relation
) -> None:
    """Nobody asked for a reason then, since the period was open; the run does not know it all the same."""
    run = finalized_run(reporting, metering)
    patch_relation(reporting, relation.id, {"metadata": {"percent": 11}}, change(finalized=()))
    assert keys(late_relations(reporting, metering, run)) == [(None, 1, 2)]


def test_a_run_after_that_knows_it(reporting: Connection, metering: Connection, relation: Relation) -> None:
    """Late is late for one run."""
    finalized_run(reporting, metering)
    patch_relation(reporting, relation.id, {"metadata": {"percent": 11}}, late(metering))
    run = finalized_run(reporting, metering, BillingPeriod.parse("2026-02"))
    assert late_relations(reporting, metering, run) == []


def test_a_load_copies_every_version(reporting: Connection, metering: Connection, relation: Relation) -> None:
    """As it was said, each with the load that brought it."""
    load(reporting, metering, lambda: datetime(2026, 5, 1, tzinfo=UTC))
    close_relation(reporting, relation.id, day("2026-01-01"), change(reason="wrong"))
    load(reporting, metering, lambda: datetime(2026, 5, 1, tzinfo=UTC))
    rows = metering.execute(
        "select version, valid_to, load_id from raw.project_relations order by version"
    ).fetchall()
    assert rows == [(1, None, 1), (2, day("2026-01-01"), 2)]
