"""One month of 10,000 instances with five priced dimensions each, from their events to the rated ledger.

In seconds, by the job close_month. A peer that samples and rates by the hour stores 37 million points for it. The nova
of each instance tells every day that it exists, and what it has sent; once in the month it is resized.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from operator import attrgetter
from pathlib import Path

from pricing.price_file import parse_price_version
from tally.domain.event import Event
from tally.services.pricing import add_versions
from tally.services.projection import rebuild
from tally.store.database import connected
from tests.bench.close_vs_copy import close
from tests.bench.databases import database
from tests.bench.events import CLOUDS, FLAVORS, PLATFORM, PROJECTS, START, copy_reporting

INSTANCES = 10_000
DIMENSIONS = ("vcpus", "ram_gb", "disk_gb", "count", "egress_gb")
HOURS = 31 * 24
DAYS = 59
PRICES = Path(__file__).with_name("five_dimensions.yaml")


def run(server_url: str, instances: int = INSTANCES) -> list[dict[str, object]]:
    """Measure the close, and check that each instance has costs in each dimension."""
    with (
        database(server_url, "reporting") as reporting_url,
        database(server_url, "metering", shipped=False) as metering_url,
    ):
        with connected(reporting_url) as reporting, connected(metering_url) as metering:
            copied = copy_reporting(reporting, iter(sorted(_events(instances), key=attrgetter("timestamp"))))
            rebuild(reporting)
            add_versions(metering, [parse_price_version(PRICES.read_text(encoding="utf-8"), PRICES.name)])
        seconds = close(reporting_url, metering_url)["total"]
        with connected(metering_url) as metering:
            row = metering.execute(
                "select count(distinct (resource_id, dimension)), count(*) from ledger.rated_records"
            ).fetchone()
    if row is None or row[0] != instances * len(DIMENSIONS):
        raise AssertionError(f"the ledger holds costs of {row} dimensions")
    points = instances * len(DIMENSIONS) * HOURS
    return [
        {
            "name": "month_of_10000_instances_s",
            "value": round(seconds, 2),
            "unit": "s",
            "reference": f"hourly points of a peer, beside {copied} events and {row[1]} rated records",
            "reference_value": points,
            "ratio": round(points / seconds),
        }
    ]


def _events(instances: int) -> Iterator[Event]:
    for number in range(instances):
        flavor = number % len(FLAVORS)
        begun = START + timedelta(seconds=number)
        yield _event(number, 0, "create.end", begun, {"size": FLAVORS[flavor]})
        for day in range(1, DAYS):
            usage = {"usage": {"egress_gb": 1 + (number + day) % 7}}
            yield _event(number, day, "exists", begun + timedelta(days=day), usage)
        resized = {"size": FLAVORS[(flavor + 1) % len(FLAVORS)]}
        yield _event(number, DAYS, "finish_resize.end", begun + timedelta(days=40, hours=number % 24), resized)


def _event(number: int, no: int, event_type: str, at: datetime, payload: dict[str, object]) -> Event:
    return Event(
        event_id=f"{number:05}-{no:02}",
        timestamp=at,
        event_type=f"compute.instance.{event_type}",
        platform=PLATFORM,
        cloud=CLOUDS[0],
        resource_type="instance",
        resource_id=f"instance-{number:05}",
        project_id=f"project-{number % PROJECTS}",
        source="collector",
        payload=payload,
    )
