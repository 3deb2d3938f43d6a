"""Each invariant of rule 16 can fail: what is corrupted on purpose is found, and named."""

import pytest

from assets.checks import GATES
from tally.services.runs import REQUIRED_CHECKS
from tally.store.database import Connection, connected
from tally.store.metering.checks import invariant
from tally.store.metering.runs import select_runs
from tests.integration.closing import House

NAMES = [name for names in GATES.values() for name in names]
USAGE = "update metering.int_usage_records set"
RATED = "update metering.int_rated_records set"
FIRST = "where resource_id = 'i-1' and from_event_id is null"

# An event that has been loaded, and that nothing was derived from.
MISSED = """select (jsonb_populate_record(e, '{"event_id": "missed", "timestamp": "2026-03-30T00:00:00Z"}')).*
    from raw.events as e where event_id = 'e-5'"""

# (invariant, what somebody does to the tables, whom the invariant names)
CORRUPTIONS = [
    ("no_gap", f"{USAGE} to_ts = to_ts - interval '1 microsecond' {FIRST}", "i-1"),
    (
        "no_gap",
        "delete from metering.int_usage_records where from_event_id = 'e-2'",
        "i-1",
    ),
    ("no_overlap", f"{USAGE} to_ts = to_ts + interval '1 microsecond' {FIRST}", "i-1"),
    ("no_overlap", f"{USAGE} lifetime_no = 7, to_ts = to_ts + interval '1 hour' {FIRST}", "i-1"),
    ("coverage", f"{USAGE} length_us = length_us + 1 {FIRST}", "i-1"),
    ("coverage", f"{USAGE} to_ts = to_ts - interval '1 microsecond', length_us = length_us - 1 {FIRST}", "i-1"),
    ("coverage", "delete from metering.int_usage_records where resource_id = 'i-2'", "i-2"),
    ("coverage", "update metering.int_proved_lives set lived = '{}' where resource_id = 'i-2'", "i-2"),
    ("coverage", f"insert into raw.events {MISSED}; update raw.loads set events = events + 1", "i-2"),
    ("traceability", "delete from raw.events where resource_id = 'i-2'", "i-2"),
    ("traceability", f"{USAGE} to_event_id = 'nobody' {FIRST}", "i-1"),
    ("traceability", f"{USAGE} from_ts = from_ts + interval '1 second' {FIRST}", "i-1"),
    (
        "traceability",
        ("with later as (insert into raw.loads values (9, now(), 1, 0))"
        " update raw.events set load_id = 9 where event_id = 'e-2'"),
        "i-1",
    ),
    ("count_is_one", f"""{USAGE} usage = usage || '{{"count": 2}}' {FIRST}""", "i-1"),
    ("count_is_one", f"{USAGE} usage = usage - 'count' {FIRST}", "i-1"),
    ("no_negative_usage", f"""{USAGE} usage = usage || '{{"ram_gb": -0.1}}' {FIRST}""", "i-1"),
    ("counters_add_up", f"""{USAGE} counters = counters || '{{"egress_gb": 1}}' {FIRST}""", "i-1"),
    (
        "projection_matches_timelines",
        "update raw.current_resources set last_state = 'x' where resource_id = 'i-2'",
        "i-2",
    ),
    (
        "projection_matches_timelines",
        "update raw.current_resources set deleted_at = null where resource_id = 'i-1'",
        "i-1",
    ),
    ("projection_matches_timelines", "delete from raw.current_resources where resource_id = 'i-1'", "i-1"),
    (
        "projection_matches_timelines",
        """with in_first as (delete from metering.int_intervals_first_half where resource_id = 'i-1' returning 1),
               in_second as (delete from metering.int_intervals_second_half where resource_id = 'i-1' returning 1)
           select from in_first union all select from in_second""",
        "i-1",
    ),
    ("no_negative_amount", f"{RATED} amount = -0.01 where resource_id = 'i-2' and dimension = 'vcpus'", "i-2"),
    (
        "amount_is_rounded_exact_amount",
        f"{RATED} amount = amount + 0.01 where resource_id = 'i-2' and dimension = 'vcpus'",
        "i-2",
    ),
    (
        "amount_is_rounded_exact_amount",
        f"{RATED} amount_exact = amount_exact + 0.000000000001 where resource_id = 'i-2'",
        "i-2",
    ),
    ("amount_is_rounded_exact_amount", f"{RATED} price = price * 2 where resource_id = 'i-2'", "i-2"),
    ("amount_is_rounded_exact_amount", f"{RATED} usage_record_id = id where resource_id = 'i-2'", "i-2"),
    (
        "every_priced_quantity_is_rated",
        "delete from metering.int_rated_records where resource_id = 'i-2' and dimension = 'vcpus'",
        "i-2",
    ),
    (
        "every_priced_quantity_is_rated",
        f"{RATED} dimension = 'other' where resource_id = 'i-2' and dimension = 'vcpus'",
        "i-2",
    ),
    (
        "every_priced_quantity_is_rated",
        "insert into metering.int_rated_records select * from metering.int_rated_records where resource_id = 'i-2'",
        "i-2",
    ),
    ("bills_equal_line_items", "delete from ledger.attributions where project_id = 'p-2'", "p-2"),
    ("bills_equal_line_items", "delete from ledger.bills where project_id = 'p-2'", "p-2"),
    (
        "bills_equal_line_items",
        "delete from ledger.rated_records where project_id = 'p-2' and dimension = 'vcpus'",
        "p-2",
    ),
]


def violations(metering: Connection, name: str) -> list[tuple[str, str, str, str]]:
    """What violates an invariant of the live run: (cloud, resource_type, subject, detail)."""
    (run,) = select_runs(metering, statuses=("completed",))
    return metering.execute(invariant(name).query(run).encode()).fetchall()


def test_every_invariant_gates_a_step_and_says_what_to_do() -> None:
    """The checks that a run must have passed are those that the assets run, each with its truth and its remedy."""
    assert sorted(NAMES) == sorted(REQUIRED_CHECKS)
    assert all(invariant(name).truth and invariant(name).remedy for name in NAMES)


def test_every_invariant_holds_of_a_closed_month(house: House) -> None:
    """Nothing is reported where nothing is wrong."""
    with connected(house.metering_url) as metering:
        assert {name: violations(metering, name) for name in NAMES} == {name: [] for name in NAMES}


@pytest.mark.parametrize(("name", "corruption", "subject"), CORRUPTIONS)
def test_a_corruption_is_found_and_named(house: House, name: str, corruption: str, subject: str) -> None:
    """Each invariant finds what was done to its rows, and names the resource or project."""
    with connected(house.metering_url) as metering:
        assert metering.execute(corruption.encode()).rowcount > 0
        assert {found[2] for found in violations(metering, name)} == {subject}


@pytest.mark.parametrize("name", ["amount_keeps_terms", "every_part_is_rated"])
def test_what_a_month_has_not_costs_nothing(house: House, name: str) -> None:
    """No rated record is read for terms or changes of prices that are not there: a month may have millions."""
    with connected(house.metering_url) as metering:
        (run,) = select_runs(metering, statuses=("completed",))
        query = "explain (analyze, timing off) " + invariant(name).query(run)
        plan = [line for (line,) in metering.execute(query.encode()) if " on int_rated_records" in line]
        assert plan
        assert all("never executed" in line for line in plan)
