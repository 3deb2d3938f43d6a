"""October 2022 of a real cluster: 68,648 jobs as instances, closed by the real job, exact to the microsecond."""

import csv
import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tally.domain.period import BillingPeriod
from tally.services.pricing import load_price_versions
from tally.store.migrate import migrate
from tests.integration.closing import copied
from tests.integration.sending import door, raw

OCTOBER = BillingPeriod.parse("2022-10")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PRICES = """
version: "test-2022-10"
valid_from: "2022-10-01T00:00:00Z"
valid_to: "2022-11-01T00:00:00Z"
currency: EUR
pricing:
  openstack:
    instance:
      dimensions:
        - {metric: vcpus, type: time_gauge, price_per_unit_hour: 0.02}
unpriced:
  openstack:
    instance: [ram_gb, disk_gb]
"""


def jobs(trace: Path) -> Iterator[tuple[str, int, int, int]]:
    """(id, start in ms since 1970, duration in ms, cpus) of each job."""
    with gzip.open(trace, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row["id"], int(row["submission_time"]), int(row["duration"]), int(row["cpu_count"])


def lifetime(number: str, start_ms: int, duration_ms: int, cpus: int) -> Iterator[dict[str, Any]]:
    """A job as the create and the delete of an instance."""
    size = {"vcpus": cpus, "ram_gb": 64, "disk_gb": 0}
    for what, moment, payload in (("create", start_ms, {"size": size}), ("delete", start_ms + duration_ms, {})):
        yield {
            "event_id": f"{number}-{what}",
            "timestamp": (EPOCH + timedelta(milliseconds=moment)).isoformat(),
            "event_type": f"compute.instance.{what}.end",
            "platform": "openstack",
            "cloud": "surf-lisa",
            "resource_type": "instance",
            "resource_id": number,
            "project_id": f"team-{int(number) % 50}",
            "payload": payload,
        }


def counted(trace: Path) -> tuple[int, int, Decimal]:
    """(records, microseconds, vcpu hours to 9 decimals) of October, added up by hand from the trace."""
    first, last = (int((instant - EPOCH) / timedelta(milliseconds=1)) for instant in (OCTOBER.start, OCTOBER.end))
    parts = [
        (min(start + duration, last) - max(start, first), cpus)
        for _, start, duration, cpus in jobs(trace)
        if max(start, first) < min(start + duration, last)
    ]
    vcpu_ms = sum(length * cpus for length, cpus in parts)
    return len(parts), 1000 * sum(length for length, _ in parts), round(Decimal(vcpu_ms) / 3_600_000, 9)


@pytest.mark.slow
@pytest.mark.usefixtures("tally_home")
def test_a_real_month_is_covered_to_the_microsecond(
    server_url: str, reporting_template: str, tmp_path: Path, shared: Path
) -> None:
    """Rules 14 and 16: the records of 68,648 lives are what a plain sum over the trace says, and every check passes."""
    trace = shared / "samples" / "traces" / "surf_month_tasks.csv.gz"
    if not trace.is_file():
        pytest.skip(f"the trace is not at {trace}")
    (tmp_path / "2022-10.yaml").write_text(PRICES, encoding="utf-8")
    with copied(server_url, (reporting_template, "template0"), OCTOBER) as house:
        with house.connected() as (reporting, metering):
            migrate(metering, "metering")
            load_price_versions(metering, tmp_path)
            service = door(reporting)
            raws = (raw(event) for job in jobs(trace) for event in lifetime(*job))
            while batch := list(islice(raws, 1000)):
                assert {outcome.status for outcome in service.ingest(batch)} == {"accepted"}
        house.close()
        records, microseconds, vcpu_hours = counted(trace)
        assert house.query(
            "select count(*), (sum(extract(epoch from to_ts - from_ts)) * 1000000)::bigint from ledger.usage_records"
        ) == [(records, microseconds)]
        [(exact, priced)] = house.query("select sum(amount_exact) / 0.02, count(*) from ledger.rated_records")
        assert priced == records
        assert abs(exact - vcpu_hours) < Decimal("0.000001")
        assert house.query("select sum(total) from ledger.bills") == house.query(
            "select sum(amount) from ledger.rated_records"
        )
