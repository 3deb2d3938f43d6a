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
from tally.domain.errors import InvalidInput
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.services.known_types import Registry, current_registry
from tally.services.pricing import version_for, version_named
from tally.services.quote_items import Described, QuoteItem, describe
from tally.services.quote_project import QuotedProject, quoted_project
from tally.store.database import Connection
from tally.store.metering import quotes as store
from tally.store.metering.quotes import QuotedRate, QuotedUsage

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
    version: PriceVersion
    project: QuotedProject | None
    items: tuple[QuotedItem, ...]
    adjusted: Adjusted


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
    """Price what is described, by the version that holds for the month or by a named one.

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
    version = version_named(metering, price_version) if price_version else version_for(metering, period)
    records = {uuid5(_RECORDS, str(place)): record for place, record in enumerate(described)}
    rates = _rates(metering, period, version, [_usage(*record, whose) for record in records.items()])
    priced = tuple(
        QuotedItem(record, _in_price_order(rates[record_id], record, version), _findings(record, registry, version))
        for record_id, record in records.items()
    )
    return Quote(period, version, whose, priced, apply(_costs_by_type(priced), whose.terms if whose else ()))


def _check_platform(described: Sequence[Described], whose: QuotedProject | None) -> None:
    for place, record in enumerate(described):
        if whose is not None and record.platform != whose.project.platform:
            project = f"{whose.project.address} is of {whose.project.platform}"
            raise InvalidInput(f"items[{place}] is of {record.platform[:60]}, but {project}")


def _costs_by_type(items: Sequence[QuotedItem]) -> dict[str, Decimal]:
    costs: defaultdict[str, list[Decimal]] = defaultdict(list)
    for item in items:
        costs[f"{item.described.platform}.{item.described.resource_type}"].append(item.total)
    return {kind: total(amounts) for kind, amounts in costs.items()}


def _rates(
    metering: Connection, period: BillingPeriod, version: PriceVersion, usage: Sequence[QuotedUsage]
) -> Mapping[UUID, list[QuotedRate]]:
    """Rate all records at once: what they cost may hang together."""
    found: defaultdict[UUID, list[QuotedRate]] = defaultdict(list)
    for row in store.rated(metering, str(period), (period.start, period.end), version.version, usage):
        found[row.usage_record_id].append(row)
    return found


def _in_price_order(rates: Sequence[QuotedRate], record: Described, version: PriceVersion) -> tuple[QuotedRate, ...]:
    order = list(version.formulas(record.platform, record.resource_type))
    return tuple(sorted(rates, key=lambda rate: order.index(rate.dimension)))


def _usage(record_id: UUID, record: Described, whose: QuotedProject | None) -> QuotedUsage:
    # Without a project, each platform has a cloud of its own: a resource belongs to one.
    cloud, project_id = (whose.project.cloud, whose.project.external_id) if whose else (record.platform, "")
    usage, key = record.usage, (cloud, record.platform, record.resource_type, record.resource_id)
    span = usage.from_ts, usage.to_ts, usage.length_us
    metrics = usage.size, usage.counters, usage.metrics
    return QuotedUsage(record_id, *key, project_id, usage.lifetime_no, usage.state, *span, *metrics)


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
