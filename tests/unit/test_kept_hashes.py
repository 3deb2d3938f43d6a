"""Hashes that databases hold of what earlier versions took in: what is hashed, and how, stays as it was.

Whoever fails here has changed that. An event that is sent again would be taken for a conflict, a price file for another
version, a finalized run for one that was tampered with, and a database with another text of a migration for none of
Tally's. Let it be as it was: what is new is hashed only where there is any of it, as `price_changes` are. What runs
write is held to the same in tests/golden/test_example_month.py.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import pricing
from pricing.price_file import parse_price_version
from tally.domain.drift import Change
from tally.domain.event import content_hash, decode_event
from tally.domain.resource_type import definition_hash
from tally.services.registry import shipped_types
from tally.services.runs import hash_inputs
from tally.store.migrate import migrations

EVENT = """{"event_id": "e-1", "timestamp": "2026-03-05T10:00:00.000001+01:00", "source": "%s",
    "event_type": "compute.instance.create.end", "platform": "openstack", "cloud": "os-prod-eu1",
    "resource_type": "instance", "resource_id": "vol\\\\1 \\u00e9\\ud83d\\ude00", "project_id": "p-1",
    "payload": {"size": {"vcpus": 2.0, "ram_gb": 4.50, "flavor": "m1.\\"small"}, "usage": {},
    "tags": [1, null, true, 1e-7, 12345678901234567890.5]}}"""

INPUTS = {
    "period": "2026-03",
    "period_from": datetime(2026, 3, 1, tzinfo=UTC),
    "period_to": datetime(2026, 4, 1, tzinfo=UTC),
    "zone": "UTC",
    "metered_to": datetime(2026, 3, 9, 12, 0, 0, 1, tzinfo=UTC),
    "load_id": 7,
    "registry_version": 19,
    "code_version": "0.1.0",
    "pricing_version": "2026-03",
    "pricing_hash": "ab12",
}
LAST_MIGRATION = {"reporting": "0015_last_load", "metering": "0037_known_later"}
CHANGES = [{"version": "2026-03b", "hash": "cd34", "since": "2026-03-16T00:00:00Z"}]


def event(source: str) -> str:
    return content_hash(decode_event((EVENT % source).encode())).hex()


def observation() -> str:
    change = Change("reconcile.update", datetime(2026, 3, 5, tzinfo=UTC), "p-1", {"size": {"vcpus": 2}}, "e-1")
    return change.event_id(("os-prod-eu1", "instance", "i-1")).removeprefix("reconcile-")


def prices() -> str:
    file = Path(str(pricing.__file__)).with_name("models") / "2026-03.yaml"
    return parse_price_version(file.read_text(encoding="utf-8"), file.name).content_hash


def resource_type() -> str:
    return definition_hash(shipped_types()["harbor", "repository"].definition)


def inputs(**more: Any) -> str:
    return hash_inputs(INPUTS | more)


def migrated(database: str) -> str:
    """Of the migrations up to one, the text that each had first."""
    texts = [(each.name, (each.former_checksums or [each.checksum])[0]) for each in migrations(database)]
    return sha256(repr([text for text in texts if text[0] <= LAST_MIGRATION[database]]).encode()).hexdigest()


@pytest.mark.parametrize(
    ("kept", "hashed"),
    [
        ("0d96d0c50010cdbfe920cdc7288b7fcaef5e541d46b011b79859f76ecf8a9a39", lambda: event("collector")),
        ("b13617f5171afcf19601a6c1e9e6cae878ea4852ee85f8c22e2365c12439ed73", lambda: event("reconciliation")),
        ("5596cbaa4f2fba18ae6a34969dd80318c9a44c19eba13e62a36904912e215b7f", observation),
        ("8de5b708e774e4ee498130a2918695df33cb4c597ecf08d738f4a878f4def8b2", prices),
        ("20e7b9a5c4ccfbbd06e8f2adc4dd7285fdc03d18db3702726787b341c1fbfa9b", resource_type),
        ("7d8b16887e9c0307b5a66958a1f40db6c67f27989b5759e6bef41937efcd8c7b", inputs),
        ("26cb4dbf82e29407c45aee97f0f8ea02b43075b9752d9430e96ae85080103954", lambda: inputs(counters_hash=None)),
        (
            "f26e81feea1f4abafe90cf4e4436ae4f9a248284bf39d99aeabb70cd0c51d008",
            lambda: inputs(counters_hash="ef56", price_changes=CHANGES),
        ),
        ("5857fcf3aea0cd15b08055c13e91caa38a1545c783b1bf045355b8b1651a2d89", lambda: migrated("reporting")),
        ("82607fdfef7c7619a71a13581989d6c78512c435801d608c34bd54c9ba02eedf", lambda: migrated("metering")),
    ],
)
def test_what_is_kept_as_a_hash_has_the_same_hash_in_every_version(kept: str, hashed: Callable[[], str]) -> None:
    """Of events, observations of reconciliation, price files, resource types, what runs have read, and migrations."""
    assert hashed() == kept
