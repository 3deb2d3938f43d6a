"""What goes to a target, and when it is tried again."""

from datetime import timedelta

import pytest

from tally.domain.delivery import parcel, wait_after
from tests.unit.domain.test_billing_document import document


def test_a_parcel_is_the_same_each_time_and_each_target_has_a_key_of_its_own() -> None:
    """The name is that of the document; the key is of (run, document, target)."""
    erp, again, archive = parcel(document(), "erp"), parcel(document(), "erp"), parcel(document(), "archive")
    assert erp == again
    assert erp.name == archive.name == "2026-03/2026-03-WH5NHBCSDRHVWBXS.json"
    assert (erp.idempotency_key, archive.idempotency_key) == (
        "2026-03-WH5NHBCSDRHVWBXS:erp", "2026-03-WH5NHBCSDRHVWBXS:archive",
    )


@pytest.mark.parametrize(
    ("attempts", "minutes"), [(1, 1), (2, 2), (3, 4), (9, 256), (10, 360), (11, 360), (1_000_000, 360)]
)
def test_each_attempt_waits_twice_as_long_but_never_more_than_six_hours(attempts: int, minutes: int) -> None:
    assert wait_after(attempts) == timedelta(minutes=minutes)
