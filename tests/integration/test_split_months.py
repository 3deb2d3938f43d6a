"""S38: months in which prices change, closed, billed, corrected, explained and verified; and those that are refused."""

import csv
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import simplejson

from pricing.price_file import parse_price_version
from tally.cli.explanations import lines as explained
from tally.domain.errors import InvalidInput, Refused
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.bills import bills, documents
from tally.services.completeness import report
from tally.services.completeness_policy import shipped_policy
from tally.services.correct import CorrectionRequest
from tally.services.explain import explain
from tally.services.focus_export import Names, export_focus
from tally.services.late_effect import late
from tally.services.load import load as load_events
from tally.services.pricing import load_price_versions
from tally.services.quote_document import read_items, write_quote
from tally.services.quotes import quote
from tally.services.runs import finalized_runs
from tally.services.verify import verify
from tally.services.what_if import what_if
from tally.store.database import Connection
from tally.store.metering.checks import invariant
from tally_dagster.replay import replay
from tests.conftest import REPOSITORY
from tests.integration.closing import House, copied, instance, template_of
from tests.integration.metering_sql import NOW
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send

BERLIN = BillingPeriod.parse("2026-03", "Europe/Berlin")
FOUR = {"vcpus": 4, "ram_gb": 0, "disk_gb": 0, "flavor": "m1"}
MARCH_2026 = (REPOSITORY / "pricing" / "models" / "2026-03.yaml").read_text(encoding="utf-8")


def version(name: str, valid_from: str, vcpus: str, mid_period: str = "split", **changed: str) -> str:
    """A file whose other prices are those of March; ``changed`` has other texts instead of it."""
    text = MARCH_2026.replace('version: "2026-03"', f'version: "{name}"\nmid_period: {mid_period}')
    text = text.replace('valid_from: "2026-03-01T00:00:00Z"', f'valid_from: "{valid_from}"')
    text = text.replace("price_per_unit_hour: 0.02", f"price_per_unit_hour: {vcpus}", 1)
    for former, latter in changed.items():
        text = text.replace(former, latter, 1)
    return text


def load(metering: Connection, folder: Path, text: str) -> None:
    """Load a version beside those that ship."""
    load_price_versions(metering)
    (folder / "version.yaml").write_text(text, encoding="utf-8")
    load_price_versions(metering, folder)


def egress(event_id: str, when: str, quantity: int) -> dict[str, Any]:
    """Some GB that i-1 has sent."""
    event = instance(event_id, when, "")
    return event | {"event_type": "instance.usage", "payload": {"usage": {"egress_gb": quantity}}}


def lines(metering: Connection, run: Run, dimension: str = "vcpus") -> list[tuple[Any, ...]]:
    """What a run writes of a dimension: (from, to, quantity, price, amount, version)."""
    rows = metering.execute(
        """select coalesce(r.from_ts, u.from_ts), coalesce(r.to_ts, u.to_ts), r.quantity, r.price, r.amount,
               r.pricing_version
           from ledger.rated_records as r
           inner join ledger.usage_records as u on u.id = r.usage_record_id and u.resource_id = r.resource_id
           where r.run_id = %s and r.dimension = %s order by 1, 2, 5""",
        [run.id, dimension],
    ).fetchall()
    return [(f"{begin:%m-%d %H:%M}", f"{end:%m-%d %H:%M}", *map(str, numbers)) for begin, end, *numbers in rows]


@pytest.mark.parametrize("mid_period", ["period_start", "split"])
def test_a_month_is_rated_by_its_first_day_or_in_parts_as_the_version_says(
    reporting: Connection, metering: Connection, tmp_path: Path, mid_period: str
) -> None:
    """S38: vcpus cost 0.02, from 16 March 0.03. By the start of the month 59.52; in parts 28.80 + 46.08 = 74.88.

    It is still one usage record: what is split is its rating. April costs the new price either way. A draft that begins
    inside the month prices the rest of it. What such a resource is worth that was not metered is told likewise.
    """
    load(metering, tmp_path, version("raised", "2026-03-16", "0.03", mid_period))
    send(reporting, instance("e-1", "02-10T08:00:00", "create.end", size=FOUR))
    run = run_month(reporting, metering, finalize=False)
    if mid_period == "period_start":
        assert lines(metering, run) == [("03-01 00:00", "04-01 00:00", "4", "0.02", "59.52", "2026-03")]
        assert run.price_changes == []
    else:
        assert lines(metering, run) == [
            ("03-01 00:00", "03-16 00:00", "4", "0.02", "28.80", "2026-03"),
            ("03-16 00:00", "04-01 00:00", "4", "0.03", "46.08", "raised"),
        ]
        assert metering.execute("select count(*) from ledger.usage_records").fetchall() == [(1,)]
        assert list(run.price_versions) == ["2026-03", "raised"]
        draft = parse_price_version(version("draft", "2026-03-26", "0.02"), "draft.yaml")
        assert what_if(reporting, metering, "2026-03", draft).total.difference == 6 * 24 * 4 * Decimal("-0.01")
    april = run_month(reporting, metering, "2026-04", finalize=False)
    assert lines(metering, april) == [("04-01 00:00", "05-01 00:00", "4", "0.03", "86.40", "raised")]
    send(reporting, instance("late", "02-10T08:00:00", "create.end", "i-9", size=FOUR))
    load_events(reporting, metering, lambda: NOW)
    found = report(reporting, metering, "2026-03", shipped_policy(), NOW).lines
    at_risk = [line.at_risk for line in found if line.kind == "listed_not_metered"]
    assert at_risk == [Decimal("59.52") if mid_period == "period_start" else Decimal("74.88")]


