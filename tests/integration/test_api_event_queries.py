"""GET /api/v1/events: filters, pages, and who sees what (S61, S62)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from tally.domain.instants import parse_instant
from tally.domain.principal import Principal, Role
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.api_server import Client, exact, live_api
from tests.integration.callers import api_for, consumer
from tests.integration.sending import CREATE, DELETE, RESIZE, door, event, raw, send, volume

EVENTS = "/api/v1/events"

# Two clouds, two types, three projects, three days; many events share an instant.
SENT: Sequence[dict[str, Any]] = [
    *(
        volume(
            f"{cloud}-{project}-{day}-{n}",
            f"0{day}T00:00:0{n % 3}",
            RESIZE,
            n + 1,
            resource_id=f"v-{project}-{n % 4}",
            project_id=project,
            cloud=cloud,
        )
        for cloud, project, day, n in product(("os-a", "os-b"), ("p-1", "p-2", "p-3"), (1, 2, 3), range(5))
    ),
    *(
        event(
            f"i-{project}-{n}",
            f"02T00:00:0{n}",
            "compute.instance.power_on.end",
            f"i-{n}",
            project_id=project,
            cloud="os-a",
            resource_type="instance",
        )
        for project, n in product(("p-1", "p-2"), range(3))
    ),
]


@pytest.fixture(scope="module")
def urls(server_url: str, reporting_template: str, idle_metering_url: str) -> Iterator[tuple[str, str]]:
    """Databases that hold what was sent, for tests that only read."""
    with fresh_database(server_url, reporting_template) as reporting:
        with connected(reporting) as connection:
            outcomes = door(connection).ingest([raw(each) for each in SENT])
            assert {outcome.status for outcome in outcomes} == {"accepted"}
        yield reporting, idle_metering_url


@pytest.fixture(scope="module")
def callers(urls: tuple[str, str]) -> Iterator[Mapping[str, Client]]:
    """An operator, a customer of two projects in different clouds, and one of none."""
    who = {
        "operator": Principal("operator", Role.OPERATOR),
        "customer": consumer(("os-a", "p-1"), ("os-b", "p-2")),
        "nobody": consumer(),
    }
    with api_for(*urls, who) as clients:
        yield clients


def expected(visible: Sequence[tuple[str, str]] | None = None, **filters: str) -> list[str]:
    """Ids of the events that a list holds, by looking at each, in its order."""
    since, until = filters.pop("from", "2000-01-01T00:00:00Z"), filters.pop("to", "2100-01-01T00:00:00Z")
    found = [
        each
        for each in SENT
        if all(each[name] == value for name, value in filters.items())
        and parse_instant(since) <= parse_instant(each["timestamp"]) < parse_instant(until)
        and (visible is None or (each["cloud"], each["project_id"]) in visible)
    ]
    order = sorted(found, key=lambda e: (parse_instant(e["timestamp"]), e["cloud"], e["event_id"]))
    return [each["event_id"] for each in order]


FILTERS: Sequence[dict[str, str]] = [
    {},
    {"cloud": "os-a"},
    {"project_id": "p-2"},
    {"cloud": "os-b", "project_id": "p-2"},
    {"resource_type": "instance"},
    {"cloud": "os-a", "resource_type": "volume", "resource_id": "v-p-1-2"},
    {"event_type": RESIZE, "project_id": "p-3"},
    {"event_type": "no.such"},
    {"from": "2026-03-02T00:00:00Z"},
    {"to": "2026-03-02T00:00:01Z"},
    {"from": "2026-03-02T00:00:01Z", "to": "2026-03-02T00:00:02Z", "cloud": "os-a"},
    {"from": "2026-03-02T01:00:01+01:00", "project_id": "p-1"},
    {"project_id": "nobody's"},
]


@pytest.mark.parametrize("filters", FILTERS, ids=lambda filters: "&".join(f"{k}={v}" for k, v in filters.items()))
@pytest.mark.parametrize("limit", [5, 1000])
def test_pages_hold_what_the_filters_leave_each_event_once_in_order(
    callers: Mapping[str, Client], filters: dict[str, str], limit: int
) -> None:
    """S62: whatever the size of a page, a walk shows the same events in the order of (timestamp, cloud, event_id)."""
    found = callers["operator"].items(EVENTS, limit=limit, **filters)
    assert [each["event_id"] for each in found] == expected(**filters)


def test_an_event_is_shown_as_it_was_sent(callers: Mapping[str, Client]) -> None:
    """Every field, the payload unchanged."""
    sent = SENT[7]
    shown = {each["event_id"]: each for each in callers["operator"].items(EVENTS)}[sent["event_id"]]
    assert shown == sent | {"source": "collector"}


def test_decimals_come_back_as_they_were_sent(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """No digit is lost on the way."""
    body = raw(event("e", "01T00:00:00", CREATE)).replace(b"{}", b'{"note": 0.12345678901234567890123456789}')
    assert [outcome.status for outcome in send(reporting, body)] == ["accepted"]
    with live_api(reporting_url, idle_metering_url) as client:
        assert "0.12345678901234567890123456789" in client.get(EVENTS).text


def test_long_events_shorten_a_page(reporting: Connection, reporting_url: str, idle_metering_url: str) -> None:
    """A page holds whole events, and no more than memory is for."""
    note = "x" * 250_000
    for n in range(0, 80, 40):
        some = [event(f"e-{m:02d}", f"01T00:00:{m % 60:02d}", CREATE, f"v-{m}", payload={"note": note})
                for m in range(n, n + 40)]  # fmt: skip
        assert {outcome.status for outcome in send(reporting, *some)} == {"accepted"}
    with live_api(reporting_url, idle_metering_url) as client:
        first = exact(client.get(EVENTS, limit=1000))
        assert 1 < len(first["items"]) < 80
        found = client.items(EVENTS, limit=1000)
    assert sorted(each["event_id"] for each in found) == [f"e-{n:02d}" for n in range(80)]


@pytest.mark.parametrize("filters", FILTERS, ids=lambda filters: "&".join(f"{k}={v}" for k, v in filters.items()))
def test_s61_a_consumer_sees_the_events_of_its_projects_only(
    callers: Mapping[str, Client], filters: dict[str, str]
) -> None:
    """S61: in whatever way it asks; a project is its own in one cloud, and another's in the other."""
    own = (("os-a", "p-1"), ("os-b", "p-2"))
    foreign = "project_id" in filters and not any(
        filters["project_id"] == project and filters.get("cloud", cloud) == cloud for cloud, project in own
    )
    if foreign:
        assert callers["customer"].get(EVENTS, **filters).status_code == 403
        return
    found = callers["customer"].items(EVENTS, limit=3, **filters)
    assert [each["event_id"] for each in found] == expected(own, **filters)


