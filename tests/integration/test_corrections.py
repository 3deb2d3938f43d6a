"""What arrives late becomes a correction of its month: reversals and new records, exact, once (rules 18 to 22).

One month is closed, finalized, and corrected five times: by late events and a late relation, by later ones of the same
resources, by nothing, by a mended registry, and by a price version that is named. March has 744 hours. An m1.small
(2 vcpus, 4 GB, 40 GB) costs 2 x 0.02 + 4 x 0.005 + 40 x 0.001 = 0.10 an hour, an m1.large 0.20, a volume of 100 GB
0.01.
"""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_schema, read_table

from tally.domain.delivery import Destination
from tally.services.deliver import deliver_to
from tally.services.focus_export import Names, export_focus
from tally.services.pricing import load_price_versions
from tally.services.registry import define_type, versions_of_type
from tally.services.relations import Change, close_relation, relate
from tally.store.database import connected
from tally.store.metering import runs as run_store
from tally.store.metering.differences import project_sums
from tests.conftest import REPOSITORY
from tests.golden.focus_rules import faults
from tests.integration.closing import LARGE, PERIOD, SMALL, House, copied, instance
from tests.integration.correcting import bills, correct, costs, finalize_month, finalized_rows, lines, records
from tests.integration.registering import TENANT, create, day
from tests.integration.sending import CLOUD
from tests.integration.test_delivery import Shelf, clock
from tests.integration.test_immutability import RECORDS, REFUSED, refusal

pytestmark = pytest.mark.slow

LATE, LATER, NOTHING, REGISTRY, PRICES = 1, 2, 3, 4, 5  # the corrections; 0 is the regular run


def volume(event_id: str, when: str, event_type: str, resource_id: str, size_gb: int, **fields: Any) -> dict[str, Any]:
    """An event of a volume."""
    event = instance(event_id, when, "", resource_id, size={"size_gb": size_gb, "type": "ssd"}, **fields)
    return event | {"event_type": f"volume.{event_type}", "resource_type": "volume"}


# What is known as the month is finalized; each resource has a project of its own.
IN_TIME = (
    instance("t-1", "02-01T00:00:00", "create.end", "deleted", size=LARGE, project_id="p-deleted"),
    volume("t-2", "02-01T00:00:00", "create.end", "resized", 100, project_id="p-resized"),
    volume("t-3", "02-01T00:00:00", "create.end", "moved", 100, project_id="p-from"),
    instance("t-4", "02-01T00:00:00", "create.end", "counted", size=SMALL, project_id="p-counted"),
    instance("t-5", "03-01T00:00:00", "create.end", "lost", size=LARGE, project_id="p-lost"),
    instance("t-6", "03-20T10:10:00", "", "lost", project_id="p-lost", source="reconciliation")
    | {"event_type": "reconcile.delete"},
    instance("t-7", "03-20T00:00:00", "create.end", "reborn", size=SMALL, project_id="p-reborn"),
    volume("t-8", "02-01T00:00:00", "create.end", "same", 100, project_id="p-same"),
    volume("t-9", "02-20T00:00:00", "resize.end", "same", 10, project_id="p-same"),
    volume("t-10", "02-01T00:00:00", "create.end", "gone", 100, project_id="p-gone"),
    volume("t-11", "02-01T00:00:00", "create.end", "own", 100, project_id="p-payer"),
    volume("t-12", "02-01T00:00:00", "create.end", "let", 100, project_id="p-tenant"),
    instance("t-13", "02-01T00:00:00", "create.end", "paused", size=SMALL, project_id="p-paused"),
    instance("t-14", "03-16T00:00:00", "pause.end", "paused", project_id="p-paused"),
)
FIRST_NEWS = (
    instance("l-1", "03-20T12:00:00", "delete.end", "deleted", project_id="p-deleted"),
    volume("l-2", "03-16T00:00:00", "resize.end", "resized", 200, project_id="p-resized"),
    volume("l-3", "03-15T12:00:00", "transfer.accept.end", "moved", 100, project_id="p-to"),
    instance("l-4", "03-10T00:00:00", "", "counted", project_id="p-counted", payload={"usage": {"egress_gb": 10}})
    | {"event_type": "instance.usage"},
    instance("l-5", "03-20T10:02:00", "delete.end", "lost", project_id="p-lost"),
    instance("l-6", "03-05T00:00:00", "create.end", "reborn", size=SMALL, project_id="p-reborn"),
    instance("l-7", "03-10T00:00:00", "delete.end", "reborn", project_id="p-reborn"),
    volume("l-8", "02-15T00:00:00", "resize.end", "same", 20, project_id="p-same"),
    volume("l-9", "02-20T00:00:00", "delete.end", "gone", 100, project_id="p-gone"),
    instance("l-10", "03-11T00:00:00", "create.end", "created", size=SMALL, project_id="p-created"),
)
SECOND_NEWS = (
    instance("m-1", "03-10T00:00:00", "delete.end", "deleted", project_id="p-deleted"),
    volume("m-2", "03-25T00:00:00", "create.end", "gone", 100, project_id="p-gone"),
    volume("m-3", "04-02T00:00:00", "resize.end", "resized", 500, project_id="p-resized"),
)