@pytest.fixture(scope="module")
def templates(
    server_url: str,
    reporting_template: str,
    metering_template: str,
    tmp_path_factory: pytest.TempPathFactory,
    tally_home: None,  # noqa: ARG001
) -> Iterator[tuple[str, str]]:
    """Names of the databases of a finalized March in Berlin: a resize on the 10th, from the 16th on other prices."""

    def close(house: House) -> None:
        with house.connected() as (reporting, metering):
            load(metering, tmp_path_factory.mktemp("prices"), version("raised", "2026-03-16", "0.03"))
            send(
                reporting,
                instance("e-1", "02-10T08:00:00", "create.end", size=FOUR),
                instance("e-2", "03-10T12:00:00", "finish_resize.end", size=FOUR | {"vcpus": 8}),
                egress("u-1", "03-12T00:00:00", 5), egress("u-2", "03-15T22:59:59", 7),
                egress("u-3", "03-15T23:00:00", 20),
            )
            run_month(reporting, metering, zone="Europe/Berlin")

    with template_of(server_url, reporting_template, metering_template, close) as names:
        yield names


@pytest.fixture
def house(server_url: str, templates: tuple[str, str]) -> Iterator[House]:
    """A copy of that month."""
    with copied(server_url, templates) as house:
        yield house


@pytest.fixture
def metered(house: House) -> Iterator[tuple[Connection, Connection]]:
    """Its databases."""
    with house.connected() as (reporting, metering):
        yield reporting, metering


def finalized(metering: Connection) -> Run:
    """Its first run."""
    return finalized_runs(metering, "2026-03")[0]


