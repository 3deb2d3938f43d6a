"""The line items of a bill, written as JSON text (their form: docs/adr/0003-bill-document.md).

A big month has millions of usage records, and each is shown: so a record comes with its numbers as the texts that the
document shows, and is put into a form that is made once for each combination of dimensions. What stands around the line
items is bill.py's.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Protocol

from pricing.model import PriceVersion
from pricing.money import hours
from tally.domain.errors import InvalidInput, Refused
from tally.domain.instants import MICROSECOND, format_instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UsageCosts(Protocol):
    """One usage record of a project, and what its dimensions cost."""

    @property
    def resource_type(self) -> str:
        """Such as instance."""

    @property
    def resource_id(self) -> str:
        """As its cloud names it."""

    @property
    def state(self) -> str:
        """As metered."""

    @property
    def from_us(self) -> int:
        """When it begins, in microseconds since 1970."""

    @property
    def to_us(self) -> int:
        """When it ends, likewise; exclusive."""

    @property
    def names(self) -> Sequence[str | None]:
        """What a person may call the resource by, the best first: its flavor, its type."""

    @property
    def dimensions(self) -> Sequence[str] | None:
        """The metrics that are paid for; None if none is, and the record is not shown."""

    @property
    def quantities(self) -> str:
        """Of each dimension, in their order, in the shortest decimal form, between spaces."""

    @property
    def amounts(self) -> str:
        """Likewise, with 2 decimals."""

    @property
    def cents(self) -> int:
        """The sum of the amounts."""

    @property
    def state_modifier(self) -> str:
        """Of its gauges; 1 if it has none."""

    @property
    def type_modifier(self) -> str:
        """Likewise."""

    @property
    def in_currency(self) -> bool:
        """Whether all of it was rated in the currency of the version."""


@dataclass(frozen=True, slots=True)
class LineItems:
    """The line items of one project: a JSON list, and what they come to, in cents."""

    text: str
    cents_by_type: dict[str, int] = field(default_factory=dict)  # by platform.resource_type

    @property
    def cents(self) -> int:
        """What they come to together."""
        return sum(self.cents_by_type.values())


class Forms:
    """The forms of all that one price version prices; each is made once, for all bills of a run."""

    def __init__(self, version: PriceVersion) -> None:
        """Begin without any."""
        self.version = version
        self._made: dict[tuple[str, str, tuple[str, ...]], _Form] = {}

    def of(self, platform: str, resource_type: str, dimensions: Sequence[str]) -> "_Form":
        """Return the form for records with these dimensions."""
        key = (platform, resource_type, tuple(dimensions))
        form = self._made.get(key)
        if form is None:
            form = self._made[key] = _form(self.version, *key)
        return form


def line_items(records: Iterable[UsageCosts], project: str, platform: str, forms: Forms) -> LineItems:
    """Write one line item for each resource that has a price, by resource type and id, whatever order records come in.

    Raises:
        Refused: if regular usage or its cost is negative, naming the rows.
        InvalidInput: if a record was rated in another currency or by other prices.
    """
    shown = sorted((record for record in records if record.dimensions), key=_ORDER)
    _check_no_negative(project, shown)
    cents: defaultdict[str, int] = defaultdict(int)
    items = []
    for (resource_type, _), periods in groupby(shown, key=_RESOURCE):
        text, amount = _line_item(list(periods), platform, forms)
        items.append(text)
        cents[f"{platform}.{resource_type}"] += amount
    return LineItems("[\n    " + ",\n    ".join(items) + "\n  ]" if items else "[]", dict(cents))


def amount_text(cents: int) -> str:
    """Write an amount that is not negative, with its 2 decimals."""
    return f"{cents // 100}.{cents % 100:02d}"


_ORDER = attrgetter("resource_type", "resource_id", "from_us", "to_us")
_RESOURCE = attrgetter("resource_type", "resource_id")


def _line_item(records: Sequence[UsageCosts], platform: str, forms: Forms) -> tuple[str, int]:
    first = records[0]
    cents = sum(record.cents for record in records)
    periods = ",\n        ".join([_period(record, platform, forms) for record in records])
    text = (
        f'{{\n      "resource_type": {encode_basestring(first.resource_type)},\n'
        f'      "resource_id": {encode_basestring(first.resource_id)},\n'
        f'      "platform": {encode_basestring(platform)},\n'
        f'      "description": {encode_basestring(_description(records))},\n'
        f'      "periods": [\n        {periods}\n      ],\n'
        f'      "total": {amount_text(cents)}\n    }}'
    )
    return text, cents


def _period(record: UsageCosts, platform: str, forms: Forms) -> str:
    form = forms.of(platform, record.resource_type, record.dimensions or ())
    if form.faults or not record.in_currency:
        raise _strange(record, forms.version, form)
    quantities, amounts = record.quantities.split(), record.amounts.split()
    values = [quantities[place] for place in form.order]
    values += [amounts[place] for place in form.order]
    modifiers = _modifier(record.state_modifier), _modifier(record.type_modifier)
    return form.template % (
        encode_basestring(record.state),
        _instant(record.from_us),
        _instant(record.to_us),
        _hours(record.to_us - record.from_us),
        *values,
        amount_text(record.cents),
        *(modifiers if form.has_types else modifiers[:1]),
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """How the period of a record with some dimensions is written; ``order`` are their places in that of the version."""

    template: str
    order: tuple[int, ...]
    has_types: bool
    faults: tuple[str, ...]


def _form(version: PriceVersion, platform: str, resource_type: str, dimensions: tuple[str, ...]) -> _Form:
    formulas = version.formulas(platform, resource_type)
    faults = [f"{metric} is not priced by version {version.version}" for metric in sorted({*dimensions} - {*formulas})]
    if len({*dimensions}) < len(dimensions):
        faults.append("one dimension is rated twice")
    listed = [metric for metric in formulas if metric in dimensions]
    labels = [encode_basestring(metric).replace("%", "%%") for metric in listed]
    has_types = version.has_table(platform, resource_type, "type")
    usage = ",\n".join(f"            {label}: %s" for label in labels)
    costs = ",\n".join(f"            {label}: %s" for label in [*labels, '"total"'])
    template = (
        '{\n          "state": %s,\n          "from": "%s",\n          "to": "%s",\n          "hours": %s,\n'
        f'          "usage": {{\n{usage}\n          }},\n          "cost": {{\n{costs}\n          }},\n'
        '          "state_modifier": %s' + (',\n          "type_modifier": %s' if has_types else "") + "\n        }"
    )
    return _Form(template, tuple(dimensions.index(metric) for metric in listed), has_types, tuple(faults))


def _strange(record: UsageCosts, version: PriceVersion, form: _Form) -> InvalidInput:
    where = f"{record.resource_type} {record.resource_id} from {_instant(record.from_us)}"
    faults = [*form.faults, *([] if record.in_currency else ["it is rated in another currency"])]
    return InvalidInput(f"a bill in {version.currency} cannot add {where}: {'; '.join(faults)}")


def _check_no_negative(project: str, records: Iterable[UsageCosts]) -> None:
    negative = [record for record in records if "-" in record.quantities or "-" in record.amounts]
    if negative:
        rows = [
            f"{record.resource_type} {record.resource_id} from {_instant(record.from_us)}: "
            f"{metric} is {quantity}, {amount}"
            for record in negative
            for metric, quantity, amount in zip(
                record.dimensions or (), record.quantities.split(), record.amounts.split(), strict=True
            )
            if "-" in quantity + amount
        ]
        raise Refused(f"bill of {project}: regular usage is never negative", rows)


def _description(records: Sequence[UsageCosts]) -> str:
    """Name a resource by the first attribute that it kept throughout, else by its id."""
    first = records[0]
    for place, name in enumerate(first.names):
        if name and all(record.names[place] == name for record in records):
            return f"{name} {first.resource_type}"
    return f"{first.resource_type} {first.resource_id}"


@lru_cache(maxsize=4096)
def _instant(microseconds: int) -> str:
    return format_instant(_EPOCH + microseconds * MICROSECOND)


@lru_cache(maxsize=4096)
def _hours(length_us: int) -> str:
    return f"{hours(length_us):f}"


@lru_cache(maxsize=4096)
def _modifier(text: str) -> str:
    """Write a modifier with at least one decimal, as 1.0 and 0.25."""
    return text if "." in text else text + ".0"
