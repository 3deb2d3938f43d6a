"""Quotes: what described usage costs in a month, to the cent as its bill would say. Nothing is stored.

It is rated by the SQL of the close, over what is described instead of what was metered. The usage is taken for all
that there is: what a project has used besides is not known to a quote.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID, uuid5

from pricing.model import PriceVersion
from pricing.money import total
from pricing.rating import Rate, RatingFinding, rate
from tally.domain.period import BillingPeriod
from tally.services.known_types import Registry, current_registry
from tally.services.pricing import version_for, version_named
from tally.services.quote_items import Described, QuoteItem, describe
from tally.store.database import Connection
from tally.store.metering import quotes as store
from tally.store.metering.quotes import QuotedRate, QuotedUsage

_RECORDS = UUID("7a11b111-0000-4000-8000-000000000001")


@dataclass(frozen=True, slots=True)
class QuotedItem:
    """An item with what it costs, in the order of the prices, and what its rating leaves open."""

    described: Described
    rates: tuple[Rate, ...]
    findings: tuple[RatingFinding, ...]

    @property
    def total(self) -> Decimal:
        """The sum of its rounded amounts."""
        return total(rate.amount for rate in self.rates)


@dataclass(frozen=True, slots=True)
class Quote:
    """What described usage costs."""

    period: BillingPeriod
    version: PriceVersion
    items: tuple[QuotedItem, ...]

    @property
    def total(self) -> Decimal:
        """The sum of all items."""
        return total(item.total for item in self.items)


def quote(
    reporting: Connection,
    metering: Connection,
    period: BillingPeriod,
    items: Sequence[QuoteItem],
    price_version: str | None = None,
) -> Quote:
    """Price what is described, by the version that holds for the month or by a named one.

    Raises:
        InvalidInput: with all that is wrong with the description.
        NotFound: if there is no such version.
        Refused: if no version holds for the month.
    """
    registry = current_registry(reporting)
    described = describe(items, registry, period)
    version = version_named(metering, price_version) if price_version else version_for(metering, period)
    records = {uuid5(_RECORDS, str(place)): record for place, record in enumerate(described)}
    rates = _rates(metering, period, version, records)
    return Quote(
        period,
        version,
        tuple(
            QuotedItem(record, tuple(rates[record_id]), _findings(record, registry, version))
            for record_id, record in records.items()
        ),
    )


def _rates(
    metering: Connection, period: BillingPeriod, version: PriceVersion, records: Mapping[UUID, Described]
) -> Mapping[UUID, list[Rate]]:
    """Rate all records at once; the rates of each come in the order of the prices."""
    usage = [_usage(record_id, record) for record_id, record in records.items()]
    rows = store.rated(metering, str(period), (period.start, period.end), version.version, usage)
    found: defaultdict[UUID, list[Rate]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: _place(row, records[row.usage_record_id], version)):
        modifiers = row.state_modifier, row.type_modifier
        amounts = row.amount, row.amount_exact
        found[row.usage_record_id].append(
            Rate(row.dimension, row.quantity, row.price, *modifiers, *amounts, row.currency)
        )
    return found


def _place(row: QuotedRate, record: Described, version: PriceVersion) -> int:
    return list(version.formulas(record.platform, record.resource_type)).index(row.dimension)


def _usage(record_id: UUID, record: Described) -> QuotedUsage:
    usage, cloud = record.usage, record.platform  # without a project, each platform has a cloud of its own
    key = cloud, record.platform, record.resource_type, record.resource_id
    span = usage.from_ts, usage.to_ts, usage.length_us
    metrics = usage.size, usage.counters, usage.metrics
    return QuotedUsage(record_id, *key, usage.project_id, usage.lifetime_no, usage.state, *span, *metrics)


def _findings(record: Described, registry: Registry, version: PriceVersion) -> tuple[RatingFinding, ...]:
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
