"""Kill -9 of the run, or of PostgreSQL, in the middle of a close or a correction: the next run finishes (rule 22).

Nothing is half written: until a run is complete the former one counts, and in the end the sums are what they would have
been without the kill.
"""

import random
import time
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tally.services.installation import running
from tally.settings import Settings
from tally.store.embedded import embedded_server
from tests.integration.closing import LARGE, SMALL_MONTH, House, instance
from tests.integration.correcting import correct, finalize_month
from tests.integration.job_process import assert_whole, job, sums
from tests.integration.test_api_reliability import kill_postgresql

CREATE = instance("k-1", "02-01T00:00:00", "create.end", "killed", size=LARGE, project_id="p-killed")
DELETE = instance("k-2", "03-20T12:00:00", "delete.end", "killed", project_id="p-killed")

Sums = tuple[Any, ...]


def with_it(before: Sums) -> Sums:
    """The sums with the large instance: 744 h x 0.20."""
    return (before[0] + Decimal("148.80"), before[1] + Decimal("148.80"), before[2] + 744 * 60, before[3] + 1)


def with_its_end(before: Sums) -> Sums:
    """The sums after the correction of its late delete, -276 h x 0.20, by a reversal and a new record."""
    return (before[0] - Decimal("55.20"), before[1] - Decimal("55.20"), before[2] - 276 * 60, before[3] + 2)


def kill_in_each(house: House, steps: Sequence[str], seed: int, allowed: Collection[Sums]) -> None:
    """Kill the job up to a second after each of some steps has begun; what counts then is what did, or what it made."""
    chance = random.Random(seed)
    for step in steps:
        with job(house) as victim:
            victim.wait_for(step)
            time.sleep(chance.random())
            victim.kill()
        assert sums(house) in allowed, step


def bereave_in_each(house: House, home: Path, steps: Sequence[str], seed: int, allowed: Collection[Sums]) -> None:
    """Kill PostgreSQL instead, start it again, and let the job go on."""
    chance = random.Random(seed)
    for step in steps:
        with job(house) as bereft:
            bereft.wait_for(step)
            time.sleep(chance.random())
            kill_postgresql(home)
            with embedded_server(home):
                bereft.end()
        assert sums(house) in allowed, step


@pytest.mark.slow
def test_a_close_that_is_killed_leaves_nothing_half_written(house: House) -> None:
    """While it writes costs: the former run counts, or the new one if it was faster; the next comes to the same."""
    before = sums(house)
    made = with_it(before)
    house.ingest(CREATE)
    kill_in_each(house, ["rated_records"], 0, [before, made])
    house.close()
    assert sums(house) == made
    assert_whole(house)


@pytest.mark.drill
def test_whenever_a_close_or_a_correction_is_killed_the_next_one_finishes(house: House) -> None:
    """Between them, in every step that writes anything."""
    before = sums(house)
    made = with_it(before)
    house.ingest(CREATE)
    kill_in_each(house, ["derive_usage", "rated_records", "bills", "completed_run"], 1, [before, made])
    house.close()
    assert sums(house) == made
    assert_whole(house)
    finalize_month(house)
    house.ingest(DELETE)
    kill_in_each(house, ["load", "usage_records", "bills", "build_marts"], 2, [made, with_its_end(made)])
    assert correct(house).success
    assert sums(house) == with_its_end(made)
    assert_whole(house)


@pytest.fixture
def installation(home: Path, tally_home: None) -> Iterator[House]:  # noqa: ARG001
    """The small month, closed on an embedded server of its own."""
    with running(Settings(home)) as databases:
        house = House(databases.reporting_url, databases.metering_url)
        house.ingest(*SMALL_MONTH)
        house.close()
        yield house


@pytest.mark.drill
def test_whenever_postgresql_is_killed_the_run_or_the_next_one_finishes(home: Path, installation: House) -> None:
    """In a close, then in a correction: the server comes back, and a step is tried again."""
    before = sums(installation)
    made = with_it(before)
    installation.ingest(CREATE)
    bereave_in_each(installation, home, ["load", "derive_usage", "bills"], 3, [before, made])
    installation.close()
    assert sums(installation) == made
    assert_whole(installation)
    finalize_month(installation)
    installation.ingest(DELETE)
    steps = ["derive_usage", "rated_records", "completed_run"]
    bereave_in_each(installation, home, steps, 4, [made, with_its_end(made)])
    assert correct(installation).success
    assert sums(installation) == with_its_end(made)
    assert_whole(installation)
