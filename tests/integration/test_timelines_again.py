"""Damaged timelines are found by a check, and derived again by what it tells to do (rules 12 and 16)."""

import pytest

from tally.domain.run import Run
from tally.services.timelines import derive_again, go_on_by
from tally.store.database import Connection
from tally.store.metering.checks import invariant, invariant_names
from tests.integration.closing import SMALL_MONTH
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send

DAMAGES = (
    "delete from metering.int_intervals_{half} where from_event_id = 'e-2'",
    "update metering.int_intervals_{half} set to_ts = to_ts + interval '1 hour' where from_event_id = 'e-3'",
    "update metering.int_lifetimes set closed_at = '2026-03-07' where resource_id = 'i-2'",
)


def usage(metering: Connection, run: Run) -> list[tuple[object, ...]]:
    """Where the records of a run begin and end, and what they measure."""
    return metering.execute(
        "select resource_id, from_ts, to_ts, usage from ledger.usage_records where run_id = %s order by 1, 2", [run.id]
    ).fetchall()


def test_damaged_timelines_are_found_and_derived_again(reporting: Connection, metering: Connection) -> None:
    """Nothing has arrived for those resources since; what is derived from nothing is what it was."""
    send(reporting, *SMALL_MONTH)
    before = usage(metering, run_month(reporting, metering, finalize=False))
    for damage in DAMAGES:
        for half in ("first_half", "second_half"):
            metering.execute(damage.format(half=half).encode())
    with pytest.raises(AssertionError, match="coverage"):
        run_month(reporting, metering, finalize=False)
    derive_again(metering)
    assert usage(metering, run_month(reporting, metering, finalize=False)) == before


def test_what_other_sql_has_derived_is_derived_from_nothing(reporting: Connection, metering: Connection) -> None:
    """Not even its tables stay: an earlier version may have given them other columns."""
    send(reporting, *SMALL_MONTH)
    go_on_by(metering, "this")
    before = usage(metering, run_month(reporting, metering, finalize=False))
    for damage in (*DAMAGES, "alter table metering.int_intervals_{half} rename column size to measures"):
        for half in ("first_half", "second_half"):
            metering.execute(damage.format(half=half).encode())
    go_on_by(metering, "another")
    assert usage(metering, run_month(reporting, metering, finalize=False)) == before
    kept = "select max(xmin::text::bigint) from metering.int_lifetimes"
    written = metering.execute(kept).fetchone()
    go_on_by(metering, "another")
    run_month(reporting, metering, finalize=False)
    assert metering.execute(kept).fetchone() == written


def test_every_check_of_timelines_says_how_they_are_derived_again() -> None:
    """By a command that there is."""
    told = {name for name in invariant_names() if "`tally rebuild --timelines`" in invariant(name).remedy}
    assert told == {"coverage", "no_gap", "no_overlap", "projection_matches_timelines", "traceability"}
