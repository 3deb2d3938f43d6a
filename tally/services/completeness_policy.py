"""The policy file: read, checked, or refused with all its faults. What a policy decides is tally.domain.completeness's.

docs/reference/findings.md says what it holds; completeness.yaml beside this module is what holds without another.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path

import yaml

from pricing.yaml_nodes import Faults, Members, Reader, compose
from tally.domain.completeness import ACTIONS, KINDS, Policy, Rule, Spans
from tally.settings import text_of

SHIPPED = Path(__file__).with_name("completeness.yaml")
MOST_HOURS = 8_784  # a year
MOST_FINDINGS = 10**9


def read_policy(path: Path | None = None) -> Policy:
    """Read the file that TALLY_COMPLETENESS_POLICY names, or the shipped one.

    Raises:
        InvalidInput: if it cannot be read, or with the lines of everything that is wrong with it.
    """
    if path is None:
        return shipped_policy()
    return parse_policy(text_of("TALLY_COMPLETENESS_POLICY", path), str(path))


@cache
def shipped_policy() -> Policy:
    """What holds where an installation names no policy of its own."""
    return parse_policy(SHIPPED.read_text(encoding="utf-8"), str(SHIPPED))


def parse_policy(text: str, name: str) -> Policy:
    """Read the text of a policy; ``name`` says in errors which one it is.

    Raises:
        InvalidInput: with the lines of everything that is wrong with it.
    """
    root = compose(text, name)
    faults = Faults(name)
    reader = _PolicyReader(faults)
    keys = reader.fields(root, "the policy", ("findings", "stale"))
    rules = reader.rules(keys)
    stale = reader.stale(keys)
    faults.raise_all()
    general = reader.spans(stale, "stale")
    assert general.events is not None, "its absence is a fault"
    assert general.sync is not None, "likewise"
    return Policy(
        rules,
        general.events,
        general.sync,
        reader.spans_by_name(stale, "platforms"),
        reader.spans_by_name(stale, "clouds"),
    )


class _PolicyReader(Reader):
    def rules(self, keys: Members) -> dict[str, Rule]:
        if "findings" not in keys:
            return {}
        members = self.fields(keys["findings"], "findings", KINDS)
        return {kind: self._rule(node, f"findings/{kind}") for kind, node in members.items()}

    def stale(self, keys: Members) -> Members:
        """Read the spans; whatever is wrong in them is noted once, here."""
        if "stale" not in keys:
            return {}
        found = self.fields(keys["stale"], "stale", ("events", "sync"), ("platforms", "clouds"))
        self.spans(found, "stale")
        for part in ("platforms", "clouds"):
            self.spans_by_name(found, part)
        return found

    def spans_by_name(self, found: Members, part: str) -> Mapping[str, Spans]:
        if part not in found:
            return {}
        return {
            name: self.spans(self.fields(node, f"stale/{part}/{name}", (), ("events", "sync")), f"stale/{part}/{name}")
            for name, node in self.entries(found[part], f"stale/{part}")
        }

    def spans(self, keys: Members, what: str) -> Spans:
        hours = {key: self._number(keys, key, what, MOST_HOURS, least=1) for key in ("events", "sync")}
        spans = {key: None if number is None else timedelta(hours=number) for key, number in hours.items()}
        return Spans(spans["events"], spans["sync"])

    def _rule(self, node: yaml.Node, what: str) -> Rule:
        if isinstance(node, yaml.MappingNode):
            keys = self.fields(node, what, ("action", "above"))
            above = self._number(keys, "above", what, MOST_FINDINGS)
            text = self._action(keys["action"], f"{what}/action") if "action" in keys else None
            if text not in {None, "block"}:
                self.faults.add(node, f"{what}: only what blocks does so above a number")
            return Rule("block", above or 0)
        action = self._action(node, what)
        return Rule(next((known for known in ACTIONS if known == action), "block"))

    def _action(self, node: yaml.Node, what: str) -> str | None:
        text = self.text(node, what)
        if text is not None and text not in ACTIONS:
            self.faults.add(node, f"{what} is {text[:40]!r}; write {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}")
        return text

    def _number(self, keys: Members, key: str, what: str, most: int, least: int = 0) -> int | None:
        if key not in keys:
            return None
        text = self.text(keys[key], f"{what}/{key}")
        if text is None:
            return None
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) else -1
        if not least <= number <= most:
            self.faults.add(keys[key], f"{what}/{key} is no whole number from {least} to {most}")
        return number
