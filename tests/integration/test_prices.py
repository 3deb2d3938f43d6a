"""Price versions in the metering database: loaded once, never changed, chosen by month (rule 24)."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from pricing.price_file import parse_price_version
from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.period import BillingPeriod
from tally.services.installation import Databases, prepare
from tally.services.price_files import load_files
from tally.services.pricing import load_price_versions, prices_for, rows_of, version_named
from tally.services.registry import define_type
from tally.services.verify import strange_rows
from tally.store.database import Connection, connected
from tally.store.metering.prices import insert_version

PRICES = """\
version: "{version}"
valid_from: "{valid_from}"
{valid_to}currency: EUR
pricing:
  cluster:
    task:
      dimensions:
        - {{metric: cpus, type: time_gauge, price_per_unit_hour: {price}}}
        - {{metric: bytes_read, type: counter, price_per_unit: 0.0000001}}
      state_modifiers: {{"off": 0.25}}
unpriced:
  cluster:
    disk: ["*"]
"""


def write(folder: Path, version: str, valid_from: str, *, valid_to: str = "", price: str = "0.10") -> Path:
    line = f"valid_to: {valid_to}\n" if valid_to else ""
    text = PRICES.format(version=version, valid_from=valid_from, valid_to=line, price=price)
    (folder / f"{version}.yaml").write_text(text, encoding="utf-8")
    return folder


def holding(connection: Connection, period: BillingPeriod) -> list[str]:
    """The versions that price a period, in the order of time."""
    return [part.version.version for part in prices_for(connection, period)]


def names(connection: Connection) -> list[str]:
    return [row[0] for row in connection.execute("select version from ledger.pricing_versions order by valid_from")]


def test_the_shipped_version_is_loaded_and_loading_it_again_is_nothing(metering: Connection) -> None:
    load_price_versions(metering)
    assert load_price_versions(metering) == []
    assert names(metering) == ["2026-03"]
    rows = metering.execute("select count(*) from ledger.prices where version = '2026-03'").fetchone()
    assert rows == (18,)


def test_the_march_2026_price_list_holds_for_march_in_every_zone(metering: Connection) -> None:
    """Rule 24: months are compared, not instants. A March in Auckland begins before the March of UTC."""
    load_price_versions(metering)
    for zone in ("UTC", "Pacific/Auckland", "America/Los_Angeles"):
        assert holding(metering, BillingPeriod(2026, 3, zone)) == ["2026-03"]
        with pytest.raises(Refused, match="no price version is valid for 2026-02"):
            prices_for(metering, BillingPeriod(2026, 2, zone))


def test_a_version_reads_back_as_it_was_written_with_exact_decimals(metering: Connection, tmp_path: Path) -> None:
    assert load_price_versions(metering, write(tmp_path, "old", "2022-10", valid_to="2022-11")) == ["old"]
    version = version_named(metering, "old")
    assert [(p.metric, p.price) for p in version.prices] == [
        ("cpus", Decimal("0.10")),
        ("bytes_read", Decimal("0.0000001")),
    ]
    assert version.modifier("cluster", "task", "state", "off") == Decimal("0.25")
    assert version.is_unpriced("cluster", "disk", "size_gb")
    assert metering.execute("select content_hash from ledger.pricing_versions where version = 'old'").fetchone() == (
        version.content_hash,
    )


def test_the_rows_that_rating_joins_are_those_of_the_file(metering: Connection, tmp_path: Path) -> None:
    load_price_versions(metering, write(tmp_path, "old", "2022-10", valid_to="2022-11"))
    prices = metering.execute(
        "select platform, resource_type, metric, formula, price from ledger.prices"
        " where version = 'old' order by metric"
    ).fetchall()
    assert prices == [
        ("cluster", "task", "bytes_read", "counter", Decimal("0.0000001")),
        ("cluster", "task", "cpus", "time_gauge", Decimal("0.10")),
    ]
    modifiers = metering.execute(
        "select platform, resource_type, kind, value, modifier from ledger.price_modifiers where version = 'old'"
    ).fetchall()
    assert modifiers == [("cluster", "task", "state", "off", Decimal("0.25"))]
    unpriced = metering.execute(
        "select platform, resource_type, metric from ledger.unpriced where version = 'old'"
    ).fetchall()
    assert unpriced == [("cluster", "disk", "*")]


def test_a_file_that_is_only_formatted_differently_is_the_same_version(metering: Connection, tmp_path: Path) -> None:
    write(tmp_path, "old", "2022-10", valid_to="2022-11")
    load_price_versions(metering, tmp_path)
    write(tmp_path, "old", "2022-10-01T00:00:00Z", valid_to="2022-11-01", price="'0.100'")
    assert load_price_versions(metering, tmp_path) == []


def test_a_changed_file_under_a_loaded_version_is_refused(metering: Connection, tmp_path: Path) -> None:
    """S41: prices that were used do not change; a new version is written instead."""
    write(tmp_path, "old", "2022-10", valid_to="2022-11")
    load_price_versions(metering, tmp_path)
    write(tmp_path, "old", "2022-10", valid_to="2022-11", price="0.11")
    with pytest.raises(Refused, match=r"version old is loaded with other content.*write a new version instead"):
        load_price_versions(metering, tmp_path)
    assert version_named(metering, "old").prices[0].price == Decimal("0.10")


def test_the_database_refuses_to_change_a_loaded_version(metering: Connection, tmp_path: Path) -> None:
    """S41: not even by SQL, and not even by the owner."""
    load_price_versions(metering, write(tmp_path, "old", "2022-10", valid_to="2022-11"))
    for statement in (
        "update ledger.prices set price = 0",
        "delete from ledger.price_modifiers",
        "truncate ledger.unpriced",
        "update ledger.pricing_versions set currency = 'CHF'",
    ):
        with pytest.raises(psycopg.DatabaseError) as caught:
            metering.execute(statement.encode())
        assert caught.value.sqlstate == "TA001"


def test_versions_that_collide_are_refused_when_they_are_loaded_and_none_is(
    metering: Connection, tmp_path: Path
) -> None:
    """S40: neither of two versions of one month is silently dropped."""
    write(tmp_path, "a", "2022-10", valid_to="2022-12")
    load_price_versions(metering, tmp_path)
    before = names(metering)
    write(tmp_path, "b", "2022-11")
    write(tmp_path, "c", "2022-09")
    with pytest.raises(Refused, match=r"a \(from 2022-10 up to, not including, 2022-12\) reaches into b"):
        load_price_versions(metering, tmp_path)
    (tmp_path / "b.yaml").unlink()
    write(tmp_path, "c", "2022-10")
    with pytest.raises(Refused, match="a and c both begin with 2022-10"):
        load_price_versions(metering, tmp_path)
    assert names(metering) == before


def test_a_period_without_a_version_is_refused_and_what_is_loaded_is_listed(
    metering: Connection, tmp_path: Path
) -> None:
    """S39: an April list does not rate May, nor does any other month's."""
    load_price_versions(metering, write(tmp_path, "april", "2022-04", valid_to="2022-05"))
    assert holding(metering, BillingPeriod(2022, 4)) == ["april"]
    with pytest.raises(Refused, match=r"no price version is valid for 2022-05.*april \(from 2022-04 up to"):
        prices_for(metering, BillingPeriod(2022, 5))