def test_each_part_is_a_line_of_the_bill_and_a_row_of_focus(
    metered: tuple[Connection, Connection], tmp_path: Path
) -> None:
    """The day begins in the zone of the installation; what was counted costs the price of its instant.

    229 h x 4 x 0.02 = 18.32, 131 h x 8 x 0.02 = 20.96, 383 h x 8 x 0.03 = 91.92; 12 GB of egress before the change, 20
    from it on. The rows of FOCUS add up to the bill, or they would not have been written.
    """
    _, metering = metered
    run = finalized(metering)
    assert lines(metering, run) == [
        ("02-28 23:00", "03-10 12:00", "4", "0.02", "18.32", "2026-03"),
        ("03-10 12:00", "03-15 23:00", "8", "0.02", "20.96", "2026-03"),
        ("03-15 23:00", "03-31 22:00", "8", "0.03", "91.92", "raised"),
    ]
    assert lines(metering, run, "egress_gb") == [
        ("03-10 12:00", "03-15 23:00", "12", "0.09", "1.08", "2026-03"),
        ("03-15 23:00", "03-31 22:00", "20", "0.09", "1.80", "raised"),
    ]
    (bill,) = bills(metering, BERLIN)
    (document,) = documents(metering, [bill])
    (item,) = simplejson.loads(document, use_decimal=True)["line_items"]
    assert [
        (p["from"][5:16], p["to"][5:16], p["hours"], p["usage"]["vcpus"], str(p["cost"]["total"]), p["price_version"])
        for p in item["periods"]
    ] == [
        ("02-28T23:00", "03-10T12:00", 229, 4, "18.32", "2026-03"),
        ("03-10T12:00", "03-15T23:00", 131, 8, "22.04", "2026-03"),
        ("03-15T23:00", "03-31T22:00", 383, 8, "93.72", "raised"),
    ]
    assert bill.total == Decimal("134.08")
    (file,) = export_focus(metering, BERLIN, "csv", tmp_path / "focus", Names("P", "P", "P"), NOW)
    with file.open(encoding="utf-8", newline="") as text:
        rows = [row for row in csv.DictReader(text) if row["SkuMeter"] == "vcpus"]
    told = [(row["ChargePeriodStart"], row["PricingQuantity"].rstrip("0"), row["x_PricingVersion"]) for row in rows]
    assert told == [
        ("2026-02-28T23:00:00Z", "916.", "2026-03"),
        ("2026-03-10T12:00:00Z", "1048.", "2026-03"),
        ("2026-03-15T23:00:00Z", "3064.", "raised"),
    ]


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("every_part_is_rated", "to_ts = to_ts - interval '1 microsecond' where dimension = 'vcpus'"),
        ("every_part_is_rated", "from_ts = null, to_ts = null where dimension = 'vcpus'"),
        ("every_part_is_rated", "pricing_version = '2026-03' where pricing_version = 'raised'"),
        ("every_part_is_rated", "quantity = quantity + 1 where dimension = 'egress_gb'"),
        ("every_part_is_rated", "dimension = 'other' where dimension = 'egress_gb'"),
        ("every_part_is_rated", "project_id = 'p-9' where dimension = 'egress_gb'"),
        ("every_part_is_rated", "currency = 'USD' where dimension = 'egress_gb'"),
        ("amount_is_rounded_exact_amount", "amount = amount + 0.01 where pricing_version = 'raised'"),
        ("amount_is_rounded_exact_amount", "from_ts = from_ts + interval '1 hour' where from_ts is not null"),
    ],
)
def test_what_is_wrong_with_a_part_is_found(metered: tuple[Connection, Connection], check: str, fault: str) -> None:
    """Nothing is, before somebody has changed what dbt has derived."""
    _, metering = metered
    query = invariant(check).query(finalized(metering)).encode()
    assert metering.execute(query).fetchall() == []
    assert metering.execute(f"update metering.int_rated_records set {fault}".encode()).rowcount > 0
    assert {row[2] for row in metering.execute(query).fetchall()} == {"i-1"}


def test_a_part_is_explained_by_its_own_time(metered: tuple[Connection, Connection]) -> None:
    """By its hours, its version, and the increments within it; working it out again comes to the same cent."""
    _, metering = metered
    records = metering.execute(
        "select dimension, id from ledger.rated_records where from_ts = '2026-03-10 12:00Z' and amount > 0 order by 1"
    ).fetchall()
    (_, sent), (_, processors) = records
    found = explain(metering, processors)
    assert found.holds
    told = list(explained(found))
    assert "471600000000 x 8 x 0.02 x 1 x 1 = 75456000000 / 3600000000 = 20.960000000000" in told[3]
    assert "pays for   2026-03-10T12:00:00Z to 2026-03-15T23:00:00Z: prices change within the usage" in told
    assert [str(one.quantity) for one in explain(metering, sent).increments] == ["5", "7"]


def test_the_month_is_verified_by_a_replay(house: House, metered: tuple[Connection, Connection]) -> None:
    """Its versions are inputs that were hashed, and the replay cuts where the run did."""
    _, metering = metered
    assert verify(metering, "2026-03", lambda run: replay(house.metering_url, run)).differences == ()


def test_a_quote_says_what_the_bill_says(metered: tuple[Connection, Connection]) -> None:
    """Part by part; what is counted has no instant in a description, so that its item must not be cut."""
    reporting, metering = metered
    item = {"platform": "openstack", "resource_type": "instance", "size": FOUR | {"vcpus": 8}, "state": "active"}
    whole = item | {"from": "2026-03-10T12:00:00Z"}
    made = quote(reporting, metering, BERLIN, read_items({"items": [whole]}))
    written = write_quote(made)
    assert [
        (rate["dimension"], rate["from"], rate["amount"]) for rate in written["items"][0]["rates"] if rate["amount"]
    ] == [("vcpus", "2026-03-10T12:00:00Z", Decimal("20.96")), ("vcpus", "2026-03-15T23:00:00Z", Decimal("91.92"))]
    assert written["price_changes"][0]["since"] == "2026-03-15T23:00:00Z"
    named = quote(reporting, metering, BERLIN, read_items({"items": [whole]}), price_version="2026-03")
    assert named.adjusted.base == Decimal("82.24")
    counted = whole | {"usage": {"egress_gb": 12}}
    with pytest.raises(InvalidInput, match=r"items\[0\]: prices change at 2026-03-15T23:00:00Z; describe its usage"):
        quote(reporting, metering, BERLIN, read_items({"items": [counted]}))
    apart = [counted | {"to": "2026-03-15T23:00:00Z"}, whole | {"from": "2026-03-15T23:00:00Z"}]
    assert quote(reporting, metering, BERLIN, read_items({"items": apart})).adjusted.base == Decimal("113.96")