def late_change() -> Change:
    """Somebody says in June, with a reason, what held in March."""
    return Change("test", day("2026-06-01"), [("2026-03", day("2026-03-01"), day("2026-04-01"))], "UTC", "a contract")


def let_paused_be_free(reporting_url: str) -> None:
    """From now on the registry takes a paused instance for a shelved one."""
    with connected(reporting_url) as reporting:
        definition = dict(versions_of_type(reporting, "openstack", "instance")[-1].definition)
        definition["lifecycle"] = definition["lifecycle"] | {
            "compute.instance.pause.end": {"effect": "update", "state": "shelved"}
        }
        define_type(reporting, "openstack", "instance", definition, "test", accept_invalidation="paused is free")


def price_vcpus_higher(metering_url: str, folder: Path) -> None:
    """Load a version of April in which a vcpu costs 0.03 an hour instead of 0.02; the rest is as in March."""
    text = (REPOSITORY / "pricing" / "models" / "2026-03.yaml").read_text(encoding="utf-8")
    april = text.replace('"2026-03', '"2026-04').replace("price_per_unit_hour: 0.02\n", "price_per_unit_hour: 0.03\n")
    (folder / "2026-04.yaml").write_text(april, encoding="utf-8")
    with connected(metering_url) as metering:
        load_price_versions(metering, folder)


@pytest.fixture(scope="module")
def snapshots() -> list[dict[tuple[str, str], str]]:
    """The finalized rows after each run."""
    return []


@pytest.fixture(scope="module")
def corrected(
    server_url: str,
    closed_templates: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    snapshots: list[dict[tuple[str, str], str]],
) -> Iterator[House]:
    """The month after all five corrections."""
    with copied(server_url, closed_templates) as house:
        house.ingest(*IN_TIME)
        house.close()
        finalize_month(house)
        snapshots.append(finalized_rows(house))
        house.ingest(*FIRST_NEWS)
        with connected(house.reporting_url) as reporting_db:
            for project in ("p-payer", "p-tenant"):
                create(reporting_db, project, cloud=CLOUD)
            relation = relate(
                reporting_db, f"{CLOUD}/p-payer", f"{CLOUD}/p-tenant", TENANT, day("2026-03-01"), None, None,
                late_change(),
            ).relation
        assert correct(house).success
        snapshots.append(finalized_rows(house))
        house.ingest(*SECOND_NEWS)
        with connected(house.reporting_url) as reporting_db:
            close_relation(reporting_db, relation.id, day("2026-03-01"), late_change())
        assert correct(house).success
        snapshots.append(finalized_rows(house))
        assert correct(house).success
        snapshots.append(finalized_rows(house))
        let_paused_be_free(house.reporting_url)
        assert correct(house).success
        snapshots.append(finalized_rows(house))
        price_vcpus_higher(house.metering_url, tmp_path_factory.mktemp("prices"))
        assert correct(house, {"tally/price_version": "2026-04", "tally/reason": "agreed with everybody"}).success
        snapshots.append(finalized_rows(house))
        yield house