def test_s61_a_consumer_of_nothing_sees_nothing(callers: Mapping[str, Client]) -> None:
    """S61: no projects are no events, not all of them."""
    assert exact(callers["nobody"].get(EVENTS)) == {"items": [], "next_cursor": None}
    assert callers["nobody"].get(EVENTS, project_id="p-1").status_code == 403


def test_the_cursor_of_another_query_is_refused(callers: Mapping[str, Client]) -> None:
    """400: a cursor goes with its filters and its address, and garbage is none."""
    operator = callers["operator"]
    cursor = exact(operator.get(EVENTS, limit=2, cloud="os-a"))["next_cursor"]
    assert operator.get(EVENTS, limit=5, cloud="os-a", cursor=cursor).status_code == 200
    assert operator.get(EVENTS, limit=2, cloud="os-b", cursor=cursor).status_code == 400
    assert operator.get("/api/v1/resources", cloud="os-a", cursor=cursor).status_code == 400
    for garbage in ("x", "e30=", cursor[:-4], cursor[::-1], "ÄÖ", "\0"):
        assert operator.get(EVENTS, limit=2, cloud="os-a", cursor=garbage).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        {"resource_id": "v-1"},
        {"resource_id": "v-1", "cloud": "os-a"},
        {"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"},
        {"from": "2026-03-02"},
        {"from": "2026-03-02T00:00:00"},
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "many"},
        {"offset": "1"},
        {"cloud": ""},
        {"cloud": "a\0b"},
    ],
)
def test_what_makes_no_sense_is_refused(callers: Mapping[str, Client], query: dict[str, str]) -> None:
    """400, not an empty list: a misspelt filter hides nothing and shows nothing."""
    assert callers["operator"].get(EVENTS, **query).status_code == 400


def test_a_walk_shows_every_event_once_while_others_arrive(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """What was there when the walk began is shown once; what arrives is shown once if its place is still ahead."""
    first = [volume(f"e-{n:02d}", f"{1 + n:02d}T00:00:00", RESIZE, n, resource_id=f"v-{n % 3}") for n in range(20)]
    send(reporting, *first)
    behind = [volume(f"late-{n}", f"01T00:00:{n:02d}", RESIZE, n) for n in range(1, 5)]
    ahead = [volume(f"new-{n}", f"25T00:00:{n:02d}", RESIZE, n) for n in range(4)]
    seen: list[str] = []
    with live_api(reporting_url, idle_metering_url) as client:
        query: dict[str, Any] = {"limit": 3}
        for arriving in [*zip(behind, ahead, strict=True), *[()] * 20]:
            page = exact(client.get(EVENTS, **query))
            seen += [each["event_id"] for each in page["items"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
            send(reporting, *arriving)
    assert len(seen) == len(set(seen))
    assert set(seen) == {each["event_id"] for each in [*first, *ahead]}


def test_a_consumer_whose_project_gave_a_resource_away_sees_its_own_events_of_it(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """S61: an event belongs to the project that it names."""
    transfer = event("2", "02T00:00:00", "volume.transfer.accept.end", project_id="p-2")
    end = event("3", "03T00:00:00", DELETE, project_id="p-2")
    send(reporting, volume("1", "01T00:00:00", CREATE, 1), transfer, end)
    cloud = transfer["cloud"]
    who = {"former": consumer((cloud, "p-1")), "present": consumer((cloud, "p-2"))}
    with api_for(reporting_url, idle_metering_url, who) as clients:
        seen = {name: [each["event_id"] for each in client.items(EVENTS)] for name, client in clients.items()}
    assert seen == {"former": ["1"], "present": ["2", "3"]}
