"""Original and corrections together always equal a fresh metering of the month (rule 20), whatever comes late.

Random histories arrive in rounds: the first is closed and finalized, each later one becomes a correction. After each
correction, what counts is compared with the independent model; in the end, with a metering database that has read
everything at once. Not only events are news: the first run had a rule wrong, samples of counters come late, relations
come late and change, and a new version of the registry gives stored events another meaning.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tally.domain.graph import Relation
from tally.domain.run import Run
from tally.services.correct import CorrectionRequest
from tally.services.counters import Counters
from tally.services.pricing import load_price_versions
from tally.services.projects import create_project
from tally.services.relations import Change, close_relation, patch_relation, relate
from tally.store.database import Connection, connected
from tally.store.metering.handover import forget, put_back_batches
from tally.store.migrate import migrate
from tests import histories
from tests.conftest import fresh_database, fresh_databases
from tests.histories import Resource
from tests.integration.metering_sql import NOW
from tests.integration.month_by_hand import run_month
from tests.integration.test_corrections_of_months import let_everything_be_active
from tests.integration.test_counter_placement import MOMENTS, SOURCE, InMemory, Sampled, Series, expected
from tests.integration.test_order_independence import ingest
from tests.model import Model, Record

Event = tuple[Resource, Record]
TABLES = {"usage_records", "rated_records", "attributions", "adjustments", "bills"}
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


def series() -> st.SearchStrategy[Series]:
    """What one counter showed, with resets."""
    return st.dictionaries(st.sampled_from(MOMENTS), st.integers(0, 20).map(Decimal), min_size=4, max_size=12)


@st.composite
def rounds(draw: st.DrawFn) -> list[list[Event]]:
    """Every event of many resources once, each in one of the rounds; most in the first, and some in each."""
    worlds = [histories.renamed(draw(histories.worlds(6)), str(number)) for number in range(6)]
    events = [(resource, record) for world in worlds for resource, history in world.items() for record in history]
    of_round = st.integers(0, ROUNDS + 2).map(lambda number: max(0, number - 3))
    found: list[list[Event]] = [[] for _ in range(ROUNDS)]
    for event in events:
        found[draw(of_round)].append(event)
    assume(all(found))  # or else the first example is the simplest one, in which nothing is late
    return found


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


def expected_usage(events: Sequence[Event], sampled: Sampled) -> dict[Resource, list[Any]]:
    """The same of the model."""
    histories_of: dict[Resource, list[Record]] = {}
    for resource, record in events:
        histories_of.setdefault(resource, []).append(record)
    found = {}
    for resource, history in histories_of.items():
        usage = list(expected(Model(history), sampled.get(resource, ())))
        if usage:
            found[resource] = [
                (u.from_ts, u.to_ts, u.configuration.project_id, u.configuration.state,
                 {**u.configuration.size, **counted})
                for u, counted in usage
            ]
    return found


def sums(metering: Connection) -> tuple[Any, ...]:
    """Minutes, costs, adjustments and bills of all finalized runs, added up with their signs."""
    (row,) = metering.execute(
        """select
               (select coalesce(sum((usage ->> 'minutes')::numeric), 0) from ledger.usage_records),
               (select coalesce(sum(amount), 0) from ledger.rated_records),
               (select coalesce(sum(amount_exact), 0) from ledger.rated_records),
               (select coalesce(sum(amount), 0) from ledger.adjustments),
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


def written(metering: Connection, runs: Sequence[Run], sign: int) -> set[str]:
    """The tables into which runs have written records of a sign."""
    query = "select exists (select from ledger.{} where run_id = any(%s) and sign = %s)"
    values = [[run.id for run in runs], sign]
    return {table for table in TABLES if metering.execute(query.format(table).encode(), values).fetchone() == (True,)}


def prepare(metering: Connection, prices: Path) -> None:
    """Price the made-up resource types, and let all findings pass: they are not what is tested here."""
    migrate(metering, "metering")
    load_price_versions(metering, prices)
    for kind in ("open_left", "anomaly", "unpriced", "missing_gauge", "counter_unplaced"):
        metering.execute(
            "insert into ledger.waivers (period, kind, reason, actor) values ('2026-03', %s, 'a test', 'test')", [kind]
        )


def sampled_things(events: Sequence[Event], several: Sequence[Series]) -> Sampled:
    """Each thing with some of the series: none, one or two."""
    things = sorted({resource for resource, _ in events if resource[1] == "thing"})
    return {thing: [one for n, one in enumerate(several) if n % 3 == at % 4] for at, thing in enumerate(things)}


def without(sampled: Sampled, moments: set[int]) -> Sampled:
    """What a server shows before the samples of some moments have come."""
    return {
        thing: [{at: value for at, value in one.items() if at not in moments} for one in several]
        for thing, several in sampled.items()
    }