def test_s55_a_late_delete_is_credited(corrected: House) -> None:
    """S55: m1.large all of March, 148.80; the delete of the 20th at 12:00 leaves 468 h, 93.60: -55.20 in all.

    By dimension 276 h less: 4 x 0.02 x 276 = 22.08, 8 x 0.005 x 276 = 11.04, 80 x 0.001 x 276 = 22.08.
    """
    assert lines(corrected, LATE, "deleted") == [
        "- 01 00:00 01 00:00 p-deleted active -148.80",
        "+ 01 00:00 20 12:00 p-deleted active 93.60",
    ]
    assert costs(corrected, LATE, "deleted") == {
        "vcpus": Decimal("-22.08"), "ram_gb": Decimal("-11.04"), "disk_gb": Decimal("-22.08"),
    }
    assert bills(corrected, LATE, "p-deleted") == [(-1, Decimal("-148.80")), (1, Decimal("93.60"))]


def test_two_corrections_of_one_resource_add_up(corrected: House) -> None:
    """A still earlier delete, of the 10th: what the first correction has written is reversed; 216 h, 43.20."""
    assert lines(corrected, LATER, "deleted") == [
        "- 01 00:00 20 12:00 p-deleted active -93.60",
        "+ 01 00:00 10 00:00 p-deleted active 43.20",
    ]
    assert bills(corrected, LATER, "p-deleted") == [(-1, Decimal("-93.60")), (1, Decimal("43.20"))]


def test_a_late_create_is_charged_and_its_project_billed(corrected: House) -> None:
    """A resource and a project that the month did not know: from the 11th 21 days, 504 h x 0.10 = 50.40."""
    assert lines(corrected, LATE, "created") == ["+ 11 00:00 01 00:00 p-created active 50.40"]
    assert bills(corrected, LATE, "p-created") == [(1, Decimal("50.40"))]


def test_a_late_resize_splits_the_record(corrected: House) -> None:
    """744 h x 0.01 = 7.44 becomes 360 h x 0.01 = 3.60 and, twice as large from the 16th on, 384 h x 0.02 = 7.68."""
    assert lines(corrected, LATE, "resized") == [
        "- 01 00:00 01 00:00 p-resized available -7.44",
        "+ 01 00:00 16 00:00 p-resized available 3.60",
        "+ 16 00:00 01 00:00 p-resized available 7.68",
    ]
    assert bills(corrected, LATE, "p-resized") == [(-1, Decimal("-7.44")), (1, Decimal("11.28"))]


def test_s22_a_late_transfer_corrects_the_bills_of_both_projects(corrected: House) -> None:
    """S22: the new owner's from the 15th at 12:00: 348 h, 3.48, and 396 h, 3.96, instead of 744 h, 7.44."""
    assert lines(corrected, LATE, "moved") == [
        "- 01 00:00 01 00:00 p-from available -7.44",
        "+ 01 00:00 15 12:00 p-from available 3.48",
        "+ 15 12:00 01 00:00 p-to available 3.96",
    ]
    assert bills(corrected, LATE, "p-from") == [(-1, Decimal("-7.44")), (1, Decimal("3.48"))]
    assert bills(corrected, LATE, "p-to") == [(1, Decimal("3.96"))]


def test_a_late_counter_takes_all_costs_of_its_record_along(corrected: House) -> None:
    """10 GB x 0.09 = 0.90 more; the 74.40 (744 h x 0.10) of the gauges are taken back and charged again."""
    assert lines(corrected, LATE, "counted") == [
        "- 01 00:00 01 00:00 p-counted active -74.40",
        "+ 01 00:00 01 00:00 p-counted active 75.30",
    ]
    assert costs(corrected, LATE, "counted") == {
        "egress_gb": Decimal("0.90"), "vcpus": 0, "ram_gb": 0, "disk_gb": 0,
    }


def test_s16_a_real_delete_after_a_synthetic_one(corrected: House) -> None:
    """S16: ended at 10:10 by reconciliation, in truth at 10:02: 8 minutes and 0.03 less.

    466 h 10 min: 37.293 + 18.647 + 37.293, rounded 37.29 + 18.65 + 37.29 = 93.23. 466 h 2 min: 37.283 + 18.641 +
    37.283, rounded 37.28 + 18.64 + 37.28 = 93.20. Exact it is 8/60 x 0.20 = 0.0267.
    """
    assert lines(corrected, LATE, "lost") == [
        "- 01 00:00 20 10:10 p-lost active -93.23",
        "+ 01 00:00 20 10:02 p-lost active 93.20",
    ]
    assert corrected.query(
        "select sum((usage ->> 'minutes')::numeric) from ledger.usage_records as u"
        " inner join ledger.runs on runs.id = u.run_id where kind = 'correction' and resource_id = 'lost'"
    ) == [(Decimal(-8),)]


