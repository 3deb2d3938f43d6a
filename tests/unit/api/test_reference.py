"""docs/reference/api.md is held to the code: types of problems, limits, checks of health."""

import re

from tally.api.health import DATABASE, INGESTION, RECONCILIATION
from tally.api.load import LARGEST_BODIES, REQUESTS_PER_CONNECTION
from tally.api.protocol import HEAD_BYTES, REQUEST_SECONDS, STALLED_SECONDS
from tally.api.workers import SHUTDOWN_SECONDS
from tally.domain.event import MAX_DEPTH, MAX_EVENT_BYTES, MAX_TEXT_BYTES
from tally.settings import SETTINGS
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/reference/api.md").read_text(encoding="utf-8")
_PROBLEM = re.compile(r"^\| `([a-z-]+)` \| (\d{3}) \|", re.MULTILINE)
_RAISED = re.compile(r"Problem\(\s*(\d{3}), \"([a-z-]+)\"")
_MAPPED = re.compile(r"(\d{3}): \"([a-z]+(?:-[a-z]+)*)\"")


def test_every_type_of_problem_is_listed_with_its_status() -> None:
    """What the code can raise, nothing more."""
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "tally/api").rglob("*.py")]
    raised = {(slug, status) for text in sources for status, slug in [*_RAISED.findall(text), *_MAPPED.findall(text)]}
    assert set(_PROBLEM.findall(PAGE)) == raised


def test_limits_are_those_of_the_code() -> None:
    """As numbers that a person reads."""
    defaults = {setting.name: int(setting.default) for setting in SETTINGS if setting.default.isdecimal()}
    limits = dict(re.findall(r"^\| ([A-Z][\w ,]+) \| ([^|]+) \|$", PAGE.partition("| Limit |")[2], re.MULTILINE))
    assert f"{defaults['TALLY_API_MAX_BODY_BYTES'] // 2**20} MiB" in limits["Length of a body"]
    assert f"{defaults['TALLY_API_MAX_BATCH_EVENTS']:,};" in limits["Events in a batch"]
    assert limits["Length of the address and the headers together"] == f"{HEAD_BYTES // 1024} KiB"
    assert limits["Time for a request to come whole"] == f"{REQUEST_SECONDS} seconds"
    assert f"within {STALLED_SECONDS} seconds" in PAGE
    assert limits["Length of one event"] == f"{MAX_EVENT_BYTES // 1024} KiB"
    assert limits["Depth of an event"] == str(MAX_DEPTH)
    assert limits["Names and ids"] == f"1 to {MAX_TEXT_BYTES} bytes"
    assert limits["Requests in flight, in each process"].startswith(f"{REQUESTS_PER_CONNECTION} for each")
    assert limits["Bodies in flight, in each process"].startswith(f"{LARGEST_BODIES} times")
    assert f"for {SHUTDOWN_SECONDS} seconds" in PAGE


def test_the_checks_of_health_are_listed() -> None:
    """By the names that the answers give them."""
    section = PAGE.partition("## Health")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z ]+)` \|", section, re.MULTILINE) == [DATABASE, INGESTION, RECONCILIATION]
