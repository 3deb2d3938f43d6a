"""The file of counter sources: read, checked, or refused with all its faults.

Each key of the file names a source; docs/reference/counters.md says what it holds. Fetching does not belong here.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import yaml

from pricing.yaml_nodes import Faults, Members, Reader, compose
from tally.domain.counter import CounterSource, parse_unit
from tally.domain.errors import InvalidInput
from tally.services.known_types import Registry
from tally.settings import text_of

_REQUIRED = ("platform", "resource_type", "metric", "selector", "clouds", "labels", "unit")
_OPTIONAL = ("replicas", "states", "max_gap_seconds")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)
_MAX_TEXT_BYTES = 2000
_MAX_GAP_SECONDS = 40 * 86_400  # a sample a month is the least that can be metered


def read_counter_sources(path: Path) -> tuple[CounterSource, ...]:
    """Read the file that TALLY_COUNTER_SOURCES names.

    Raises:
        InvalidInput: if it cannot be read, or with the lines of everything that is wrong with it.
    """
    return parse_counter_sources(text_of("TALLY_COUNTER_SOURCES", path), str(path))


def parse_counter_sources(text: str, name: str) -> tuple[CounterSource, ...]:
    """Read the text of a file of sources; ``name`` says in errors which one it is.

    Raises:
        InvalidInput: with the lines of everything that is wrong with it.
    """
    root = compose(text, name)
    faults = Faults(name)
    reader = _SourceReader(faults)
    sources = [reader.source(key, node) for key, node in reader.entries(root, "the file of counter sources")]
    faults.raise_all()
    return tuple(source for source in sources if source is not None)


def check_against_registry(sources: Sequence[CounterSource], registry: Registry) -> None:
    """Refuse sources of metrics that the registry does not know as counters: a size could hold the same name.

    Raises:
        InvalidInput: naming all of them.
    """
    faults = []
    for source in sources:
        subject = f"{source.platform}.{source.resource_type}"
        known = registry.get((source.platform, source.resource_type))
        if known is None:
            faults.append(f"{source.name}: {subject} is no resource type of the registry")
        elif source.metric not in known.counters:
            counters = ", ".join(sorted(known.counters)) or "none"
            faults.append(f"{source.name}: {source.metric} is no counter of {subject}; it has {counters}")
    if faults:
        raise InvalidInput("counter sources: " + "; ".join(faults))


class _SourceReader(Reader):
    def source(self, name: str, node: yaml.Node) -> CounterSource | None:
        keys = self.fields(node, name, _REQUIRED, _OPTIONAL)
        texts = {key: self._short(keys, key, name) for key in ("platform", "resource_type", "metric", "selector")}
        clouds = self._texts(keys, "clouds", name)
        labels = self._labels(keys, name)
        unit = self._unit(keys, name)
        replicas = self._texts(keys, "replicas", name)
        states = self._texts(keys, "states", name)
        max_gap = self._max_gap(keys, name)
        if "cloud" not in labels and len(clouds) > 1:
            self.faults.add(node, f"{name} has several clouds and no labels/cloud that tells them apart")
        for label in [replica for replica in replicas if replica in labels.values()]:
            self.faults.add(node, f"{name}: the label {label} tells replicas apart, so it names no resource or cloud")
        if self.faults or unit is None:
            return None
        return CounterSource(
            name=name,
            platform=texts["platform"],
            resource_type=texts["resource_type"],
            metric=texts["metric"],
            selector=texts["selector"],
            clouds=clouds,
            resource_label=labels["resource_id"],
            unit=unit,
            cloud_label=labels.get("cloud"),
            replica_labels=replicas,
            states=tuple(state.lower() for state in states) or None,
            max_gap=max_gap,
        )

    def _short(self, keys: Members, key: str, name: str) -> str:
        text = self.text(keys[key], f"{name}: {key}") if key in keys else None
        if text is not None and len(text.encode()) > _MAX_TEXT_BYTES:
            self.faults.add(keys[key], f"{name}: {key} has more than {_MAX_TEXT_BYTES} bytes")
        return text or ""

    def _texts(self, keys: Members, key: str, name: str) -> tuple[str, ...]:
        if key not in keys:
            return ()
        texts = [self.text(item, f"an item of {name}: {key}") for item in self.items(keys[key], f"{name}: {key}")]
        known = [text for text in texts if text is not None]
        for text in sorted({text for text in known if known.count(text) > 1}):
            self.faults.add(keys[key], f"{name}: {key} has {text!r} twice")
        return tuple(known)

    def _labels(self, keys: Members, name: str) -> Mapping[str, str]:
        if "labels" not in keys:
            return {}
        found = self.fields(keys["labels"], f"{name}: labels", ("resource_id",), ("cloud",))
        texts = {key: self.text(node, f"{name}: labels/{key}") for key, node in found.items()}
        for key, text in texts.items():
            if text is not None and not _LABEL.fullmatch(text):
                self.faults.add(found[key], f"{name}: labels/{key} is {text[:40]!r}, which is no name of a label")
        return {key: text for key, text in texts.items() if text is not None}

    def _unit(self, keys: Members, name: str) -> Decimal | None:
        if "unit" not in keys:
            return None
        text = self.text(keys["unit"], f"{name}: unit")
        try:
            return parse_unit(text) if text is not None else None
        except InvalidInput as error:
            self.faults.add(keys["unit"], f"{name}: unit: {error}")
            return None

    def _max_gap(self, keys: Members, name: str) -> timedelta | None:
        if "max_gap_seconds" not in keys:
            return None
        text = self.text(keys["max_gap_seconds"], f"{name}: max_gap_seconds") or ""
        seconds = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_GAP_SECONDS)) else 0
        if not 0 < seconds <= _MAX_GAP_SECONDS:
            what = f"{name}: max_gap_seconds is no whole number from 1 to {_MAX_GAP_SECONDS}"
            self.faults.add(keys["max_gap_seconds"], what)
            return None
        return timedelta(seconds=seconds)