def test_an_earlier_life_leaves_the_later_one_alone(corrected: House) -> None:
    """Lives are numbered anew, nobody is billed for numbers: only the life from the 5th to the 10th, 120 h, is new."""
    assert lines(corrected, LATE, "reborn") == ["+ 05 00:00 10 00:00 p-reborn active 12.00"]
    assert bills(corrected, LATE, "p-reborn") == [(-1, Decimal("-28.80")), (1, Decimal("40.80"))]


def test_a_late_event_that_changes_nothing_in_the_month_writes_nothing(corrected: House) -> None:
    """A resize of February before another one of February; a resize of April."""
    assert lines(corrected, LATE, "same") == []
    assert bills(corrected, LATE, "p-same") == []
    assert lines(corrected, LATER, "resized") == []


def test_a_bill_vanishes_and_comes_back(corrected: House) -> None:
    """Deleted in February, it seemed: 7.44 are taken back. Created again on the 25th: 168 h x 0.01 = 1.68."""
    assert lines(corrected, LATE, "gone") == ["- 01 00:00 01 00:00 p-gone available -7.44"]
    assert bills(corrected, LATE, "p-gone") == [(-1, Decimal("-7.44"))]
    assert lines(corrected, LATER, "gone") == ["+ 25 00:00 01 00:00 p-gone available 1.68"]
    assert bills(corrected, LATER, "p-gone") == [(1, Decimal("1.68"))]


def test_a_late_relation_moves_bills_and_nothing_else(corrected: House) -> None:
    """p-payer pays for p-tenant, 7.44 each; no usage and no cost changes."""
    assert lines(corrected, LATE, "own") == lines(corrected, LATE, "let") == []
    assert costs(corrected, LATE, "let") == {}
    assert bills(corrected, LATE, "p-payer") == [(-1, Decimal("-7.44")), (1, Decimal("14.88"))]
    assert bills(corrected, LATE, "p-tenant") == [(-1, Decimal("-7.44"))]


def test_attributions_come_back_to_what_they_were(corrected: House) -> None:
    """The relation was a mistake: what the first correction did to the bills, the second one undoes."""
    assert bills(corrected, LATER, "p-payer") == [(-1, Decimal("-14.88")), (1, Decimal("7.44"))]
    assert bills(corrected, LATER, "p-tenant") == [(1, Decimal("7.44"))]
    assert corrected.query(
        "select billed_project_id, sign from ledger.attributions inner join ledger.runs on id = run_id"
        " where project_id = 'p-tenant' and status = 'finalized' order by load_id, sign"
    ) == [("p-tenant", 1), ("p-tenant", -1), ("p-payer", 1), ("p-payer", -1), ("p-tenant", 1)]


def test_a_correction_without_news_writes_nothing(corrected: House) -> None:
    """It is a finalized run, and an empty one."""
    assert records(corrected, NOTHING) == {"usage_records": 0, "rated_records": 0, "attributions": 0, "bills": 0}
    assert corrected.query("select kind, status from ledger.runs order by load_id offset 2") == [
        ("correction", "finalized")
    ] * 5


def test_a_mended_registry_corrects_what_it_judges_otherwise(corrected: House) -> None:
    """Paused from the 16th, 384 h x 0.10 = 38.40, but a paused instance is to cost nothing; no other record changes."""
    assert lines(corrected, REGISTRY, "paused") == [
        "- 16 00:00 01 00:00 p-paused paused -38.40",
        "+ 16 00:00 01 00:00 p-paused shelved 0.00",
    ]
    assert records(corrected, REGISTRY) == {"usage_records": 2, "rated_records": 6, "attributions": 0, "bills": 2}


