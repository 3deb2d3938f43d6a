"""Each invariant of rule 16 can fail: what is corrupted on purpose is found, and named."""

from collections.abc import Iterator

import pytest

from assets.checks import GATES
from tally.services.runs import REQUIRED_CHECKS
from tally.store.database import Connection, connected
from tally.store.metering.checks import invariant
from tally.store.metering.runs import select_runs
from tests.integration.closing import copied

NAMES = [name for names in GATES.values() for name in names]
USAGE = "update metering.int_usage_records set"
RATED = "update metering.int_rated_records set"
FIRST = "where resource_id = 'i-1' and from_event_id is null"
SECOND = "where resource_id = 'i-1' and from_event_id = 'e-2'"
THIRD = "where resource_id = 'i-1' and from_event_id = 'e-3'"
VCPUS = "where resource_id = 'i-2' and dimension = 'vcpus'"
ROUNDED = "amount_is_rounded_exact_amount"

# An event that has been loaded, and that nothing was derived from.
MISSED = """select (jsonb_populate_record(e, '{"event_id": "missed", "timestamp": "2026-03-30T00:00:00Z"}')).*
    from raw.events as e where event_id = 'e-5'"""

# What the invariants have to tell from what is right.
ANOTHER_LIFE = """select
        (jsonb_populate_record(l, '{"lifetime_no": 2, "opened_at": "2026-03-28", "closed_at": null}')).*
    from metering.int_lifetimes as l where resource_id = 'i-1'"""
ANOTHER_BILL = """select (jsonb_populate_record(b, '{"project_id": "p-9", "total": 5}')).*
    from ledger.bills as b where project_id = 'p-2'"""
TAKEN_BACK = """select (jsonb_populate_record(a, '{"sign": -1}')).*
    from ledger.attributions as a where project_id = 'p-2'"""


def gained(at: str, closed_at: str = "null") -> str:
    """A gain of i-1 that no usage record tells of."""
    return f"""insert into metering.int_usage_increments
        (cloud, platform, resource_type, resource_id, timestamp, event_id, lifetime_no, closed_at, metric, quantity)
        values ('os-prod-eu1', 'openstack', 'instance', 'i-1', '{at}', 'e-9', 1, {closed_at}, 'egress_gb', 1)"""


def half_a_cent(amount: str) -> str:
    """A quarter of a vcpu for an hour at 0.02 is exactly half a cent: rated with an amount."""
    return f"""with used as (
            update metering.int_usage_records
            set to_ts = from_ts + interval '1 hour', usage = usage || '{{"vcpus": 0.25}}'
            where resource_id = 'i-2'
        ), others as (
            delete from metering.int_rated_records where resource_id = 'i-2' and dimension <> 'vcpus'
        )
        {RATED} quantity = 0.25, amount = {amount}, amount_exact = 0.005 {VCPUS}"""


