"""Files handed over by mistake, and lines that no event can fill: nothing is half taken, nothing half kept."""

import bz2
import gzip
import io
import lzma

import pytest

from tally.domain.errors import InvalidInput
from tally.services.ingest_files import MAX_BATCH_BYTES, MAX_LINE_BYTES, Format, Summary, ingest_stream
from tally.store.database import Connection
from tests.integration.sending import CREATE, count, door, event, raw

FIRST = raw(event("e-1", "05T10:00:00", CREATE))
SECOND = raw(event("e-2", "05T10:00:00", CREATE, "v-2"))
LINES = FIRST + b"\n" + SECOND + b"\n"


def taken(reporting: Connection, content: bytes) -> Summary:
    """What became of a file with this content."""
    summary = Summary()
    ingest_stream(door(reporting), io.BytesIO(content), Format.TALLY, "", summary, lambda: None)
    return summary


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (gzip.compress(LINES), "gzip"),
        (bz2.compress(LINES), "bzip2"),
        (lzma.compress(LINES), "xz"),
        (LINES.decode().encode("utf-16"), "UTF-16"),
        (LINES.decode().encode("utf-16-le"), "UTF-8"),
        (b"PK\x03\x04rest", "zip"),
        (b"\x7fELF\x00\x01\n\x00", "no text"),
        (b"[" + FIRST + b",\n" + SECOND + b"]", "one JSON document"),
        (b"\n{\n" + FIRST[1:], "one JSON document"),
        (b"# Tally\n\nturns events into bills\n", r"begins with '# Tally' and holds no JSON"),
        (b"event_id,timestamp\ne-1,2026-03-05T10:00:00Z\n", "holds no JSON"),
        (b"\x1f\x8b" + b"x" * (MAX_LINE_BYTES + 10), "gzip"),
    ],
    ids=["gz", "bz2", "xz", "utf16", "utf16_bare", "zip", "program", "list", "pretty", "text", "table", "long_gz"],
)
def test_what_is_no_json_lines_is_refused_whole(reporting: Connection, content: bytes, told: str) -> None:
    """Its lines would each become a dead letter (rule 4: what is no JSON stays with its sender)."""
    with pytest.raises(InvalidInput, match=told):
        taken(reporting, content)
    assert count(reporting, "rejected_events") == 0


def test_a_broken_line_is_a_dead_letter_wherever_it_stands(reporting: Connection) -> None:
    """One bad event never loses its neighbours, also as the first line (rule 4)."""
    summary = taken(reporting, b"\xff{broken\n" + FIRST + b"\n{\n[]\n" + SECOND)
    assert (summary.accepted, summary.rejected) == (2, 3)
    assert count(reporting, "rejected_events") == 3
    told = [example.detail.partition(":")[0] for examples in summary.examples.values() for example in examples]
    assert told == ["line 1", "line 3", "line 4"]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_of_any_length_is_rejected_without_its_neighbours(reporting: Connection, end: bytes) -> None:
    """It stays with its sender, whom the rejection tells the line; it is never held in memory as a whole."""
    huge = b'{"payload": "' + b"x" * (2 * MAX_LINE_BYTES) + b'"}'
    summary = taken(reporting, FIRST + b"\n" + huge + b"\n" + SECOND + b"\n" + huge + end)
    assert (summary.accepted, summary.rejected, dict(summary.reasons)) == (2, 2, {"too_large": 2})
    assert [example.detail.split(" is")[0] for example in summary.examples["too_large"]] == ["line 2", "line 4"]
    assert count(reporting, "rejected_events") == 0


def test_many_large_lines_are_cut_into_batches(reporting: Connection) -> None:
    """A batch fits the memory, however large its lines are."""
    count_of_lines = MAX_BATCH_BYTES // MAX_LINE_BYTES + 1
    letters = [b"{%d" % number + b"x" * (MAX_LINE_BYTES - 10) for number in range(count_of_lines)]
    summary = taken(reporting, b"\n".join(letters))
    assert summary.rejected == len(letters) == count(reporting, "rejected_events")