def test_a_name_that_is_not_loaded_is_not_found(metering: Connection) -> None:
    load_price_versions(metering)
    with pytest.raises(NotFound, match="price version 'x' is not loaded; loaded: 2026-03"):
        version_named(metering, "x")


def test_the_faults_of_all_files_are_reported_together_and_nothing_is_loaded(
    metering: Connection, tmp_path: Path
) -> None:
    before = names(metering)
    write(tmp_path, "a", "2022-10-02")
    write(tmp_path, "b", "2022-11", price="-1")
    write(tmp_path, "good", "2022-12", valid_to="2023-01")
    (tmp_path / "latin.yaml").write_bytes(b"version: \xff")
    with pytest.raises(InvalidInput, match=r"a\.yaml: line 2: .*b\.yaml: line 8: .*latin\.yaml: not UTF-8 at byte 9"):
        load_price_versions(metering, tmp_path)
    assert names(metering) == before


def test_of_two_that_load_at_once_one_adds_and_the_other_finds_it_loaded(metering_url: str, tmp_path: Path) -> None:
    write(tmp_path, "old", "2022-10", valid_to="2022-11")

    def load(_: int) -> list[str]:
        with connected(metering_url) as connection:
            return load_price_versions(connection, tmp_path)

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(load, range(4))) == [[], [], [], ["old"]]