def counters(sampled: Sampled) -> Counters:
    return Counters(InMemory(sampled), (SOURCE,), timedelta(days=40))


def agreed(rate: str) -> dict[str, Any]:
    """A discount and a kickback."""
    kinds = ("discount", "kickback")
    return {"pricing_adjustments": [{"type": kind, "rate": Decimal(rate), "scope": "all"} for kind in kinds]}


def said() -> Change:
    return Change("test", NOW, [], "UTC", None)


def relate_projects(reporting: Connection) -> Mapping[str, Relation]:
    """Let p1 of two clouds pay for p2, and a partner manage p1: from the middle of March on, for the whole month."""

    def related() -> Iterator[Relation]:
        since = histories.INSTANTS[4]
        for cloud in ("alpha-0", "beta-1"):
            for project in ("p1", "p2", "partner"):
                create_project(reporting, histories.PLATFORM, cloud, project, None, None, "test")
            tenant = (f"{cloud}/p1", f"{cloud}/p2", "infrastructure_tenant")
            yield relate(reporting, *tenant, since, None, None, said()).relation
            managed = (f"{cloud}/p1", f"{cloud}/partner", "managed_by")
            yield relate(reporting, *managed, since, None, agreed("0.1"), said()).relation

    names = ("tenant of alpha", "partner of alpha", "tenant of beta", "partner of beta")
    return dict(zip(names, related(), strict=True))


def change_relations(reporting: Connection, relations: Mapping[str, Relation]) -> None:
    """One was a mistake from the beginning, another is agreed on anew."""
    close_relation(reporting, relations["tenant of alpha"].id, histories.INSTANTS[4], said())
    patch_relation(reporting, relations["partner of beta"].id, {"metadata": agreed("0.2")}, said())


MARCH = (histories.INSTANTS[2], histories.INSTANTS[8])
MENDED_RULE = CorrectionRequest(everything=True, reason="what is switched off was billed in full")
LATE_SAMPLES = CorrectionRequest(counters=True, reason="the exporter was behind")
ALL_AGAIN = CorrectionRequest(everything=True, counters=True, reason="to be sure")


@pytest.mark.slow
def test_corrections_add_up_to_a_fresh_metering(
    server_url: str, reporting_template: str, tmp_path: Path
) -> None:
    """After each correction what counts is what the model says; one without news writes nothing; the sums agree."""
    (tmp_path / "prices.yaml").write_text(PRICES)

    @settings(
        max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(rounds(), st.lists(series(), min_size=5, max_size=5), st.sets(st.sampled_from(MOMENTS), min_size=8))
    def holds(arriving: list[list[Event]], several: list[Series], late: set[int]) -> None:
        with (
            fresh_databases(server_url, reporting_template, "template0") as (reporting, metering),
            fresh_database(server_url) as fresh_url,
            connected(fresh_url) as fresh,
        ):
            histories.register(reporting)
            prepare(metering, tmp_path)
            prepare(fresh, tmp_path)
            complete = sampled_things([event for events in arriving for event in events], several)
            early = without(complete, late)
            arrived: list[Event] = []

            def arrive(number: int) -> None:
                ingest(reporting, [[(event, False) for event in arriving[number]]])
                arrived.extend(arriving[number])

            def holds_of(run: Run, sampled: Sampled) -> None:
                assert (run.kind, run.status) == ("correction", "finalized")
                assert effective_usage(metering, run) == expected_usage(arrived, sampled)

            arrive(0)
            wrong = run_month(reporting, metering, counters=counters(early), derived=let_everything_be_active)
            assert (wrong.kind, wrong.status) == ("regular", "finalized")
            arrive(1)
            first = run_month(reporting, metering, counters=counters(complete), request=MENDED_RULE)
            holds_of(first, early)
            arrive(2)
            relations = relate_projects(reporting)
            second = run_month(reporting, metering, counters=counters(complete), request=LATE_SAMPLES)
            holds_of(second, complete)
            arrive(3)
            change_relations(reporting, relations)
            histories.mend(reporting)
            arrived[:] = [(resource, histories.mended(record)) for resource, record in arrived]
            third = run_month(reporting, metering)
            holds_of(third, complete)
            assert written(metering, [first, second, third], -1) == TABLES
            for request in (CorrectionRequest(), ALL_AGAIN):
                again = run_month(reporting, metering, counters=counters(complete), request=request)
                assert not written(metering, [again], 1)
            forget(reporting)
            put_back_batches(reporting)
            whole = run_month(reporting, fresh, counters=counters(complete))
            assert effective_usage(fresh, whole) == effective_usage(metering, again)
            assert bills(fresh, whole) == bills(metering, again)
            assert sums(fresh) == sums(metering)

    holds()
