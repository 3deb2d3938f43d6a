"""Original and corrections together always equal a fresh metering of the month (rule 20), whatever comes late.

Random histories arrive in rounds: the first is closed and finalized, each later one becomes a correction. After each
round, what counts is compared with the independent model; in the end, with a metering database that has read
everything at once. Relations between projects come late as well.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tally.domain.run import Check, Run
from tally.services import completeness, runs
from tally.services.bills import make_bills
from tally.services.completeness_policy import shipped_policy
from tally.services.pricing import load_price_versions
from tally.services.projects import create_project
from tally.services.relations import Change, relate
from tally.store.database import Connection, connected
from tally.store.metering.checks import invariant, invariant_names
from tally.store.metering.runs import mark_finalized, select_runs
from tally.store.migrate import migrate
from tests import histories
from tests.conftest import fresh_database
from tests.histories import Resource
from tests.integration.metering_sql import NOW, dbt, meter
from tests.integration.test_order_independence import ingest
from tests.model import Model, Record

Event = tuple[Resource, Record]
ROUNDS = 4
PRICED = """
    {}:
      dimensions:
        - {{metric: units, type: time_gauge, price_per_unit_hour: 0.37}}
        - {{metric: pulls, type: counter, price_per_unit: 0.015}}
      state_modifiers: {{shutoff: 0.5}}
"""
PRICES = f"""
version: "2026-03"
valid_from: "2026-03-01T00:00:00Z"
currency: EUR
pricing:
  {histories.PLATFORM}: {"".join(map(PRICED.format, histories.RESOURCE_TYPES))}