def test_a_version_is_one_file(metering: Connection, tmp_path: Path) -> None:
    write(tmp_path, "a", "2022-10")
    (tmp_path / "copy.yaml").write_text((tmp_path / "a.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(InvalidInput, match="two files hold version a"):
        load_price_versions(metering, tmp_path)


def test_a_folder_that_does_not_exist_is_named(metering: Connection, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a folder of price versions"):
        load_price_versions(metering, tmp_path / "nowhere")


def test_an_installation_brings_prices_of_its_own(
    reporting: Connection, reporting_url: str, metering_url: str, tmp_path: Path
) -> None:
    """From a folder that it names, beside those that ship; again is nothing, and a folder that is not there is said."""
    databases = Databases(reporting_url, metering_url, "")
    write(tmp_path, "2026-06", "2026-06")
    with pytest.raises(InvalidInput, match=r"line 6: cluster\.task is not in the registry"):
        prepare(databases, tmp_path)
    define_cluster(reporting)
    assert prepare(databases, tmp_path).price_versions == ["2026-06"]
    assert prepare(databases, tmp_path).price_versions == []
    with pytest.raises(InvalidInput, match="nowhere is not a folder of price versions"):
        prepare(databases, tmp_path / "nowhere")


def define_cluster(reporting: Connection) -> None:
    """Register what PRICES prices."""
    lifecycle = {"lifecycle": {"task.stop": {"effect": "update", "state": "off"}}}
    for resource_type in ("task", "disk"):
        define_type(reporting, "cluster", resource_type, lifecycle, "test")


def test_the_database_refuses_two_versions_of_one_month_whoever_writes_them(metering: Connection) -> None:
    """S40: the service refuses first, with a reason; a constraint stands behind it."""
    insert = "insert into ledger.pricing_versions values (%s, %s, %s, 'EUR', '{}', '')"
    metering.execute(insert, ["a", "2020-01-01", "2020-04-01"])
    metering.execute(insert, ["b", "2020-04-01", None])
    metering.execute(insert, ["c", "2020-06-01", "2020-07-01"])
    for collision in (["d", "2020-03-01", None], ["e", "2019-12-01", "2020-02-01"], ["f", "2020-04-01", "2020-05-01"]):
        with pytest.raises(psycopg.DatabaseError) as caught:
            metering.execute(insert, collision)
        assert caught.value.sqlstate in ("23P01", "23505")


def test_what_an_earlier_version_of_tally_took_prices_its_months_as_before(
    reporting: Connection, metering: Connection, tmp_path: Path
) -> None:
    """Yen, and a name without end: no new file may have them, but what is loaded never changes, nor does its file."""
    define_cluster(reporting)
    write(tmp_path, "2026-06", "2026-06")
    file = tmp_path / "2026-06.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("EUR", "JPY").replace("disk", "d" * 600), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"JPY have 0 decimals.*longer than 512 bytes"):
        load_files(reporting, metering, [file])
    insert_version(metering, rows_of(parse_price_version(file.read_text(encoding="utf-8"), file.name, kept=True)))
    assert load_files(reporting, metering, [file]) == load_price_versions(metering) == []
    assert holding(metering, BillingPeriod.parse("2026-07")) == ["2026-06"]
    assert list(strange_rows(metering, version_named(metering, "2026-06"))) == []
