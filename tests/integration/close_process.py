"""A process that closes or corrects a month by the real job, for the tests that run several of them or kill one.

Usage: python -m tests.integration.close_process REPORTING_URL METERING_URL. Each step that begins is told on standard
error by Dagster's log; the exit code is 0 if the job has succeeded.
"""

import sys

from tests.integration.closing import House


def main(reporting_url: str, metering_url: str) -> int:
    """Run the job once."""
    return 0 if House(reporting_url, metering_url).launch().success else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
