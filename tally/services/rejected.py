"""Dead letters: listing, showing and replaying them after what was wrong is mended (rule 7).

What makes an event acceptable belongs to ingest.py; how a format is read, to formats.py.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from psycopg.errors import DeadlockDetected, UniqueViolation

from tally.domain.errors import InvalidEvent, NotFound, Unavailable
from tally.domain.event import Event, content_hash
from tally.services.formats import read_input
from tally.services.ingest import EVENTS_PER_TRANSACTION, Ingest, InvalidInputEvent, Outcome
from tally.store.database import Connection
from tally.store.reporting import audit
from tally.store.reporting import rejected as store
from tally.store.reporting.rejected import DeadLetter, Filing, KeptLetter, Key, LetterFilter, LetterRow

LETTERS_PER_CALL = 10_000
MAX_CHUNK_BYTES = 32 * 1024 * 1024
_ATTEMPTS = 5

# Why an event may be rejected and kept: docs/reference/events.md.
REASONS = frozenset(
    {
        "clock_skew",
        "event_id_conflict",
        "invalid_event",
        "invalid_json",
        "invalid_size",
        "invalid_state",
        "invalid_timestamp",
        "invalid_usage",
        "not_storable",
        "number_out_of_range",
        "platform_mismatch",
        "too_large",
        "unknown_event_type",
        "unknown_format",
        "unknown_project",
        "unknown_resource_type",
    }
)

Result = Literal["accepted", "deduplicated", "ignored", "rejected"]
RESULTS: tuple[Result, ...] = ("accepted", "deduplicated", "ignored", "rejected")


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter with what came: in base64 if it is no UTF-8."""

    row: LetterRow
    raw: bytes

    @property
    def encoding(self) -> Literal["text", "base64"]:
        """How the content is written."""
        try:
            self.raw.decode("utf-8")
        except UnicodeDecodeError:
            return "base64"
        return "text"

    @property
    def content(self) -> str:
        """What came, as a text."""
        return self.raw.decode("utf-8") if self.encoding == "text" else base64.b64encode(self.raw).decode("ascii")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one letter; ``reason`` and ``detail`` are of a rejection.

    ignored: read as its format is read by now, it changes nothing that is billed.
    """

    result: Result
    event_id: str
    reason: str = ""
    detail: str = ""
    event: Event | None = field(default=None, repr=False, compare=False)


@dataclass(slots=True)
class Replay:
    """What became of the letters of one call, and how many are left for the next one.

    ``next_after`` is the number of the last letter that was replayed, from which the next call goes on; None if no
    letter is left.
    """

    results: Counter[Result] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of those that were rejected again
    remaining: int = 0
    next_after: int | None = None

    def add(self, replayed: Replayed) -> None:
        """Count one letter."""
        self.results[replayed.result] += 1
        if replayed.result == "rejected":
            self.reasons[replayed.reason] += 1


def list_letters(
    connection: Connection, which: LetterFilter, *, after: int | None = None, limit: int | None = None
) -> list[LetterRow]:
    """Return dead letters, the newest number first, those below the number ``after``, at most ``limit``."""
    return store.select_letters(connection, which, after=after, limit=limit)


def show_letter(connection: Connection, letter_id: int) -> Letter:
    """Return one dead letter with what came.

    Raises:
        NotFound: if there is no letter of this number.
    """
    found = store.select_letter(connection, letter_id)
    if found is None:
        raise _missing(letter_id)
    return Letter(*found)


def _missing(letter_id: int) -> NotFound:
    return NotFound(f"there is no dead letter {letter_id}; list the rejected events to see their ids")


def replay_letter(connection: Connection, door: Ingest, letter_id: int, actor: str) -> Replayed:
    """Hand one letter to ``door`` again, whether or not it was replayed before.

    Raises:
        NotFound: if there is no letter of this number.
        Unavailable: if the database fails; replaying again is safe.
    """
    letters = store.letters_to_replay(
        connection, LetterFilter(), after=letter_id - 1, limit=1, max_bytes=MAX_CHUNK_BYTES
    )
    if not letters or letters[0].id != letter_id:
        raise _missing(letter_id)
    (replayed,) = _replay(connection, door, letters)
    audit.record(connection, actor, "rejected_event.replay", str(letter_id), {"result": replayed.result})
    return replayed


def replay_one(connection: Connection, door: Ingest, letter_id: int, actor: str) -> Replay:
    """Do the same, and count what became of it."""
    replay = Replay()
    replay.add(replay_letter(connection, door, letter_id, actor))
    return replay


def replay_all(
    connection: Connection, door: Ingest, which: LetterFilter, actor: str, progress: Callable[[int], object]
) -> Replay:
    """Replay letters call after call until none is left; ``progress`` is told how many each call had.

    Raises:
        Unavailable: likewise.
    """
    whole = Replay()
    after: int | None = 0
    while after is not None:
        replay = replay_letters(connection, door, which, actor, after=after, limit=EVENTS_PER_TRANSACTION)
        whole.results.update(replay.results)
        whole.reasons.update(replay.reasons)
        progress(replay.results.total())
        after = replay.next_after
    return whole


def count_open(connection: Connection, which: LetterFilter) -> int:
    """Return how many letters have not been replayed yet."""
    return store.count_letters(connection, replace(which, replayed=False))


def replay_letters(
    connection: Connection,
    door: Ingest,
    which: LetterFilter,
    actor: str,
    *,
    after: int = 0,
    limit: int = LETTERS_PER_CALL,
) -> Replay:
    """Hand the letters that were not replayed yet to ``door`` again: those with a number above ``after``, upwards.

    At most ``limit`` are replayed. One that is rejected again keeps its letter, with the reason of now. Any number of
    replays may run at once: an event is stored once, and each of them says what it found.

    Raises:
        Unavailable: if the database fails; replaying again is safe.
    """
    which = replace(which, replayed=False)
    replay = Replay()
    last, left = after, limit
    while left and (letters := _next(connection, which, last, left)):
        for replayed in _replay(connection, door, letters):
            replay.add(replayed)
        last, left = letters[-1].id, left - len(letters)
    replay.remaining = store.count_letters(connection, which, after=last)
    replay.next_after = last if replay.remaining else None
    if left < limit:
        detail = {"cloud": which.cloud} | dict(replay.results)
        audit.record(connection, actor, "rejected_events.replay", which.reason or "every reason", detail)
    return replay


def _next(connection: Connection, which: LetterFilter, after: int, left: int) -> list[KeptLetter]:
    limit = min(EVENTS_PER_TRANSACTION, left)
    return store.letters_to_replay(connection, which, after=after, limit=limit, max_bytes=MAX_CHUNK_BYTES)


def _replay(connection: Connection, door: Ingest, letters: Sequence[KeptLetter]) -> list[Replayed]:
    """Replay letters that fit one transaction.

    No letter is locked while its event is taken in: ingestion locks letters last, and would wait in a circle.
    """
    inputs = [_read(kept.letter) for kept in letters]
    filings = [
        filing
        for kept, item in zip(letters, inputs, strict=True)
        if item is not None and (filing := _filing(kept.id, item)).key != kept.letter.key
    ]
    merged = {filing.id for filing in filings} - _file(connection, filings)
    outcomes = iter(door.ingest_events([item for item in inputs if item is not None]))
    replayed = [
        Replayed("ignored", kept.letter.event_id) if item is None else _told(next(outcomes))
        for kept, item in zip(letters, inputs, strict=True)
    ]
    done = [
        kept.id
        for kept, each in zip(letters, replayed, strict=True)
        if each.result != "rejected" or kept.id in merged  # the letter that has its key tells of it from now on
    ]
    store.mark_replayed(connection, done)
    return replayed


def _read(letter: DeadLetter) -> Event | InvalidInputEvent | None:
    try:
        event = read_input(letter.format, letter.raw, letter.cloud)
        _check_cloud(event, letter)
    except InvalidEvent as error:
        claims = (letter.cloud, letter.event_id, letter.platform, letter.resource_type)
        return InvalidInputEvent(letter.raw, error.reason, error.detail, *claims, format=letter.format)
    return event


def _check_cloud(event: Event | None, letter: DeadLetter) -> None:
    """A sender that is bound to one cloud could not have sent an event of another, and no replay does it for it."""
    if event is not None and letter.cloud and event.cloud != letter.cloud:
        raise InvalidEvent("forbidden", f"it came for {letter.cloud!r} and names {event.cloud!r}")


def _filing(letter_id: int, item: Event | InvalidInputEvent) -> Filing:
    """Tell under what ingestion would keep this input if it rejected it."""
    content = content_hash(item) if isinstance(item, Event) else hashlib.sha256(item.raw).digest()
    key: Key = (item.cloud, item.event_id, content)
    return Filing(letter_id, key, item.platform, item.resource_type)


def _file(connection: Connection, filings: Sequence[Filing]) -> set[int]:
    for _ in range(_ATTEMPTS):
        try:
            return store.file_under(connection, filings)
        except (UniqueViolation, DeadlockDetected):
            continue  # another session files the same now, and is seen the next time
    raise Unavailable("other sessions replay the same dead letters; try again when they are done")


def _told(outcome: Outcome) -> Replayed:
    return Replayed(outcome.status, outcome.event_id, outcome.reason, outcome.detail, outcome.event)
