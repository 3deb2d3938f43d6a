"""The launch of one job for one month, as the command line starts it."""

import pytest

from tally.domain.period import FIRST_METERED
from tally_dagster.launch import main


def test_a_month_without_a_partition_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that have one."""
    assert main(["close_month", "9998-12"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"close_month 9998-12: months from {FIRST_METERED} to ")
    assert told.count("\n") == 1