def test_a_price_version_that_is_named_rates_everything_again(corrected: House) -> None:
    """A vcpu costs 0.03: 504 h x 2 x 0.01 = 10.08 more. Usage stays; all effective costs are replaced."""
    assert costs(corrected, PRICES, "created") == {"vcpus": Decimal("10.08"), "ram_gb": 0, "disk_gb": 0}
    assert costs(corrected, PRICES, "deleted") == {"vcpus": Decimal("8.64"), "ram_gb": 0, "disk_gb": 0}
    written = records(corrected, PRICES)
    assert (written["usage_records"], written["attributions"]) == (0, 0)
    assert corrected.query(
        "select count(*) filter (where sign = 1), count(*) filter (where sign = -1) from ledger.rated_records"
        " inner join ledger.runs on runs.id = run_id where runs.pricing_version = '2026-04'"
    ) == corrected.query(
        "select count(*), count(*) from ledger.effective_rated_records as rated"
        " inner join ledger.runs on runs.id = as_of_run_id where runs.pricing_version = '2026-04'"
    )
    assert corrected.query("select reason, scope from ledger.runs where pricing_version = '2026-04'") == [
        ("agreed with everybody", "all")
    ]


@pytest.mark.parametrize("number", [LATE, LATER, NOTHING, REGISTRY, PRICES])
def test_after_each_correction_the_bills_are_the_effective_costs(corrected: House, number: int) -> None:
    """Of each billed project: its effective bill, all bills with their signs, and the effective costs agree."""
    run_id = f"(select id from ledger.runs where status = 'finalized' order by load_id offset {number} limit 1)"
    effective = corrected.query(
        f"select project_id, sum(total) from ledger.effective_bills where as_of_run_id = {run_id} group by 1 order by 1"
    )
    assert effective == corrected.query(
        f"""select a.billed_project_id, sum(r.amount) from ledger.effective_rated_records as r
            inner join ledger.effective_attributions as a
                on a.as_of_run_id = r.as_of_run_id and a.cloud = r.cloud and a.project_id = r.project_id
            where r.as_of_run_id = {run_id} group by 1 order by 1"""
    )
    assert effective == corrected.query(
        f"""select project_id, sum(total) from ledger.bills
            where run_id in (select member_id from ledger.run_sets where run_id = {run_id})
            group by 1 having sum(sign) > 0 order by 1"""
    )


def test_marts_of_a_corrected_month_are_its_effective_records(corrected: House) -> None:
    """Sums over the runs of the month, with their signs: amounts, minutes, gauge-hours and counters.

    Gauge-hours are rounded to 12 decimals for each run, so that the last ones of a sum may differ.
    """
    last = "(select id from ledger.runs where status = 'finalized' order by load_id desc limit 1)"
    assert corrected.query(
        "select project_id, resource_type, dimension, sum(amount), sum(amount_exact) from marts.project_costs_monthly"
        " group by 1, 2, 3 having sum(amount_exact) <> 0 order by 1, 2, 3"
    ) == corrected.query(
        "select project_id, resource_type, dimension, sum(amount), sum(amount_exact)"
        f" from ledger.effective_rated_records where as_of_run_id = {last}"
        " group by 1, 2, 3 having sum(amount_exact) <> 0 order by 1, 2, 3"
    )
    assert corrected.query(
        "select project_id, resource_type, metric, round(sum(quantity), 9) from marts.project_usage_monthly"
        " group by 1, 2, 3 having sum(quantity) <> 0 order by 1, 2, 3"
    ) == corrected.query(
        f"""select project_id, resource_type, metric.key, round(
                sum(metric.value::numeric(50, 20) * case
                    when metric.key = any(counters || '{{minutes}}') then 3600000000
                    else extract(epoch from to_ts - from_ts) * 1000000 end) / 3600000000, 9)
            from ledger.effective_usage_records cross join jsonb_each(usage) as metric
            where as_of_run_id = {last} and jsonb_typeof(metric.value) = 'number' and metric.key <> 'count'
            group by 1, 2, 3 having sum(metric.value::numeric) <> 0 order by 1, 2, 3"""
    )


def test_days_of_a_corrected_month_are_its_effective_records_spread(corrected: House) -> None:
    """Whatever was taken back falls on no day; each resource has a project of its own, so that none hides another."""
    last = "(select id from ledger.runs where status = 'finalized' order by load_id desc limit 1)"
    assert corrected.query(
        "select project_id, resource_type, sum(amount) from marts.project_costs_daily"
        " group by 1, 2 having sum(abs(amount)) <> 0 order by 1, 2"
    ) == corrected.query(
        f"select project_id, resource_type, sum(amount) from ledger.effective_rated_records"
        f" where as_of_run_id = {last} group by 1, 2 having sum(amount) <> 0 order by 1, 2"
    )
    assert corrected.query(
        "select to_char(day, 'DD'), amount from marts.project_costs_daily where project_id = 'p-deleted'"
        " and amount <> 0 order by day"
    ) == corrected.query(
        f"""select to_char(day, 'DD'), round(sum(rated.amount) / 9, 2)
            from ledger.effective_rated_records as rated
            cross join generate_series(timestamp '2026-03-01', '2026-03-09', '1 day') as day
            where as_of_run_id = {last} and project_id = 'p-deleted' group by day order by day"""
    )