# (invariant, what somebody does to the tables, whom the invariant names)
CORRUPTIONS = [
    ("no_gap", f"{USAGE} to_ts = to_ts - interval '1 microsecond' {FIRST}", "i-1"),
    (
        "no_gap",
        "delete from metering.int_usage_records where from_event_id = 'e-2'",
        "i-1",
    ),
    ("no_overlap", f"{USAGE} to_ts = to_ts + interval '1 microsecond' {FIRST}", "i-1"),
    ("no_overlap", f"{USAGE} to_ts = to_ts + interval '1 microsecond' {SECOND}", "i-1"),
    ("no_overlap", f"{USAGE} lifetime_no = 7, to_ts = to_ts + interval '1 hour' {FIRST}", "i-1"),
    ("coverage", f"{USAGE} length_us = length_us + 1 {FIRST}", "i-1"),
    ("coverage", f"{USAGE} to_ts = to_ts - interval '1 microsecond', length_us = length_us - 1 {FIRST}", "i-1"),
    (
        "coverage",
        f"{USAGE} from_ts = from_ts + interval '1 second', to_ts = to_ts + interval '1 second' {FIRST}",
        "i-1",
    ),
    ("coverage", "delete from metering.int_usage_records where resource_id = 'i-2'", "i-2"),
    ("coverage", "update metering.int_proved_lives set lived = '{}' where resource_id = 'i-2'", "i-2"),
    ("coverage", f"insert into raw.events {MISSED}; update raw.loads set events = events + 1", "i-2"),
    ("traceability", "delete from raw.events where resource_id = 'i-2'", "i-2"),
    ("traceability", f"{USAGE} to_event_id = 'nobody' {FIRST}", "i-1"),
    ("traceability", f"{USAGE} from_ts = from_ts + interval '1 second' {FIRST}", "i-1"),
    ("traceability", f"{USAGE} from_ts = from_ts + interval '1 second' {SECOND}", "i-1"),
    ("traceability", f"{USAGE} from_event_id = 'nobody' {FIRST}", "i-1"),
    ("traceability", f"{USAGE} project_id = 'p-2' {SECOND}", "i-1"),
    (
        "traceability",
        ("with later as (insert into raw.loads values (9, now(), 1, 0))"
        " update raw.events set load_id = 9 where event_id = 'e-2'"),
        "i-1",
    ),
    ("count_is_one", f"""{USAGE} usage = usage || '{{"count": 2}}' {FIRST}""", "i-1"),
    ("count_is_one", f"{USAGE} usage = usage - 'count' {FIRST}", "i-1"),
    ("no_negative_usage", f"""{USAGE} usage = usage || '{{"ram_gb": -0.1}}' {FIRST}""", "i-1"),
    ("no_negative_usage", f"{USAGE} length_us = 0 {FIRST}", "i-1"),
    ("counters_add_up", gained("2026-03-10"), "i-1"),
    ("counters_add_up", gained("2026-04-01", closed_at="'2026-04-01'"), "i-1"),
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
    (
        "projection_matches_timelines",
        "update raw.current_resources set project_id = 'p-9' where resource_id = 'i-2'",
        "i-2",
    ),
    (
        "projection_matches_timelines",
        """update raw.current_resources set size = size || '{"vcpus": 3}' where resource_id = 'i-2'""",
        "i-2",
    ),
    ("projection_matches_timelines", f"insert into metering.int_lifetimes {ANOTHER_LIFE}", "i-1"),
    ("projection_matches_timelines", "delete from raw.current_resources where resource_id = 'i-1'", "i-1"),
    (
        "projection_matches_timelines",
        """with in_first as (delete from metering.int_intervals_first_half where resource_id = 'i-1' returning 1),
               in_second as (delete from metering.int_intervals_second_half where resource_id = 'i-1' returning 1)
           select from in_first union all select from in_second""",
        "i-1",
    ),
    *(
        ("no_negative_amount", f"{RATED} {column} = -0.01 {VCPUS}", "i-2")
        for column in ("amount", "amount_exact", "quantity", "price", "state_modifier", "type_modifier")
    ),
    ("no_negative_amount", f"{RATED} amount = 1e16 {VCPUS}", "i-2"),
    *(
        (ROUNDED, f"{RATED} {column} = {column} + 1 {VCPUS}", "i-2")
        for column in ("quantity", "price", "state_modifier", "type_modifier")
    ),
    (ROUNDED, f"{RATED} amount_exact = amount_exact - 0.000000000001 {VCPUS}", "i-2"),
    (ROUNDED, half_a_cent("0.00"), "i-2"),
    (ROUNDED, f"{RATED} amount = amount + 0.01 {VCPUS}", "i-2"),
    (ROUNDED, f"{RATED} amount_exact = amount_exact + 0.000000000001 {VCPUS}", "i-2"),
    (ROUNDED, f"{RATED} usage_record_id = id where resource_id = 'i-2'", "i-2"),
    (
        "every_priced_quantity_is_rated",
        "delete from metering.int_rated_records where resource_id = 'i-2' and dimension = 'vcpus'",
        "i-2",
    ),
    ("every_priced_quantity_is_rated", f"{RATED} dimension = 'other' {VCPUS}", "i-2"),
    ("every_priced_quantity_is_rated", f"{RATED} project_id = 'p-1' {VCPUS}", "i-2"),
    ("every_priced_quantity_is_rated", f"{RATED} currency = 'USD' {VCPUS}", "i-2"),
    (
        "every_priced_quantity_is_rated",
        "insert into metering.int_rated_records select * from metering.int_rated_records where resource_id = 'i-2'",
        "i-2",
    ),
    ("bills_equal_line_items", "delete from ledger.attributions where project_id = 'p-2'", "p-2"),
    ("bills_equal_line_items", "delete from ledger.bills where project_id = 'p-2'", "p-2"),
    ("bills_equal_line_items", f"insert into ledger.bills {ANOTHER_BILL}", "p-9"),
    ("bills_equal_line_items", f"insert into ledger.attributions {TAKEN_BACK}", "p-2"),
    (
        "bills_equal_line_items",
        "delete from ledger.rated_records where project_id = 'p-2' and dimension = 'vcpus'",
        "p-2",
    ),
]

