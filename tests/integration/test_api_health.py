"""When a process is ready, and when it is no longer alive: the conditions of the requirement, one by one."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from tally.api.health import DATABASE, FAILED_BATCH_COUNTS, INGESTION, OK, RECONCILIATION, STUCK_AFTER, Health
from tally.services.clouds import register_cloud
from tally.store.database import Connection, connected
from tally.store.reporting import syncs
from tests.conftest import on_server
from tests.integration.api_server import Client

NOW = datetime(2026, 6, 1, tzinfo=UTC)
UNHEALTHY = timedelta(seconds=600)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(reporting_url: str, clock: Clock) -> Health:
    """The health of a process whose platform openstack can be reconciled."""
    return Health(reporting_url, {"openstack"}, UNHEALTHY, clock)


@pytest.fixture
def read_only(server_url: str, reporting_url: str) -> Iterator[None]:
    """The reporting database takes no writes."""
    name = urlsplit(reporting_url).path.removeprefix("/")
    with connected(server_url) as server:
        server.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
        yield


def verdicts(health: Health) -> tuple[bool, str, str, str]:
    """Ready, and what each check says."""
    health.check()
    ready = health.readiness()
    return ready.well, ready.checks[DATABASE], ready.checks[INGESTION], ready.checks[RECONCILIATION]


def synced(reporting: Connection, cloud: str, status: str) -> None:
    """A sync of a cloud that ended some way."""
    sync_id = syncs.begin(reporting, cloud, "test", NOW, accept_deletions=False)
    syncs.finish(reporting, sync_id, cloud, status, NOW)


def test_without_its_database_it_is_not_ready(server_url: str, clock: Clock) -> None:
    """Nothing can be said of the rest."""
    health = Health(on_server(server_url, "there_is_none"), {"openstack"}, UNHEALTHY, clock)
    unknown = "unknown without the reporting database"
    assert verdicts(health) == (False, "does not answer", unknown, unknown)


def test_ingestion_alone_is_enough(health: Health) -> None:
    """Installations without an adapter are ready."""
    assert verdicts(health) == (True, OK, OK, "no cloud has an adapter")


@pytest.mark.usefixtures("read_only")
def test_without_both_it_is_not_ready(health: Health) -> None:
    """No writes, and nothing to reconcile."""
    said = "the reporting database takes no writes"
    assert verdicts(health) == (False, OK, said, "no cloud has an adapter")


def test_reconciliation_alone_is_enough(health: Health, reporting: Connection) -> None:
    """What ingestion misses, it finds: one cloud whose last sync did not fail, or that waits for its first, will do."""
    health.batch_ended(well=False)
    register_cloud(reporting, "harbor", "registry-1", "test")
    assert verdicts(health) == (False, OK, "the last batch failed", "no cloud has an adapter")
    register_cloud(reporting, "openstack", "os-1", "test")
    register_cloud(reporting, "openstack", "os-2", "test")
    assert verdicts(health) == (True, OK, "the last batch failed", OK)
    synced(reporting, "os-1", "failed")
    assert verdicts(health)[0]
    synced(reporting, "os-2", "failed")
    assert verdicts(health) == (False, OK, "the last batch failed", "the last sync of every cloud failed")
    synced(reporting, "os-2", "incomplete")
    assert verdicts(health)[0]


def test_a_batch_that_failed_counts_until_one_succeeds(health: Health) -> None:
    """Whatever the rest says."""
    health.batch_ended(well=False)
    assert not verdicts(health)[0]
    health.batch_ended(well=True)
    assert verdicts(health)[0]


def test_a_batch_that_failed_counts_for_a_minute(health: Health, clock: Clock) -> None:
    """Nobody sends to a process that is not ready: it would stay so for ever."""
    health.batch_ended(well=False)
    clock.seconds += FAILED_BATCH_COUNTS
    assert not verdicts(health)[0]
    clock.seconds += 1
    assert verdicts(health)[0]


def test_it_is_alive_until_it_has_been_unhealthy_for_too_long(server_url: str, clock: Clock) -> None:
    """Longer than the threshold, without a break."""
    health = Health(on_server(server_url, "there_is_none"), (), UNHEALTHY, clock)
    for _ in range(11):
        health.check()
        assert health.liveness().well
        clock.seconds += 60
    health.check()
    assert not health.liveness().well
    assert health.liveness().checks[DATABASE] == "does not answer"


def test_a_moment_of_health_begins_it_anew(health: Health, clock: Clock) -> None:
    """Ten minutes with one good check in between are not ten minutes."""
    for _ in range(20):
        health.batch_ended(well=False)
        assert not verdicts(health)[0]
        clock.seconds += 50
        health.batch_ended(well=True)
        assert verdicts(health)[0]
        assert health.liveness().well


def test_checks_that_hang_are_no_health(health: Health, clock: Clock) -> None:
    """The last result is not believed for ever."""
    assert verdicts(health)[0]
    clock.seconds += STUCK_AFTER + 1
    assert not health.readiness().well
    assert health.liveness().well
    clock.seconds += UNHEALTHY.total_seconds()
    assert not health.liveness().well


def test_health_is_told_with_what_is_wrong(api: Client) -> None:
    """As JSON: 200 or 503, and a line for each check."""
    ready = api.get("/readyz")
    assert (ready.status_code, ready.json()["checks"][DATABASE]) == (200, OK)
    assert api.get("/healthz").json() == {"status": "ok", "checks": {"process": "ok"}}


def test_the_first_check_is_made_before_anything_is_served(server_url: str) -> None:
    """So that a process never counts as ready before it knows."""
    health = Health(on_server(server_url, "there_is_none"), (), UNHEALTHY)
    with health.watching():
        assert not health.readiness().well
