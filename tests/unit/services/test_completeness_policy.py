"""The policy file is read exactly, or refused with all its faults."""

from datetime import timedelta
from pathlib import Path

import pytest

from tally.domain.completeness import KINDS, Rule, Spans
from tally.domain.errors import InvalidInput
from tally.services.completeness_policy import SHIPPED, parse_policy, read_policy, shipped_policy

TEXT = SHIPPED.read_text(encoding="utf-8")


def faults(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_policy(text, "policy.yaml")
    return str(caught.value)


def test_the_shipped_policy_decides_about_every_kind() -> None:
    """And it is what holds where no other is named."""
    assert set(shipped_policy().rules) == set(KINDS)
    assert read_policy() is shipped_policy()


def test_a_policy_says_otherwise_for_kinds_platforms_and_clouds(tmp_path: Path) -> None:
    """Numbers, actions and spans are as they are written."""
    path = tmp_path / "policy.yaml"
    path.write_text(
        TEXT.replace("anomaly: block", "anomaly: {action: block, above: 5}").replace("cycle: warn", "cycle: ignore")
        + "  platforms: {harbor: {events: 744}}\n  clouds: {os-dr: {events: 100, sync: 48}}\n",
        encoding="utf-8",
    )
    policy = read_policy(path)
    assert (policy.rules["anomaly"], policy.rules["cycle"]) == (Rule("block", 5), Rule("ignore"))
    assert policy.platforms == {"harbor": Spans(events=timedelta(hours=744))}
    assert policy.clouds == {"os-dr": Spans(timedelta(hours=100), timedelta(hours=48))}
    assert (policy.events, policy.sync) == (timedelta(hours=168), timedelta(hours=24))


def test_all_faults_are_told_together() -> None:
    """Unknown and missing kinds, actions that are none, numbers that are none: each with its line."""
    told = faults(
        TEXT.replace("  anomaly: block", "  anomalies: block")
        .replace("unpriced: block", "unpriced: never")
        .replace("open_left: block", "open_left: {action: warn, above: 3}")
        .replace("cycle: warn", "cycle: {action: block, above: some}")
        .replace("sync: 24", "sync: 0")
        + "  clouds: {os-1: {event: 3}}\n"
    )
    for part in (
        "findings lacks anomaly",
        "findings has the unknown key 'anomalies'",
        "findings/unpriced is 'never'; write block, warn or ignore",
        "findings/open_left: only what blocks does so above a number",
        "findings/cycle/above is no whole number from 0",
        "stale/sync is no whole number from 1 to 8784",
        "stale/clouds/os-1 has the unknown key 'event'",
    ):
        assert told.count(part) == 1, part


@pytest.mark.parametrize("text", ["", "findings", "[]", "findings: {}\nstale: {}", "findings: {a: b"])
def test_what_is_no_policy_is_refused(text: str) -> None:
    """With its name."""
    assert faults(text).startswith("policy.yaml: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the setting that names it."""
    with pytest.raises(InvalidInput, match=r"TALLY_COMPLETENESS_POLICY: .*missing\.yaml cannot be read: No such file"):
        read_policy(tmp_path / "missing.yaml")