# (invariant, what may be): another life begins after a while, what is gained as a life ends with the month before is of
# that month, half a cent is rounded up, and a kickback is no part of a bill.
RIGHT = [
    ("no_gap", f"{USAGE} lifetime_no = 2, from_ts = from_ts + interval '1 hour' {THIRD}"),
    ("counters_add_up", gained("2026-03-01", closed_at="'2026-03-01'")),
    (ROUNDED, half_a_cent("0.01")),
    (
        "bills_equal_line_items",
        """insert into ledger.adjustments
               (run_id, cloud, project_id, relation_id, place, type, relation_type, source_cloud, source_project_id,
                target_cloud, target_project_id, target_name, scope, rate, description, base, amount, currency)
           select run_id, cloud, project_id, gen_random_uuid(), 0, 'kickback', 'managed_by', cloud, project_id, cloud,
               'partner', '', 'all', 0.1, '', 10, 1, currency
           from ledger.bills where project_id = 'p-2'""",
    ),
]


@pytest.fixture(scope="module")
def closed(server_url: str, closed_templates: tuple[str, str]) -> Iterator[Connection]:
    """The metering database of the closed month; what a test does to it, it takes back."""
    with copied(server_url, closed_templates) as house, connected(house.metering_url) as metering:
        yield metering


def violations(metering: Connection, name: str) -> list[tuple[str, str, str, str]]:
    """What violates an invariant of the live run: (cloud, resource_type, subject, detail)."""
    (run,) = select_runs(metering, statuses=("completed",))
    return metering.execute(invariant(name).query(run).encode()).fetchall()


def test_every_invariant_gates_a_step_and_says_what_to_do() -> None:
    """The checks that a run must have passed are those that the assets run, each with its truth and its remedy."""
    assert sorted(NAMES) == sorted(REQUIRED_CHECKS)
    assert all(invariant(name).truth and invariant(name).remedy for name in NAMES)


def test_every_invariant_holds_of_a_closed_month(closed: Connection) -> None:
    """Nothing is reported where nothing is wrong."""
    assert {name: violations(closed, name) for name in NAMES} == {name: [] for name in NAMES}


@pytest.mark.parametrize(("name", "corruption", "subject"), CORRUPTIONS)
def test_a_corruption_is_found_and_named(closed: Connection, name: str, corruption: str, subject: str) -> None:
    """Each invariant finds what was done to its rows, and names the resource or project."""
    with closed.transaction(force_rollback=True):
        assert closed.execute(corruption.encode()).rowcount > 0
        assert {found[2] for found in violations(closed, name)} == {subject}


@pytest.mark.parametrize(("name", "change"), RIGHT)
def test_what_may_be_is_not_taken_for_a_violation(closed: Connection, name: str, change: str) -> None:
    """An invariant that cries wolf stops a month that is right."""
    with closed.transaction(force_rollback=True):
        assert closed.execute(change.encode()).rowcount > 0
        assert violations(closed, name) == []


@pytest.mark.parametrize("name", ["amount_keeps_terms", "every_part_is_rated"])
def test_what_a_month_has_not_costs_nothing(closed: Connection, name: str) -> None:
    """No rated record is read for terms or changes of prices that are not there: a month may have millions."""
    (run,) = select_runs(closed, statuses=("completed",))
    query = "explain (analyze, timing off) " + invariant(name).query(run)
    plan = [line for (line,) in closed.execute(query.encode()) if " on int_rated_records" in line]
    assert plan
    assert all("never executed" in line for line in plan)
