"""The lifecycle of one resource among 5 million events: the time of the server, and that of a caller over HTTP.

The reference is a bare lookup of the same rows by their primary key, by psycopg over one connection, in the same run.
What is measured is the handler with a connection at hand, up to the bytes of its answer, and the round trip of a client
on the same machine, which shares its processors with the server.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import requests

from tally.api.routes.resources import lifecycle
from tally.domain.principal import Principal, Role
from tally.store.database import Connection, connected
from tally.store.reporting.events import Resource
from tests.bench.databases import database
from tests.bench.events import copy_reporting, events
from tests.integration.api_server import live_api

EVENTS = 5_000_000
EVENTS_PER_RESOURCE = 25
QUERIES = 1000
SOME = """
    select cloud, resource_type, resource_id from reporting.events
    group by cloud, resource_type, resource_id order by md5(resource_id) limit %s"""
ROWS = """
    select event_id, timestamp, event_type, platform, project_id, source, payload::text
    from reporting.events where cloud = %s and resource_type = %s and resource_id = %s"""


def run(server_url: str, count: int = EVENTS, queries: int = QUERIES) -> list[dict[str, object]]:
    """Measure the median and the 99th percentile of each, for ``queries`` resources among ``count`` events."""
    with database(server_url, "reporting") as url, database(server_url, "metering") as metering_url:
        with connected(url) as reporting:
            copy_reporting(reporting, events(count, max(1, count // EVENTS_PER_RESOURCE)))
            reporting.execute("vacuum analyze reporting.events")
            chosen: list[Resource] = reporting.execute(SOME, [queries]).fetchall()
            bare = _milliseconds(lambda resource: reporting.execute(ROWS, resource).fetchall(), chosen)
            served = _milliseconds(lambda resource: _serve(reporting, resource), chosen)
        with live_api(url, metering_url) as client, requests.Session() as session:
            session.trust_env = False
            answered = _milliseconds(lambda resource: _ask(session, client.url, resource), chosen)
    return [
        *_results("lifecycle_query_ms", served, bare),
        *_results("lifecycle_query_ms.http", answered, bare),
    ]


def _serve(reporting: Connection, resource: Resource) -> None:
    _check(lifecycle(*resource, Principal("bench", Role.READ_ALL), reporting).body)


def _ask(session: requests.Session, url: str, resource: Resource) -> None:
    address = "/".join(quote(part, safe="") for part in resource)
    _check(session.get(f"{url}/api/v1/resources/{address}/lifecycle", timeout=60).content)


def _check(body: bytes | memoryview) -> None:
    if b'"intervals":[{' not in bytes(body):
        raise AssertionError("a resource has no lifecycle")


def _milliseconds(work: Callable[[Resource], object], chosen: Sequence[Resource]) -> list[float]:
    """Return how long each took, in order; the first hundred are done once before, as by a server that runs."""
    for resource in chosen[:100]:
        work(resource)
    took = []
    for resource in chosen:
        start = time.perf_counter()
        work(resource)
        took.append((time.perf_counter() - start) * 1000)
    return sorted(took)


def _results(name: str, took: Sequence[float], bare: Sequence[float]) -> list[dict[str, object]]:
    return [
        {
            "name": f"{name}{suffix}",
            "value": round(at(took), 2),
            "unit": "ms",
            "reference": "a bare lookup of the same rows by their key",
            "reference_value": round(at(bare), 2),
            "ratio": round(at(took) / at(bare), 2),
        }
        for suffix, at in (("", statistics.median), (".p99", _p99))
    ]


def _p99(took: Sequence[float]) -> float:
    return took[len(took) * 99 // 100]
