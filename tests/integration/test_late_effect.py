"""What is late, and what it would change, told before the correction is run (rules 18 and 20)."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tally.domain.errors import NotFound
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.late_effect import Late, ProjectEffect, late
from tally.services.load import load
from tally.store.database import Connection, connected
from tally.store.metering.runs import mark_finalized
from tests import histories
from tests.conftest import fresh_databases
from tests.integration.api_server import exact
from tests.integration.callers import api_for
from tests.integration.closing import LARGE, PERIOD, House, copied, instance
from tests.integration.correcting import finalize_month
from tests.integration.metering_sql import NOW
from tests.integration.month_by_hand import run_month
from tests.integration.test_api_metering import CALLERS
from tests.integration.test_corrections_add_up import Event, prepare, rounds
from tests.integration.test_order_independence import ingest

APRIL = BillingPeriod.parse("2026-04")
DELETE = instance("l-2", "03-20T12:00:00", "delete.end", "late", project_id="p-9")
KEY = ("os-prod-eu1", "openstack", "instance", "late")


@pytest.fixture(scope="module")
def finalized(
    server_url: str,
    reporting_template: str,
    metering_template: str,
    tally_home: None,  # noqa: ARG001
) -> Iterator[House]:
    """March, finalized, with an m1.large that nobody has deleted; then the delete of the 20th arrives."""
    with copied(server_url, (reporting_template, metering_template)) as house:
        house.ingest(instance("l-1", "02-01T00:00:00", "create.end", "late", size=LARGE, project_id="p-9"))
        house.ingest(instance("k-1", "03-01T00:00:00", "create.end", "kept", size=LARGE, project_id="p-8"))
        house.close()
        finalize_month(house)
        house.ingest(DELETE)
        house.ingest(instance("k-2", "04-20T12:00:00", "delete.end", "kept", project_id="p-8"))
        yield house


def found(house: House, period: BillingPeriod = PERIOD, **options: Any) -> Late:
    """What is late for a month."""
    with house.connected() as (reporting, metering):
        return late(reporting, metering, str(period), **options)


def test_s55_the_effect_of_a_late_delete_is_known_before_it_is_corrected(finalized: House) -> None:
    """S55: 16,560 minutes and 55.20 less, whether the event waits for a load or is loaded; nothing is written."""
    before = finalized.query("select count(*) from ledger.runs")
    waiting = found(finalized)
    with finalized.connected() as (reporting, metering):
        load(reporting, metering, lambda: NOW)
    for told in (waiting, found(finalized)):
        (resource,) = told.resources
        assert (resource.cloud, resource.platform, resource.resource_type, resource.resource_id) == KEY
        assert [event.event_id for event in resource.events] == ["l-2"], "what came after the month is not late for it"
        assert resource.effects == (ProjectEffect("p-9", Decimal(-16560), Decimal("-55.20")),)
        assert (told.minutes, told.amount, told.currency) == (Decimal(-16560), Decimal("-55.20"), "EUR")
        assert (told.complete, told.relations, told.reasons) == (True, (), ())
    assert finalized.query("select count(*) from ledger.runs") == before


def test_above_a_number_of_resources_only_the_correction_tells(finalized: House) -> None:
    """They are not looked at one by one."""
    told = found(finalized, most=0)
    assert (told.complete, told.resources, told.amount) == (False, (), Decimal(0))


def test_what_is_late_is_told_to_those_who_see_everything(finalized: House) -> None:
    """With its events; 404 for what is not finalized, so that nothing can be late for it."""
    with api_for(finalized.reporting_url, finalized.metering_url, CALLERS) as clients:
        told = exact(clients["finance"].get("/api/v1/periods/2026-03/late"))
        assert clients["p-1"].get("/api/v1/periods/2026-03/late").status_code == 403
        assert clients["finance"].get("/api/v1/periods/2026-04/late").status_code == 404
        assert clients["finance"].get("/api/v1/periods/march/late").status_code == 400
    (item,) = told["items"]
    assert (told["resources"], told["complete"], told["amount"]) == (1, True, Decimal("-55.20"))
    assert item["effects"] == [{"project_id": "p-9", "minutes": -16560, "amount": Decimal("-55.20")}]
    assert item["late_events"] == [
        {
            "event_id": "l-2",
            "timestamp": "2026-03-20T12:00:00Z",
            "event_type": "compute.instance.delete.end",
            "project_id": "p-9",
        }
    ]


def test_s54_one_late_delete_is_late_for_each_month_it_shortens(finalized: House) -> None:
    """S54, a month later: March from the 20th, and all of April."""
    april = House(finalized.reporting_url, finalized.metering_url, APRIL)
    with pytest.raises(NotFound, match="2026-04 is not finalized"):
        found(april, APRIL)
    april.close("2026-05-05T00:00:00Z")  # it knows the delete
    with connected(april.metering_url) as metering:
        (run_id,) = april.query("select id from ledger.runs where period = '2026-04'")[0]
        mark_finalized(metering, run_id, NOW)
    assert found(april, APRIL).resources == ()
    april.ingest(instance("k-3", "03-20T12:00:00", "delete.end", "kept", project_id="p-8"))
    effects = [
        [(one.project_id, one.minutes, one.amount) for resource in told.resources for one in resource.effects]
        for told in (found(finalized), found(april, APRIL))
    ]
    assert effects == [
        [("p-8", Decimal(-16560), Decimal("-55.20")), ("p-9", Decimal(-16560), Decimal("-55.20"))],
        [("p-8", Decimal(-28080), Decimal("-93.60"))],  # until the delete of the 20th of April, which it knew
    ]


def predicted(told: Late) -> dict[tuple[str, ...], tuple[Decimal, Decimal]]:
    """(minutes, amount) by resource and project."""
    return {
        (resource.cloud, resource.resource_type, resource.resource_id, effect.project_id): (
            effect.minutes,
            effect.amount,
        )
        for resource in told.resources
        for effect in resource.effects
    }


def written(metering: Connection, run: Run) -> dict[tuple[str, ...], tuple[Decimal, Decimal]]:
    """The same of what a correction has written; what adds up to nothing left out."""
    rows = metering.execute(
        """select cloud, resource_type, resource_id, project_id, sum(minutes), sum(amount)
           from (
               select cloud, resource_type, resource_id, project_id, (usage ->> 'minutes')::numeric as minutes,
                   0 as amount
               from ledger.usage_records where run_id = %(run_id)s
               union all
               select cloud, resource_type, resource_id, project_id, 0, amount
               from ledger.rated_records where run_id = %(run_id)s
           ) as records
           group by 1, 2, 3, 4 having sum(minutes) <> 0 or sum(amount) <> 0""",
        {"run_id": run.id},
    ).fetchall()
    return {tuple(key): (minutes, amount) for *key, minutes, amount in rows}


@pytest.mark.slow
def test_what_is_told_is_what_the_correction_writes(server_url: str, reporting_template: str, tmp_path: Path) -> None:
    """For random histories that arrive in rounds, void events and counters included."""
    from tests.integration.test_corrections_add_up import PRICES

    (tmp_path / "prices.yaml").write_text(PRICES)

    @settings(
        max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(rounds())
    def holds(arriving: list[list[Event]]) -> None:
        with fresh_databases(server_url, reporting_template, "template0") as (reporting, metering):
            histories.register(reporting)
            prepare(metering, tmp_path)
            metering.execute(
                "insert into ledger.waivers (period, kind, reason, actor)"
                " values ('2026-03', 'unknown_project', 'a test', 'test') on conflict do nothing"
            )
            for number, events in enumerate(arriving):
                ingest(reporting, [[(event, False) for event in events]])
                told = late(reporting, metering, "2026-03") if number else None
                run = run_month(reporting, metering)
                if told is not None:
                    assert predicted(told) == written(metering, run)
                assert late(reporting, metering, "2026-03").resources == ()

    holds()
