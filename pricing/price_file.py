"""The YAML file of a price version: read, checked and turned into a PriceVersion, or refused with all its faults.

A file has the keys version, valid_from, valid_to and mid_period (optional), currency, pricing (platform -> resource
type -> dimensions, state_modifiers, type_modifiers) and unpriced (platform -> resource type -> list of metrics, or
["*"]).
The optional keys of a dimension are terms_file.py's business; what the registry lets a file name, lint.py's.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

import yaml

from pricing.model import (
    EVERYTHING,
    PRICE_KEYS,
    Formula,
    MidPeriod,
    Modifier,
    ModifierKind,
    Price,
    PriceVersion,
    Unpriced,
)
from pricing.money import check_currency
from pricing.terms_file import TERM_KEYS, TermsReader
from pricing.yaml_nodes import Faults, Members, Reader, compose
from tally.domain.errors import InvalidInput
from tally.domain.period import YEARS
from tally.domain.resource_type import RESERVED_METRICS

_DAY = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2]))(?:-(\d\d)([T ]00:00:00(Z|\+00:00))?)?", re.ASCII)
_MODIFIER_TABLES: dict[str, ModifierKind] = {"state_modifiers": "state", "type_modifiers": "type"}
_DIMENSION_KEYS = ("metric", "type")


def parse_price_version(text: str, name: str, *, kept: bool = False) -> PriceVersion:
    """Read a version file; ``name`` says in errors which one it is.

    ``kept``: it is loaded. An earlier version of Tally may have taken what is refused by now; months go by it.

    Raises:
        FaultyDocument: with the lines of everything that is wrong with it.
    """
    root = compose(text, name)
    faults = Faults(name)
    version = _PriceFile(Reader(faults, kept=kept)).read(root)
    faults.raise_all()
    if version is None:
        raise InvalidInput(f"{name}: it is not a price version")
    return version


class _PriceFile:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, root: yaml.Node) -> PriceVersion | None:
        reader = self._reader
        keys = reader.fields(
            root,
            "the version",
            ("version", "valid_from", "currency", "pricing"),
            ("valid_to", "mid_period", "unpriced"),
        )
        version = reader.text(keys["version"], "version") if "version" in keys else None
        mid_period = self._mid_period(keys)
        valid_from = self._day(keys, "valid_from", mid_period)
        valid_to = self._day(keys, "valid_to", mid_period)
        if valid_from and valid_to and valid_to <= valid_from:
            reader.faults.add(keys["valid_to"], "valid_to is not after valid_from")
        currency = reader.parsed(keys["currency"], "currency", check_currency) if "currency" in keys else None
        prices, modifiers = self._pricing(keys)
        unpriced = tuple(self._unpriced(keys))
        self._check_contradictions(keys, prices, unpriced)
        if reader.faults or version is None or valid_from is None or currency is None:
            return None
        return PriceVersion(
            version,
            valid_from,
            valid_to,
            currency,
            # The order of dimensions stays as it is written: bills show it. Every other order is formatting.
            tuple(sorted(prices, key=lambda price: (price.platform, price.resource_type))),
            tuple(sorted(modifiers, key=lambda m: (m.platform, m.resource_type, m.kind, m.value))),
            tuple(sorted(unpriced, key=lambda free: (free.platform, free.resource_type, free.metric))),
            mid_period or MidPeriod.PERIOD_START,
        )

    def _mid_period(self, keys: Members) -> MidPeriod | None:
        if "mid_period" not in keys:
            return None
        text = self._reader.text(keys["mid_period"], "mid_period")
        if text is None or text in list(MidPeriod):
            return MidPeriod(text) if text else None
        self._reader.faults.add(keys["mid_period"], f"mid_period is {text[:40]!r}; known are {', '.join(MidPeriod)}")
        return None

    def _day(self, keys: Members, key: str, mid_period: MidPeriod | None) -> date | None:
        """Read the first day of a month: 2026-03, 2026-03-01 or 2026-03-01T00:00:00Z; another day with mid_period.

        A month is rated by the prices of its first day, unless it is split: a day within it is the first of the next.
        """
        if key not in keys:
            return None
        text = self._reader.text(keys[key], key)
        if text is None:
            return None
        day = _parsed_day(text)
        if day is None or (day.day > 1 and "mid_period" not in keys):
            hint = "" if day is None else ", or say with mid_period what becomes of that month"
            self._reader.faults.add(keys[key], f"{key} is {text[:40]!r}; write the first of a month: 2026-03-01{hint}")
            return None
        if day.day > 1 and mid_period is MidPeriod.PERIOD_START:
            return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
        return day

    def _pricing(self, keys: Members) -> tuple[tuple[Price, ...], tuple[Modifier, ...]]:
        prices: list[Price] = []
        modifiers: list[Modifier] = []
        for platform, resource_type, node in self._resource_types(keys, "pricing"):
            where = f"{platform}.{resource_type}"
            parts = self._reader.fields(node, where, ("dimensions",), tuple(_MODIFIER_TABLES))
            if "dimensions" in parts:
                prices += self._dimensions(parts["dimensions"], platform, resource_type)
            for key, kind in _MODIFIER_TABLES.items():
                if key in parts:
                    modifiers += self._modifiers(parts[key], platform, resource_type, kind)
        return tuple(prices), tuple(modifiers)

    def _resource_types(self, keys: Members, key: str) -> Iterator[tuple[str, str, yaml.Node]]:
        if key not in keys:
            return
        for platform, resource_types in self._reader.members(keys[key], key).items():
            for resource_type, node in self._reader.entries(resource_types, f"{key}.{platform}"):
                yield platform, resource_type, node

    def _dimensions(self, node: yaml.Node, platform: str, resource_type: str) -> Iterator[Price]:
        where = f"{platform}.{resource_type}"
        seen = set()
        for item in self._reader.items(node, f"dimensions of {where}"):
            price = self._dimension(item, platform, resource_type)
            if price is None:
                continue
            if price.metric in seen:
                self._reader.faults.add(item, f"{where} prices {price.metric!r} twice")
            seen.add(price.metric)
            yield price

    def _dimension(self, node: yaml.Node, platform: str, resource_type: str) -> Price | None:
        reader, where = self._reader, f"a dimension of {platform}.{resource_type}"
        members = reader.members(node, where)
        metric = reader.text(members["metric"], "metric") if "metric" in members else None
        where = f"{platform}.{resource_type}.{metric}" if metric else where
        formula = self._formula(members, where)
        if formula is None:
            reader.fields(node, where, _DIMENSION_KEYS, (*PRICE_KEYS.values(), *TERM_KEYS))
            return None
        key = PRICE_KEYS[formula]
        required = _DIMENSION_KEYS if "tiers" in members else (*_DIMENSION_KEYS, key)
        known = reader.fields(node, where, required, (key, *TERM_KEYS))
        price = reader.amount(known[key], f"{key} of {where}") if key in known else None
        terms = TermsReader(reader, where, formula).read(known, price)
        if terms and terms.tiers:
            price = terms.tiers.steps[-1].price
        if metric is None or price is None:
            return None
        if metric == "minutes" or (metric in RESERVED_METRICS and formula is Formula.COUNTER):
            reader.faults.add(node, f"{where} cannot be a {formula}; to price existence, make count a time_gauge")
        return Price(platform, resource_type, metric, formula, price, terms)

    def _formula(self, members: Members, where: str) -> Formula | None:
        if "type" not in members:
            return None
        text = self._reader.text(members["type"], f"type of {where}")
        if text is None or text in list(Formula):
            return Formula(text) if text else None
        self._reader.faults.add(members["type"], f"type of {where} is {text[:40]!r}; known are {', '.join(Formula)}")
        return None

    def _modifiers(
        self, node: yaml.Node, platform: str, resource_type: str, kind: ModifierKind
    ) -> Iterator[Modifier]:
        where = f"{kind}_modifiers of {platform}.{resource_type}"
        folded: dict[str, str] = {}
        for value, number in self._reader.entries(node, where):
            twin = folded.setdefault(value.casefold(), value)
            if twin != value:
                # Either spelling would silently cost full price where the other is meant.
                self._reader.faults.add(number, f"{where}: {value!r} and {twin!r} differ in case only")
            modifier = self._reader.amount(number, f"{value!r} in {where}")
            if modifier is not None:
                yield Modifier(platform, resource_type, kind, value, modifier)

    def _unpriced(self, keys: Members) -> Iterator[Unpriced]:
        for platform, resource_type, node in self._resource_types(keys, "unpriced"):
            where = f"unpriced.{platform}.{resource_type}"
            seen = set()
            for item in self._reader.items(node, where):
                metric = self._reader.text(item, where)
                if metric is None:
                    continue
                if metric in seen:
                    self._reader.faults.add(item, f"{where} lists {metric!r} twice")
                seen.add(metric)
                yield Unpriced(platform, resource_type, metric)

    def _check_contradictions(self, keys: Members, prices: tuple[Price, ...], unpriced: tuple[Unpriced, ...]) -> None:
        priced = {(price.platform, price.resource_type, price.metric) for price in prices}
        types = {(price.platform, price.resource_type) for price in prices}
        for free in unpriced:
            where = f"{free.platform}.{free.resource_type}"
            if free.metric == EVERYTHING and (free.platform, free.resource_type) in types:
                self._reader.faults.add(keys["unpriced"], f"{where} is priced, so it cannot be unpriced as a whole")
            if (free.platform, free.resource_type, free.metric) in priced:
                self._reader.faults.add(keys["unpriced"], f"{where}.{free.metric} is both priced and unpriced")


def _parsed_day(text: str) -> date | None:
    match = _DAY.fullmatch(text)
    if match is None or int(match[1][:4]) not in YEARS:
        return None
    try:
        return date.fromisoformat(f"{match[1]}-{match[2] or '01'}")
    except ValueError:
        return None
