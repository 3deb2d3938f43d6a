"""Make the pictures of docs/how-to/close-a-month.md again: ``make screenshots``, with Debian's package chromium.

``make screenshots ONLY=asset-checks`` makes one of them.

The example month is closed and finalized, an event of it arrives late, and April stumbles over a projection that lies;
Dagster's own pages then show it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tally.services.installation import REPORTING
from tally.store.database import connected
from tally.store.embedded import EmbeddedServer
from tests.conftest import REPOSITORY, temporary_home
from tests.integration.dagster_web import DagsterWeb, dagster_up, eventually

IMAGES = REPOSITORY / "docs" / "how-to" / "images"
TALLY = Path(sys.executable).parent / "tally"
LATE = {
    "event_id": "late-delete",
    "timestamp": "2026-03-30T12:00:00Z",
    "event_type": "compute.instance.delete.end",
    "platform": "openstack",
    "payload": {},
}
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PATIENCE_OF_A_PAGE = 20_000  # milliseconds until it has drawn itself


def main(*only: str) -> None:
    """Set the scene, then take the pictures: those that are named, or all."""
    IMAGES.mkdir(exist_ok=True)
    with temporary_home() as home, tempfile.TemporaryDirectory() as scratch:
        environment = {"TALLY_HOME": str(home)}
        for command in (["demo"], ["finalize", "2026-03"]):
            subprocess.run([TALLY, *command], env=os.environ | environment, check=True)
        with dagster_up(environment, Path(scratch) / "up.log") as web:
            correction = _scene(web, home, Path(scratch))
            pages = {
                "asset-graph": ("/asset-groups", 1700, 900),
                "asset-checks": ("/locations/tally/asset-groups/bills/lineage", 1500, 1000),
                "failed-check": ("/assets/usage?view=checks&checkDetail=projection_matches_timelines", 1400, 900),
                "partitions": ("/assets/completed_run?view=partitions", 1400, 800),
                "correction-run": (f"/runs/{correction}", 1400, 800),
                "automation": ("/automation", 1400, 600),
            }
            for name in only or pages:
                path, width, height = pages[name]
                _photograph(web.address + path, IMAGES / f"{name}.png", width, height)


def _scene(web: DagsterWeb, home: Path, scratch: Path) -> str:
    """A correction of March and a failed close of April; returns the id of the correction in Dagster."""
    url = EmbeddedServer(home).url(REPORTING)
    with connected(url) as reporting:
        row = reporting.execute(
            "select cloud, resource_id, project_id from reporting.current_resources"
            " where deleted_at is null and resource_type = 'instance' and last_event_at < '2026-03-30'"
            " order by cloud, resource_id limit 1"
        ).fetchone()
    assert row is not None
    late = LATE | {"cloud": row[0], "resource_type": "instance", "resource_id": row[1], "project_id": row[2]}
    events = scratch / "late.jsonl"
    events.write_text(json.dumps(late) + "\n", encoding="utf-8")
    subprocess.run([TALLY, "ingest", events], env=os.environ | {"TALLY_HOME": str(home)}, check=True)
    eventually(lambda: web.told("late_events", "finalized_period", "nothing_is_late"))
    correction = _backfilled(web, "2026-03", "SUCCESS")
    with connected(url) as reporting:
        reporting.execute(
            """update reporting.current_resources set size = size || '{"vcpus": 99}'
               where deleted_at is null and resource_type = 'instance'"""
        )
    _backfilled(web, "2026-04", "FAILURE")
    return correction


def _backfilled(web: DagsterWeb, month: str, status: str) -> str:
    backfill = web.backfill(month)
    (run,) = eventually(lambda: [run for run in web.runs(dagster_backfill=backfill) if run["endTime"]])
    assert run["status"] == status, web.failures(run["runId"])
    return str(run["runId"])


def _photograph(url: str, image: Path, width: int, height: int) -> None:
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                f"--virtual-time-budget={PATIENCE_OF_A_PAGE}",
                f"--screenshot={image}",
                url,
            ],
            check=True,
            timeout=180,
            stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