"""


@st.composite
def rounds(draw: st.DrawFn) -> list[list[Event]]:
    """Every event of many resources once, each in one of the rounds; most in the first."""
    worlds = [histories.renamed(draw(histories.worlds(6)), str(number)) for number in range(6)]
    events = [(resource, record) for world in worlds for resource, history in world.items() for record in history]
    of_round = st.integers(0, ROUNDS + 2).map(lambda number: max(0, number - 3))
    found: list[list[Event]] = [[] for _ in range(ROUNDS)]
    for event in events:
        found[draw(of_round)].append(event)
    return found


def run_month(reporting: Connection, metering: Connection) -> Run:
    """What the job does for a month, without Dagster: derive, check, write, rate, check, write, bill, check."""
    run = meter(reporting, metering)
    with runs.metering_lock(metering):
        runs.write_usage(metering, run)
        dbt(metering, "run", run, "int_rated_records")
        runs.write_rated(metering, run)
        make_bills(metering, run)
        for name in invariant_names():
            assert metering.execute(invariant(name).query(run).encode()).fetchall() == [], name
        runs.record_checks(metering, run, [Check(name, True, 0, "") for name in invariant_names()])
        completeness.record(reporting, metering, run, shipped_policy())
        if runs.complete(metering, run, lambda: NOW).status == "completed":
            mark_finalized(metering, run.id, NOW)
    return select_runs(metering, run_id=run.id)[0]


def effective_usage(metering: Connection, run: Run) -> dict[Resource, list[Any]]:
    """What counts as of a run: (from, to, project, state, counters) of each record of each resource."""
    found: dict[Resource, list[Any]] = {}
    for cloud, kind, resource_id, *record, usage in metering.execute(
        """select cloud, resource_type, resource_id, from_ts, to_ts, project_id, state, usage
           from ledger.effective_usage_records where as_of_run_id = %s order by from_ts, to_ts""",
        [run.id],
    ):
        values = {metric: value for metric, value in usage.items() if metric not in {"minutes", "count"}}
        found.setdefault((cloud, kind, resource_id), []).append((*record, values))
    return found


def expected_usage(events: Sequence[Event]) -> dict[Resource, list[Any]]:
    """The same of the model."""
    histories_of: dict[Resource, list[Record]] = {}
    for resource, record in events:
        histories_of.setdefault(resource, []).append(record)
    found = {}
    for resource, history in histories_of.items():
        usage = Model(history).usage(*MARCH)
        if usage:
            found[resource] = [
                (u.from_ts, u.to_ts, u.configuration.project_id, u.configuration.state,
                 {**u.configuration.size, **u.counters})
                for u in usage
            ]
    return found


def sums(metering: Connection) -> tuple[Any, ...]:
    """Minutes, costs and bills of all finalized runs, added up with their signs."""
    (row,) = metering.execute(
        """select
               (select coalesce(sum((usage ->> 'minutes')::numeric), 0) from ledger.usage_records),
               (select coalesce(sum(amount), 0) from ledger.rated_records),
               (select coalesce(sum(amount_exact), 0) from ledger.rated_records),
               (select coalesce(sum(total), 0) from ledger.bills)"""
    ).fetchall()
    return row


def bills(metering: Connection, run: Run) -> list[Any]:
    """The bills that count as of a run, word for word, and where each project is billed."""
    documents = metering.execute(
        "select cloud, project_id, document from ledger.effective_bills where as_of_run_id = %s order by 1, 2", [run.id]
    ).fetchall()
    attributions = metering.execute(
        """select cloud, project_id, billed_cloud, billed_project_id, relation_id from ledger.effective_attributions
           where as_of_run_id = %s order by 1, 2""",
        [run.id],
    ).fetchall()
    return [*documents, *attributions]


def records_of(metering: Connection, run: Run) -> int:
    """How many records a run has written, of whatever kind."""
    tables = ("usage_records", "rated_records", "attributions", "bills")
    counts = [
        metering.execute(f"select count(*) from ledger.{table} where run_id = %s".encode(), [run.id]).fetchone()
        for table in tables
    ]
    return sum(int(row[0]) for row in counts if row)


def prepare(metering: Connection, prices: Path) -> None:
    """Price the made-up resource types, and let all findings pass: they are not what is tested here."""
    migrate(metering, "metering")
    load_price_versions(metering, prices)
    for kind in ("open_left", "anomaly", "unpriced", "missing_gauge"):
        metering.execute(
            "insert into ledger.waivers (period, kind, reason, actor) values ('2026-03', %s, 'a test', 'test')", [kind]
        )


MARCH = (histories.INSTANTS[2], histories.INSTANTS[8])


@pytest.mark.slow
def test_corrections_add_up_to_a_fresh_metering(
    server_url: str, reporting_template: str, tmp_path: Path
) -> None:
    """After each round what counts is what the model says; a round without news writes nothing; the sums agree."""
    (tmp_path / "prices.yaml").write_text(PRICES)

    @settings(
        max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(rounds())
    def holds(arriving: list[list[Event]]) -> None:
        with (
            fresh_database(server_url, reporting_template) as reporting_url,
            fresh_database(server_url) as metering_url,
            fresh_database(server_url) as fresh_url,
            connected(reporting_url) as reporting,
            connected(metering_url) as metering,
            connected(fresh_url) as fresh,
        ):
            histories.register(reporting)
            prepare(metering, tmp_path)
            prepare(fresh, tmp_path)
            arrived: list[Event] = []
            for number, events in enumerate(arriving):
                ingest(reporting, [[(event, False) for event in events]])
                if number == 2:
                    relate_projects(reporting)
                arrived += events
                run = run_month(reporting, metering)
                assert (run.kind, run.status) == ("correction" if number else "regular", "finalized")
                assert effective_usage(metering, run) == expected_usage(arrived)
            again = run_month(reporting, metering)
            assert records_of(metering, again) == 0
            reporting.execute("insert into reporting.pending_batches select distinct batch_id from reporting.event_ids")
            whole = run_month(reporting, fresh)
            assert effective_usage(fresh, whole) == effective_usage(metering, again)
            assert bills(fresh, whole) == bills(metering, again)
            assert sums(fresh) == sums(metering)

    holds()


def relate_projects(reporting: Connection) -> None:
    """Let p1 of a cloud pay for p2 of it, from the middle of March on, which counts for the whole month."""
    for cloud in ("alpha-0", "beta-1"):
        for project in ("p1", "p2"):
            create_project(reporting, histories.PLATFORM, cloud, project, None, None, "test")
        relate(
            reporting, f"{cloud}/p1", f"{cloud}/p2", "infrastructure_tenant", histories.INSTANTS[4], None, None,
            Change("test", NOW, [], "UTC", None),
        )
