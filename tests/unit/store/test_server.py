"""What speaks against a server: what a test cannot make of the one it has."""

import pytest

from tally.store.database import RELIED_ON
from tally.store.server import faults

FIT = RELIED_ON | {
    "server_version_num": "150020",
    "server_encoding": "UTF8",
    "in_hot_standby": "off",
    "transaction_read_only": "off",
    "session_replication_role": "origin",
    "transaction_timeout": "",
}


def test_nothing_speaks_against_the_oldest_release_that_will_do() -> None:
    assert list(faults(FIT)) == []


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({"server_version_num": "140013"}, "it is of PostgreSQL 14; 15 is the oldest that will do"),
        (
            {"in_hot_standby": "on", "transaction_read_only": "on"},
            "it is a standby, which takes no writes; name the primary",
        ),
    ],
)
def test_a_server_that_will_not_do_is_told_with_what_will(facts: dict[str, str], fault: str) -> None:
    assert list(faults(FIT | facts)) == [fault]
