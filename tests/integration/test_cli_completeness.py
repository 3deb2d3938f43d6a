"""`tally completeness` and `tally waive`, as a person uses them."""

from pathlib import Path

import pytest

from tally.store.database import connected
from tests.integration.closing import House
from tests.integration.command_line import environment, run


@pytest.fixture
def installed_house(house: House, home: Path, dagster_url: str) -> dict[str, str]:
    """The environment of an installation in which the small month is closed, with one life of unknown beginning."""
    with connected(house.metering_url) as metering:
        metering.execute(
            "insert into ledger.findings (run_id, kind, cloud, platform, resource_type, subject, detail)"
            " select id, 'open_left', 'os-prod-eu1', 'openstack', 'instance', 'i-7', 'd' from ledger.runs"
        )
    return environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=house.reporting_url,
        TALLY_METERING_URL=house.metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )


def test_the_exit_code_says_whether_something_blocks(installed_house: dict[str, str]) -> None:
    """1 until it is waived; the table says what, where, and by whom it was waived."""
    before = run(installed_house, "completeness", "2026-03")
    assert before.status == 1, before
    assert "open_left" in before.out
    assert "openstack instance i-7: d" in before.out
    refused = run(installed_house, "waive", "2026-03", "cycle", "--reason", "r")
    assert (refused.status, "no blocking finding of kind 'cycle'" in refused.error) == (2, True)
    waived = run(installed_house, "waive", "2026-03", "open_left", "--reason", "known", "--until", "2099-12")
    assert (waived.status, waived.err) == (0, "open_left is waived for 2026-03 until 2100-01-01T00:00:00Z\n")
    after = run(installed_house, "completeness", "2026-03")
    assert after.status == 0, after
    (line,) = [line for line in after.out.splitlines() if "open_left" in line]
    assert " by " in line