def test_a_draft_does_not_cut_records_whose_counters_have_a_price(metered: tuple[Connection, Connection]) -> None:
    """What was counted when is not kept in the ledger, and is not guessed. Nor does a draft change the currency."""
    reporting, metering = metered
    draft = parse_price_version(version("draft", "2026-03-26", "0.02"), "draft.yaml")
    told = r"draft begins at 2026-03-25T23:00:00Z, inside 1 record\(s\), such as of os-prod-eu1/instance/i-1"
    with pytest.raises(Refused, match=told):
        what_if(reporting, metering, "2026-03", draft)
    francs = parse_price_version(version("draft", "2026-03-26", "0.02").replace("EUR", "CHF"), "draft.yaml")
    with pytest.raises(Refused, match="amounts of two currencies are not compared"):
        what_if(reporting, metering, "2026-03", francs)


def test_a_late_event_corrects_the_parts_that_it_changes(metered: tuple[Connection, Connection]) -> None:
    """Deleted on the 20th: of 383 hours at 0.03 remain 97; what is foretold is what the correction writes."""
    reporting, metering = metered
    send(reporting, instance("e-3", "03-20T00:00:00", "delete.end"))
    foretold = late(reporting, metering, "2026-03")
    correction = run_month(reporting, metering, zone="Europe/Berlin")
    assert (correction.scope, list(correction.price_versions)) == ("changed", ["2026-03", "raised"])
    assert lines(metering, correction) == [
        ("03-10 12:00", "03-15 23:00", "-8", "0.02", "-20.96", "2026-03"),
        ("03-10 12:00", "03-15 23:00", "8", "0.02", "20.96", "2026-03"),
        ("03-15 23:00", "03-20 00:00", "8", "0.03", "23.28", "raised"),
        ("03-15 23:00", "03-31 22:00", "-8", "0.03", "-91.92", "raised"),
    ]
    assert foretold.amount == Decimal("-68.64")
    (bill,) = bills(metering, BERLIN)
    assert bill.total == Decimal("134.08") + foretold.amount


def test_a_version_that_is_loaded_later_is_a_correction_of_the_rest_of_the_month(
    metered: tuple[Connection, Connection], tmp_path: Path
) -> None:
    """Three versions share the month then. What was finalized keeps its prices until somebody names the new ones."""
    reporting, metering = metered
    load(metering, tmp_path, version("lowered", "2026-03-26", "0.01"))
    unasked = run_month(reporting, metering, zone="Europe/Berlin")
    assert (lines(metering, unasked), list(unasked.price_versions)) == ([], ["2026-03", "raised"])
    request = CorrectionRequest(price_version="lowered", reason="agreed in April")
    correction = run_month(reporting, metering, zone="Europe/Berlin", request=request)
    assert list(correction.price_versions) == ["2026-03", "raised", "lowered"]
    assert lines(metering, correction) == [
        ("03-15 23:00", "03-25 23:00", "8", "0.03", "57.60", "raised"),
        ("03-15 23:00", "03-31 22:00", "-8", "0.03", "-91.92", "raised"),
        ("03-25 23:00", "03-31 22:00", "8", "0.01", "11.44", "lowered"),
    ]
    back = CorrectionRequest(price_version="2026-03", reason="all of March as announced")
    whole = run_month(reporting, metering, zone="Europe/Berlin", request=back)
    assert ("03-10 12:00", "03-31 22:00", "8", "0.02", "82.24", "2026-03") in lines(metering, whole)
    (bill,) = bills(metering, BERLIN)
    assert bill.total == Decimal("18.32") + Decimal("82.24") + Decimal("2.88")


def test_a_month_that_cannot_be_rated_in_parts_is_refused(
    reporting: Connection, metering: Connection, tmp_path: Path
) -> None:
    """Another currency inside a month when the version is loaded; a day without prices when the month is run."""
    with pytest.raises(Refused, match="2026-03 is in EUR, francs in CHF: amounts of two currencies are never added"):
        load(metering, tmp_path, version("francs", "2026-03-16", "0.03").replace("EUR", "CHF"))
    until = version("until", "2026-04", "0.03").replace("currency:", "valid_to: 2026-04-10\ncurrency:")
    load(metering, tmp_path, until)
    send(reporting, instance("e-1", "02-10T08:00:00", "create.end", size=FOUR))
    with pytest.raises(Refused, match="none holds from 2026-04-10 up to, not including, 2026-05-01"):
        run_month(reporting, metering, "2026-04")
