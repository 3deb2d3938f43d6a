"""Quotes: what described usage costs in a month, to the cent as its bill would say. Nothing is stored.

It is rated by the SQL of the close, over what is described instead of what was metered. The usage is taken for all
that there is: what a project has used besides is not known to a quote.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID, uuid5

from pricing.adjustments import Adjusted, apply
from pricing.model import PriceVersion
from pricing.money import total
from pricing.rating import RatingFinding, rate
from pricing.validity import Part
from tally.domain.errors import InvalidInput
from tally.domain.instants import format_instant
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.services.known_types import Registry, current_registry
from tally.services.pricing import prices_for, prices_with
from tally.services.quote_items import Described, QuoteItem, describe
from tally.services.quote_project import QuotedProject, quoted_project
from tally.store.database import Connection
from tally.store.metering import quotes as store
from tally.store.metering.quotes import QuotedPart, QuotedRate, QuotedUsage

_RECORDS = UUID("7a11b111-0000-4000-8000-000000000001")


@dataclass(frozen=True, slots=True)
class QuotedItem:
    """An item with what it costs, in the order of the prices, and what its rating leaves open."""

    described: Described
    rates: tuple[QuotedRate, ...]
    findings: tuple[RatingFinding, ...]

    @property
    def total(self) -> Decimal:
        """The sum of its rounded amounts."""
        return total(rate.amount for rate in self.rates)


@dataclass(frozen=True, slots=True)
class Quote:
    """What described usage costs, for a project or for nobody in particular.

    ``adjusted`` has the sum of the items as its base; its net is what is paid.
    """

    period: BillingPeriod
    prices: tuple[Part, ...]  # mostly one
    project: QuotedProject | None
    items: tuple[QuotedItem, ...]
    adjusted: Adjusted

    @property
    def currency(self) -> str:
        """That of its prices."""
        return self.prices[0].version.currency


def quote(
    reporting: Connection,
    metering: Connection,
    period: BillingPeriod,
    items: Sequence[QuoteItem],
    *,
    price_version: str | None = None,
    project: ProjectKey | None = None,
    visible: Collection[ProjectKey] | None = None,
) -> Quote:
    """Price what is described, by the versions that hold for the month or by a named one.

    For a project, what its bill agrees on is applied; ``visible`` (None: all) must hold the project that is billed.

    Raises:
        InvalidInput: with all that is wrong with the description.
        NotFound: if there is no such version, or no such project.
        Refused: if no version holds for the month, or another project is billed, which is not visible.
    """
    registry = current_registry(reporting)
    described = describe(items, registry, period)
    whose = quoted_project(reporting, period, project, visible) if project else None
    _check_platform(described, whose)
    prices = prices_with(metering, period, price_version) if price_version else prices_for(metering, period)
    _check_counters(described, prices)
    records = {uuid5(_RECORDS, str(place)): record for place, record in enumerate(described)}
    rates = _rates(metering, prices, [_usage(*record, whose) for record in records.items()])
    priced = tuple(
        QuotedItem(record, _in_price_order(rates[record_id], record, prices), _findings(record, registry, prices))
        for record_id, record in records.items()
    )
    return Quote(period, prices, whose, priced, apply(_costs_by_type(priced), whose.terms if whose else ()))


def _check_platform(described: Sequence[Described], whose: QuotedProject | None) -> None:
    for place, record in enumerate(described):
        if whose is not None and record.platform != whose.project.platform:
            project = f"{whose.project.address} is of {whose.project.platform}"
            raise InvalidInput(f"items[{place}] is of {record.platform[:60]}, but {project}")


def _check_counters(described: Sequence[Described], prices: Sequence[Part]) -> None:
    """What is counted belongs to an instant, which a description does not tell."""
    for place, record in enumerate(described):
        usage = record.usage
        cuts = [part.from_ts for part in prices[1:] if usage.from_ts < part.from_ts < usage.to_ts]
        if usage.counters and cuts:
            change = format_instant(cuts[0])
            raise InvalidInput(f"items[{place}]: prices change at {change}; describe its usage before and after apart")


def _costs_by_type(items: Sequence[QuotedItem]) -> dict[str, Decimal]:
    costs: defaultdict[str, list[Decimal]] = defaultdict(list)
    for item in items:
        costs[f"{item.described.platform}.{item.described.resource_type}"].append(item.total)
    return {kind: total(amounts) for kind, amounts in costs.items()}


def _rates(
    metering: Connection, prices: Sequence[Part], usage: Sequence[QuotedUsage]
) -> Mapping[UUID, list[QuotedRate]]:
    """Rate all records at once: what they cost may hang together."""
    found: defaultdict[UUID, list[QuotedRate]] = defaultdict(list)
    parts = [QuotedPart(part.version.version, part.from_ts, part.to_ts) for part in prices]
    for row in store.rated(metering, parts, usage):
        found[row.usage_record_id].append(row)
    return found


def _in_price_order(rates: Sequence[QuotedRate], record: Described, prices: Sequence[Part]) -> tuple[QuotedRate, ...]:
    """By time, then as the version lists them that prices them."""
    orders = [list(part.version.formulas(record.platform, record.resource_type)) for part in prices]
    places = {part.version.version: place for place, part in enumerate(prices)}

    def place(rate: QuotedRate) -> tuple[int, int]:
        part = places[rate.pricing_version]
        return part, orders[part].index(rate.dimension)

    return tuple(sorted(rates, key=place))


def _usage(record_id: UUID, record: Described, whose: QuotedProject | None) -> QuotedUsage:
    # Without a project, each platform has a cloud of its own: a resource belongs to one.
    cloud, project_id = (whose.project.cloud, whose.project.external_id) if whose else (record.platform, "")
    usage, key = record.usage, (cloud, record.platform, record.resource_type, record.resource_id)
    span = usage.from_ts, usage.to_ts, usage.length_us
    metrics = usage.size, usage.counters, usage.metrics
    return QuotedUsage(record_id, *key, project_id, usage.lifetime_no, usage.state, *span, *metrics)


def _findings(record: Described, registry: Registry, prices: Sequence[Part]) -> tuple[RatingFinding, ...]:
    """What any version leaves open that prices a part of it, once."""
    usage = record.usage
    own = [part.version for part in prices if part.from_ts < usage.to_ts and usage.from_ts < part.to_ts]
    return tuple(dict.fromkeys(found for version in own for found in _findings_of(record, registry, version)))


def _findings_of(record: Described, registry: Registry, version: PriceVersion) -> Sequence[RatingFinding]:
    registered = registry[record.platform, record.resource_type]
    return rate(
        version,
        platform=record.platform,
        resource_type=record.resource_type,
        state=record.usage.state,
        length_us=record.usage.length_us,
        usage=record.usage.metrics,
        normal_states=registered.normal_states,
        descriptive=registered.descriptive,
    ).findings
