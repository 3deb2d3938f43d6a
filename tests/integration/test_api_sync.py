"""POST /internal/sync/{cloud} on a live server: who may start it, what it answers, what it counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from starlette.datastructures import Headers

from tally.api.auth.caller import Connect
from tally.domain.inventory import Gap
from tally.domain.principal import Principal, Role, Scope
from tally.store.database import Connection
from tests.integration.api_server import Client, live_api
from tests.integration.fake_platform import Platform, disk, volumes
from tests.integration.sending import CLOUD, CREATE, at, current, send, volume

SYNC = f"/internal/sync/{CLOUD}"
CLOCK = at("20T10:10:00")


class Everybody:
    """Takes everybody for one principal."""

    def __init__(self, role: Role, scope: Scope | None = None) -> None:
        self._principal = Principal(f"token:{role}", role, scope)

    def authenticate(self, headers: Headers, peer: str, connect: Connect) -> Principal:  # noqa: ARG002
        """Ask for nothing."""
        return self._principal


@contextmanager
def syncing(reporting_url: str, metering_url: str, platform: Platform, **options: Any) -> Iterator[Client]:
    """An API that finds a platform behind every OpenStack cloud."""

    def clock() -> datetime:
        return CLOCK

    adapters = {"openstack": lambda cloud: platform}  # noqa: ARG005
    with live_api(reporting_url, metering_url, clock=clock, adapters=adapters, **options) as client:
        yield client


@pytest.fixture
def with_volume(reporting: Connection) -> Connection:
    """A cloud with one volume of 10 GB since March 1."""
    send(reporting, volume("c", "01T00:00:00", CREATE, 10))
    return reporting


def test_a_sync_answers_what_it_found_and_wrote(
    with_volume: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """In all and by resource type."""
    with syncing(reporting_url, idle_metering_url, volumes(disk(size_gb=20), disk("new"))) as api:
        answer = api.post(SYNC)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["cloud"], body["status"], body["started_at"]) == (CLOUD, "completed", "2026-03-20T10:10:00Z")
    assert [body[name] for name in ("listed", "created", "updated", "deleted", "errors")] == [2, 1, 1, 0, []]
    assert [(row["resource_type"], row["status"], row["created"]) for row in body["resource_types"]] == [
        ("volume", "compared", 1)
    ]
    assert current(with_volume)["size"] == {"size_gb": 20}


def test_what_a_platform_fails_to_answer_is_told(
    with_volume: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """The sync was done as far as it could: who called it reads what is missing."""
    with syncing(reporting_url, idle_metering_url, volumes(Gap("page 2 answered 503"))) as api:
        body = api.post(SYNC).json()
    assert (body["status"], body["deleted"]) == ("incomplete", 0)
    assert body["errors"] == ["volume: the listing is not complete: page 2 answered 503"]
    assert current(with_volume)["deleted_at"] is None


def test_too_many_deletions_wait_for_an_operator(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """The share is a setting; the answer says how many were held back."""
    send(reporting, *(volume(str(no), "01T00:00:00", CREATE, 10, resource_id=f"v-{no}") for no in range(20)))
    with syncing(reporting_url, idle_metering_url, volumes(), sync_max_deleted_percent=50) as api:
        held, done = api.post(SYNC).json(), api.post(SYNC, accept_deletions="true").json()
    assert (held["status"], held["deleted"], held["withheld"]) == ("guarded", 0, 20)
    assert (done["status"], done["deleted"], done["withheld"]) == ("completed", 20, 0)


@pytest.mark.parametrize(
    ("principal", "query", "status"),
    [
        (Everybody(Role.SYNC, Scope("openstack", CLOUD)), {}, 200),
        (Everybody(Role.SYNC, Scope("openstack", "os-other")), {}, 403),
        (Everybody(Role.SYNC, Scope("openstack", CLOUD)), {"accept_deletions": "true"}, 403),
        (Everybody(Role.OPERATOR), {"accept_deletions": "true"}, 200),
        (Everybody(Role.INGEST, Scope("openstack", CLOUD)), {}, 403),
        (Everybody(Role.READ_ALL), {}, 403),
        (Everybody(Role.CONSUMER), {}, 403),
    ],
)
def test_a_credential_syncs_its_own_cloud_and_only_an_operator_accepts_deletions(
    with_volume: Connection,  # noqa: ARG001
    reporting_url: str,
    idle_metering_url: str,
    principal: Everybody,
    query: dict[str, str],
    status: int,
) -> None:
    """A job that accepts every deletion would have no guard."""
    with syncing(reporting_url, idle_metering_url, volumes(disk()), authenticator=principal) as api:
        assert api.post(SYNC, **query).status_code == status


def test_a_cloud_that_cannot_be_listed_is_not_found(
    with_volume: Connection,  # noqa: ARG001
    reporting_url: str,
    idle_metering_url: str,
) -> None:
    """Nobody registered it, or nobody wrote an adapter for its platform."""
    with syncing(reporting_url, idle_metering_url, volumes()) as api:
        answer = api.post("/internal/sync/os-nowhere")
    assert (answer.status_code, "is not registered" in answer.json()["detail"]) == (404, True)
    with live_api(reporting_url, idle_metering_url) as api:
        answer = api.post(SYNC)
    assert (answer.status_code, "has no reconciliation adapter" in answer.json()["detail"]) == (404, True)


def test_a_second_sync_of_the_cloud_is_refused_meanwhile(
    with_volume: Connection,  # noqa: ARG001
    reporting_url: str,
    idle_metering_url: str,
) -> None:
    """409: the job comes again in ten minutes."""
    platform = volumes(disk())
    with syncing(reporting_url, idle_metering_url, platform) as api:
        statuses: list[int] = []
        platform.meanwhile = lambda: statuses.append(Client(api.url).post(SYNC).status_code)
        assert api.post(SYNC).status_code == 200
    assert statuses == [409]


def test_syncs_are_counted(with_volume: Connection, reporting_url: str, idle_metering_url: str) -> None:  # noqa: ARG001
    """The names are the seed's; synthetic events count as events, dead letters as dead letters."""
    platform = Platform({"volume": [disk(size_gb=20), disk("v-2", size={})], "image": [Gap("503")]})
    with syncing(reporting_url, idle_metering_url, platform) as api:
        api.post(SYNC)
        lines = api.get("/metrics").text.splitlines()
    assert f'sync_resources_reconciled{{cloud="{CLOUD}"}} 1.0' in lines
    assert f'sync_errors{{cloud="{CLOUD}"}} 1.0' in lines
    assert f'events_rejected_total{{cloud="{CLOUD}",reason="invalid_size"}} 1.0' in lines
    assert any(line.startswith("event_count{") and "reconcile.update" in line for line in lines)
