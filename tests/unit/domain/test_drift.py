"""What is concluded from one listed resource: ids and limits. The instants are tested where their effect is seen."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tally.domain.drift import Change, Listing, judge, too_many
from tally.domain.inventory import Listed, Unknown, fault
from tally.domain.timeline import Projection

START = datetime(2026, 3, 20, 10, 10, tzinfo=UTC)
LISTING = Listing(START, START + timedelta(minutes=5))
DISK = Listed("v-1", "p-1", "available", {"size_gb": 10})
BEFORE = START - timedelta(days=1)
KNOWN = Projection(
    project_id="p-1",
    last_event_id="e-1",
    last_event_type="volume.create.end",
    last_event_at=BEFORE,
    last_state="available",
    size={"size_gb": 9},
    created_at=BEFORE,
)
RESOURCE = ("c", "volume", "v-1")


def change(listed: Listed = DISK, known: Projection = KNOWN, listing: Listing = LISTING) -> Change:
    """The one change that is concluded."""
    (only,) = judge(listed, known, listing).changes
    return only


def test_the_same_observation_has_the_same_id_at_another_instant() -> None:
    """Rule 9: neither the listing's instant nor the platform's is part of it; 10 is 10.0."""
    later = Listing(START + timedelta(minutes=10), START + timedelta(minutes=15))
    same = replace(DISK, size={"size_gb": Decimal("10.0")}, updated_at=START - timedelta(hours=1))
    assert change(same, listing=later).event_id(RESOURCE) == change().event_id(RESOURCE)
    assert change(same, listing=later).timestamp != change().timestamp


@pytest.mark.parametrize(
    "other",
    [
        change(replace(DISK, project_id="p-2")),
        change(replace(DISK, state="in-use")),
        change(replace(DISK, size={"size_gb": 11})),
        change(replace(DISK, deleted_at=START)),
        change(known=replace(KNOWN, last_event_id="e-2")),
    ],
)
def test_another_observation_has_another_id(other: Change) -> None:
    """Rule 9: the state that was observed, and the last event of the resource."""
    assert other.event_id(RESOURCE) != change().event_id(RESOURCE)


def test_another_resource_has_another_id() -> None:
    """Ids are unique in a cloud, whatever the type."""
    ids = {change().event_id(resource) for resource in (RESOURCE, ("c", "image", "v-1"), ("c", "volume", "v-2"))}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("closing", "open_before", "percent", "verdict"),
    [
        (10, 10, 0, "few"),
        (11, 11, 0, "too many"),
        (11, 110, 10, "few"),
        (11, 109, 10, "too many"),
        (500, 500, 100, "few"),
    ],
)
def test_too_many_is_more_than_ten_and_more_than_the_share(
    closing: int, open_before: int, percent: int, verdict: str
) -> None:
    """Exactly the share is not more."""
    assert too_many(closing, open_before, percent) == (verdict == "too many")


@pytest.mark.parametrize(
    "answer",
    [
        Listed(""),
        Listed(7),  # type: ignore[arg-type]
        Listed("é" * 257),
        Listed("v\x00"),
        Listed("v", project_id="\ud800"),
        Listed("v", state="a" * 513),
        Listed("v", size={"size_gb": 0.5}),
        Listed("v", size=[1]),  # type: ignore[arg-type]
        Listed("v", created_at=datetime(2026, 3, 1)),  # noqa: DTZ001
        Listed("v", deleted_at="2026-03-01"),  # type: ignore[arg-type]
        Unknown(""),
    ],
)
def test_what_cannot_be_kept_is_said_in_one_line(answer: Any) -> None:
    """A resource that cannot be told from others makes a listing incomplete."""
    assert fault(answer).startswith("resource ")
    assert "\n" not in fault(answer)


@pytest.mark.parametrize("answer", [DISK, Listed("v"), Listed("v", "", "", {}), Unknown("v")])
def test_what_a_platform_does_not_tell_is_no_fault(answer: Listed | Unknown) -> None:
    """None and empty texts say nothing."""
    assert fault(answer) == ""
