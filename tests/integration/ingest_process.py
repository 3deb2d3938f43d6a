"""A process that ingests a file of events, for the tests that run several of them or kill one.

Usage: python -m tests.integration.ingest_process URL FILE EVENTS_PER_BATCH. It says "ready", waits for a line, sends
the batches one after the other, and says how many events were accepted, deduplicated and rejected.
"""

import sys
from collections import Counter
from pathlib import Path

from tally.store.database import connected
from tests.integration.sending import door


def main(url: str, file: str, events_per_batch: int) -> None:
    """Ingest the lines of a file."""
    raws = Path(file).read_bytes().splitlines()
    counts: Counter[str] = Counter()
    with connected(url) as reporting:
        ingest = door(reporting).ingest
        _say("ready")
        sys.stdin.readline()
        for start in range(0, len(raws), events_per_batch):
            counts.update(outcome.status for outcome in ingest(raws[start : start + events_per_batch]))
    _say(f"{counts['accepted']} {counts['deduplicated']} {counts['rejected']}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
