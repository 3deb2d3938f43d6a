"""The optional keys of a dimension in a price file: tiers, what is free, times that are charged, the cap of a month.

What they mean is terms.py's business; the rest of the file, price_file.py's.
"""

import re
from decimal import Decimal

import yaml

from pricing.model import PRICE_KEYS, Formula
from pricing.terms import SECOND_US, Group, Terms, Tier, TierMode, Tiers, free, is_ordered
from pricing.yaml_nodes import Members, Reader

TIME_KEYS = ("minimum_duration", "billing_increment")
TERM_KEYS = ("tiers", "free_quantity", *TIME_KEYS, "monthly_cap")

MOST_TIERS = 50
_LENGTH = re.compile(r"([1-9]\d{0,6})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 31 * 86_400


class TermsReader:
    """Reads the terms of one dimension; ``where`` names it in faults."""

    def __init__(self, reader: Reader, where: str, formula: Formula) -> None:
        self._reader, self._where, self._formula = reader, where, formula
        self._price_key = PRICE_KEYS[formula]

    def read(self, keys: Members, price: Decimal | None) -> Terms | None:
        """Read what there is of them; None if there is nothing."""
        tiers = None
        if "tiers" in keys:
            tiers = self._tiers(keys)
        elif "free_quantity" in keys:
            tiers = self._free(keys["free_quantity"], price)
        times = {key: self._length(keys[key], key) for key in TIME_KEYS if key in keys}
        cap = self._reader.amount(keys["monthly_cap"], self._of("monthly_cap")) if "monthly_cap" in keys else None
        terms = Terms(tiers, times.get("minimum_duration"), times.get("billing_increment"), cap)
        return None if terms == Terms() else terms

    def _tiers(self, keys: Members) -> Tiers | None:
        for other in ("free_quantity", self._price_key):
            if other in keys:
                self._reader.faults.add(keys[other], f"{self._where} has {other} beside tiers; write it as a tier")
        fields = self._reader.fields(keys["tiers"], self._of("tiers"), ("mode", "per", "steps"))
        mode = self._choice(fields, "mode", TierMode)
        per = self._choice(fields, "per", Group)
        if "steps" not in fields:
            return None
        nodes = self._reader.items(fields["steps"], self._of("steps"))
        if len(nodes) > MOST_TIERS:
            self._reader.faults.add(fields["steps"], f"{self._where} has {len(nodes)} tiers; at most {MOST_TIERS}")
            return None
        read = [self._tier(node) for node in nodes]
        steps = tuple(tier for tier in read if tier is not None)
        if mode is None or per is None or not steps or len(steps) < len(nodes):
            return None
        if not is_ordered(steps):
            text = f"up_to of {self._of('tiers')} rises from step to step, from above 0, and the last step has none"
            self._reader.faults.add(fields["steps"], text)
            return None
        return Tiers(TierMode(mode), Group(per), steps)

    def _tier(self, node: yaml.Node) -> Tier | None:
        fields = self._reader.fields(node, f"a step of {self._where}", (self._price_key,), ("up_to",))
        amounts = {key: self._reader.amount(value, self._of(key)) for key, value in fields.items()}
        price = amounts.get(self._price_key)
        if price is None or ("up_to" in fields and amounts["up_to"] is None):
            return None
        return Tier(amounts.get("up_to"), price)

    def _free(self, node: yaml.Node, price: Decimal | None) -> Tiers | None:
        fields = self._reader.fields(node, self._of("free_quantity"), ("quantity", "per"))
        per = self._choice(fields, "per", Group)
        quantity = self._reader.amount(fields["quantity"], self._of("quantity")) if "quantity" in fields else None
        if quantity == 0:
            self._reader.faults.add(node, f"free_quantity of {self._where} is 0; leave it out")
        return free(quantity, Group(per), price) if quantity and per and price is not None else None

    def _choice(self, fields: Members, key: str, of: type[TierMode] | type[Group]) -> str | None:
        text = self._reader.text(fields[key], self._of(key)) if key in fields else None
        if text is None or text in list(of):
            return text
        self._reader.faults.add(fields[key], f"{self._of(key)} is {text[:40]!r}; known are {', '.join(of)}")
        return None

    def _length(self, node: yaml.Node, key: str) -> int | None:
        """Read 90s, 10m, 1h or 1d as microseconds."""
        if self._formula is not Formula.TIME_GAUGE:
            self._reader.faults.add(node, f"{self._of(key)} is for a time_gauge: a {self._formula} has no time")
            return None
        text = self._reader.text(node, self._of(key))
        match = _LENGTH.fullmatch(text) if text else None
        seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
        if text and not 0 < seconds <= _LONGEST_S:
            fault = f"{self._of(key)} is {text[:40]!r}; write a time up to 31d such as 60s, 10m, 1h or 1d"
            self._reader.faults.add(node, fault)
        return seconds * SECOND_US if 0 < seconds <= _LONGEST_S else None

    def _of(self, key: str) -> str:
        return f"{key} of {self._where}"
