"""The marts of a closed month: described to the last column, and with the same sums whichever of them is asked."""

from typing import Any

import pytest
import yaml

from resources.dbt_runner import DbtError, invoke
from resources.manifest import manifest_for
from tests.conftest import REPOSITORY
from tests.integration.closing import House


def described() -> dict[str, list[tuple[str, str]]]:
    """The columns of each mart with what is said of them, as dbt's files have it."""
    files = (REPOSITORY / "dbt_project/models/marts").glob("*.yml")
    models: list[dict[str, Any]] = [
        model for file in files for model in yaml.safe_load(file.read_text(encoding="utf-8")).get("models", ())
    ]
    return {
        model["name"]: [(column["name"], column["description"].strip()) for column in model["columns"]]
        for model in models
    }


def test_every_column_of_every_mart_is_described_in_the_database(house: House) -> None:
    """In their order; whoever looks at a mart with a client sees what it means."""
    rows = house.query(
        """select c.relname, a.attname, col_description(c.oid, a.attnum), obj_description(c.oid)
           from pg_class as c
           inner join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
           where c.relnamespace = 'marts'::regnamespace and c.relkind in ('r', 'v')
           order by c.relname, a.attnum"""
    )
    told: dict[str, list[tuple[str, str]]] = {}
    for name, column, text, about in rows:
        told.setdefault(name, []).append((column, text))
        assert about, name
    assert told == described()


def test_days_add_up_to_the_month(house: House) -> None:
    """By the tests that read all months, which a close leaves out; and they are found by their tag."""
    manifest = manifest_for(house.metering_url)
    outcome = invoke(["test", "--select", "tag:whole_months", "--no-write-json"], house.metering_url, manifest)
    assert [result.status for result in outcome.results] == ["pass", "pass"]
    ((days, amount),) = house.query("select count(distinct day), sum(amount) from marts.project_costs_daily")
    assert days == 31
    assert [(amount,)] == house.query("select sum(amount) from marts.project_costs_monthly")
    house.query("update marts.project_costs_monthly set amount = amount + 0.01 returning amount")
    with pytest.raises(DbtError, match="same_sums"):
        invoke(["test", "--select", "tag:whole_months", "--no-write-json"], house.metering_url, manifest)


def test_a_mart_that_lacks_a_value_fails_its_step(house: House) -> None:
    """All columns that are never null are looked at in one query of each mart, which names the mart."""
    manifest = manifest_for(house.metering_url)
    test_marts = ["test", "--select", "project_costs_monthly,test_name:never_null", "--no-write-json"]
    assert [result.status for result in invoke(test_marts, house.metering_url, manifest).results] == ["pass"]
    house.query("update marts.project_costs_monthly set currency = null returning amount")
    with pytest.raises(DbtError, match="never_null_project_costs_monthly"):
        invoke(test_marts, house.metering_url, manifest)