def test_the_history_of_corrections_is_what_each_of_them_says(corrected: House) -> None:
    """The same as tally correct prints, correction by correction; one without news has no rows."""
    with connected(corrected.metering_url) as metering:
        runs = run_store.select_runs(metering, kind="correction", statuses=("finalized",))
        said = {
            (run.id, row.cloud, row.project_id, row.currency or "EUR"): tuple(row[3:])
            for run in runs
            for row in project_sums(metering, run.id)
        }
    rows = corrected.query(
        "select run_id, cloud, project_id, currency, reversed_records, new_records, minutes, amount"
        " from marts.project_corrections"
    )
    assert {row[:4]: row[4:] for row in rows} == said
    assert len({row[0] for row in rows}) == 4


def test_the_documents_of_all_runs_add_up_to_the_bills_that_count(corrected: House) -> None:
    """Each credit note takes back, by its number, a document that was delivered before it, and exactly its amount."""
    shelf = Shelf()
    with connected(corrected.metering_url) as metering:
        assert deliver_to(metering, Destination("erp", "2026-03", shelf), clock).failed == 0
    totals: dict[str, Decimal] = {}
    for document in shelf.documents:
        if document["document_type"] == "credit_note":
            assert totals.pop(document["refers_to"]["number"]) == -document["total"]
        else:
            totals[document["number"]] = document["total"]
    last = "(select id from ledger.runs where status = 'finalized' order by load_id desc limit 1)"
    effective = corrected.query(f"select total from ledger.effective_bills where as_of_run_id = {last} order by total")
    assert [(total,) for total in sorted(totals.values())] == effective
    assert {"invoice", "credit_note", "corrected_invoice"} == {each["document_type"] for each in shelf.documents}


def test_no_correction_changes_a_finalized_row(
    corrected: House, snapshots: list[dict[tuple[str, str], str]]  # noqa: ARG001
) -> None:
    """Rule 19: whatever comes later, the rows of each finalized run stay the very rows that they were."""
    assert len(snapshots) == 6
    for former, latter in pairwise(snapshots):
        assert former.items() < latter.items()


@pytest.mark.parametrize("table", sorted({*RECORDS} - {"adjustments"}))  # Nothing adjusts these bills.
def test_the_records_of_a_correction_are_as_immutable_as_others(corrected: House, table: str) -> None:
    """Rule 19: neither changed nor removed."""
    of_correction = "(select id from ledger.runs where kind = 'correction' order by load_id limit 1)"
    with connected(corrected.metering_url) as metering:
        for statement in (
            f"update ledger.{table} set run_id = run_id where run_id = {of_correction}",
            f"delete from ledger.{table} where run_id = {of_correction}",
        ):
            assert refusal(metering, statement) in REFUSED, statement


def test_focus_datasets_of_all_runs_come_to_the_bills_that_count(corrected: House, tmp_path: Path) -> None:
    """S56, for each kind of news: other usage, owners, bills and prices; every dataset keeps the rules of FOCUS."""
    names = Names("Example Cloud", "Example Cloud", "Example Cloud")
    with connected(corrected.metering_url) as metering:
        written = export_focus(metering, PERIOD, "parquet", tmp_path / "focus", names, day("2026-06-01"))
    billed: defaultdict[str, Decimal] = defaultdict(Decimal)
    for path in written:
        rows = read_table(path).to_pylist()
        assert faults(read_schema(path).names, rows) == []
        for row in rows:
            billed[row["BillingAccountId"]] += row["BilledCost"]
    counting = corrected.query("select as_of_run_id, cloud || '/' || project_id, total from ledger.effective_bills")
    ((last,),) = corrected.query("select id from ledger.runs where status = 'finalized' order by load_id desc limit 1")
    assert len(written) == 1 + PRICES
    assert {account: total for account, total in billed.items() if total} == {
        account: total for run, account, total in counting if run == last and total
    }
