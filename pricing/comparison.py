"""Two price versions side by side: what the later one adds, removes and changes.

Versions are compared by their content, key by key, so that every key that a file may have is compared without being
named here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from pricing.model import PriceVersion
from pricing.money import exact_product, round_ratio

PERCENT_DECIMALS = 2
_ORDER = "order of dimensions"

Kind = Literal["added", "removed", "changed"]
Value = Decimal | str


@dataclass(frozen=True, slots=True)
class PriceChange:
    """One difference. ``where`` is a key such as openstack.instance.vcpus.price_per_unit_hour.

    ``difference`` is what is added to or taken from a number; None of texts, of what only one side has, and of numbers
    in two currencies. ``percent`` is that of the former number, to 2 decimals; None also where the former is zero.
    """

    kind: Kind
    where: str
    before: Value | None
    after: Value | None
    difference: Decimal | None
    percent: Decimal | None


def compare(before: PriceVersion, after: PriceVersion) -> list[PriceChange]:
    """List what differs, by the keys of the former version in their order; the names of the versions do not count."""
    old, new = _entries(before), _entries(after)
    comparable = before.currency == after.currency
    return [
        _change(".".join(key), old.get(key), new.get(key), comparable=comparable)
        for key in [*old, *(key for key in new if key not in old)]
        if old.get(key) != new.get(key) and not _order_of_others(key, old.get(key), new.get(key))
    ]


def _order_of_others(key: tuple[str, ...], before: Value | None, after: Value | None) -> bool:
    """Whether an order differs only because a metric is added or removed, which is said already."""
    return key[-1] == _ORDER and sorted(str(before).split(", ")) != sorted(str(after).split(", "))


def _change(where: str, before: Value | None, after: Value | None, *, comparable: bool) -> PriceChange:
    if before is None or after is None:
        return PriceChange("added" if before is None else "removed", where, before, after, None, None)
    if not (comparable and isinstance(before, Decimal) and isinstance(after, Decimal)):
        return PriceChange("changed", where, before, after, None, None)
    difference = after - before
    return PriceChange("changed", where, before, after, difference, percent_of(difference, before))


def percent_of(difference: Decimal, before: Decimal) -> Decimal | None:
    """A difference as a share of what was before, to 2 decimals; None of nothing."""
    if not before:
        return None
    over, under = exact_product(difference, 100)
    base, base_under = exact_product(before)
    return round_ratio(over * base_under, under * base, PERCENT_DECIMALS)


def entries(version: PriceVersion) -> Iterator[tuple[str, Value]]:
    """Yield every key of a version with what stands there, the prices first."""
    for key, value in _entries(version).items():
        if key[-1] != _ORDER:
            yield ".".join(key), value


def _entries(version: PriceVersion) -> dict[tuple[str, ...], Value]:
    content = version.content
    pricing = dict(_walk((), content.pop("pricing")))
    del content["version"]
    return pricing | dict(_walk((), content))


def _walk(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Value]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk((*path, str(key)), part)
    elif isinstance(value, list | tuple):
        yield from _walk_list(path, value)
    else:
        yield path, value if isinstance(value, Decimal) else str(value)


def _walk_list(path: tuple[str, ...], items: list[Any] | tuple[Any, ...]) -> Iterator[tuple[tuple[str, ...], Value]]:
    """Dimensions go by their metric, and their order is content; other objects by their number; texts by themselves."""
    if all(isinstance(item, Mapping) and "metric" in item for item in items):
        for item in items:
            yield from _walk((*path[:-1], item["metric"]), {k: v for k, v in item.items() if k != "metric"})
        yield (*path[:-1], _ORDER), ", ".join(item["metric"] for item in items)
    else:
        for number, item in enumerate(items, 1):
            if isinstance(item, Mapping):
                yield from _walk((*path, str(number)), item)
            else:
                yield (*path, str(item)), "free"
