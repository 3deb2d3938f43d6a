"""The one error tree. Every error is one clear line that says what happened, to what, and what to do.

TallyError
├── InvalidEvent        an event that cannot be taken: it becomes a dead letter
├── InvalidInput        an argument, file or setting that makes no sense
├── NotFound            what was named does not exist
├── Refused             the rules forbid it now; ``reasons`` lists why
│   └── Blocked         what a run has found forbids it, unless it is waived
└── Unavailable         a server or program that is needed does not answer
"""

from collections.abc import Sequence


class TallyError(Exception):
    """Base of all errors that Tally raises on purpose; its text is meant for a person."""


def cause(error: Exception) -> str:
    """What the system says of an error, without its number and the path, which whoever tells of it has named."""
    return getattr(error, "strerror", None) or str(error)


class InvalidEvent(TallyError):
    """An event that cannot be taken. ``reason`` is a stable word for metrics and replay, ``detail`` one line."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class InvalidInput(TallyError):
    """An argument, a file or a setting that makes no sense, with what is wrong and what is expected."""


class NotFound(TallyError):
    """What was named does not exist."""


class Refused(TallyError):
    """The rules forbid it now. ``reasons`` says why, one line each, all of them together."""

    def __init__(self, what: str, reasons: Sequence[str]) -> None:
        super().__init__(f"{what}: " + "; ".join(reasons))
        self.reasons = tuple(reasons)


class Blocked(Refused):
    """What a run has found stands in the way, unless it is mended or waived. The findings stay readable."""


class Unavailable(TallyError):
    """A server or program that is needed does not answer."""
