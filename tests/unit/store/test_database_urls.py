"""A URL that cannot be read is told without what it holds."""

import pytest

from tally.domain.errors import InvalidInput
from tally.store.database import connect, describe


@pytest.mark.parametrize(
    "url", ["postgrsql://u:hunter2@h/db", "postgresql://u:hunter2%zz@h/db", "postgresql://h/db?hunter2=1"]
)
def test_an_unreadable_url_keeps_its_password(url: str) -> None:
    """The message of libpq quotes the URL."""
    with pytest.raises(InvalidInput) as caught:
        connect(url)
    assert "hunter2" not in str(caught.value) + describe(url)
