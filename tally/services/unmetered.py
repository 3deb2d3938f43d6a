"""Resources of the inventory that lived in a month and were not metered, with what they would have cost.

That is bounded by what is known of them: each at its last size from its first to its last instant in the month, by the
prices of each part of it, as if it were alone in the month; counters aside.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal

from pricing.model import EVERYTHING, Formula
from pricing.month import MonthRecord, Priced, rate_pieces
from pricing.validity import Part
from tally.domain.completeness import EXAMPLES, Found
from tally.domain.run import Run
from tally.services.pricing import price_parts
from tally.store.database import Connection
from tally.store.metering.findings import Unmetered, unmetered_resources

_MICROSECOND = timedelta(microseconds=1)


def unmetered(metering: Connection, run: Run) -> Iterator[Found]:
    """Find them by cloud and type; what they would have cost is None where that cannot be told of all."""
    kinds: defaultdict[tuple[str, str, str], list[Unmetered]] = defaultdict(list)
    for resource in unmetered_resources(metering, run):
        kinds[resource.cloud, resource.platform, resource.resource_type].append(resource)
    parts = price_parts(metering, run) if kinds and run.pricing_version else ()
    for kind, resources in kinds.items():
        costs = [cost(parts, resource) for resource in resources]
        known = [each for each in costs if each is not None]
        shown = ", ".join(resource.resource_id for resource in resources[:EXAMPLES])
        yield Found(
            "listed_not_metered",
            *kind,
            "inventory",
            f"{len(resources)} resource(s) lived in the month and were not metered, such as {shown}",
            len(resources),
            sum(known, Decimal("0.00")) if len(known) == len(costs) else None,
        )


def cost(parts: Sequence[Part], resource: Unmetered) -> Decimal | None:
    """What a resource would have cost; None if its type has no price in a part, or its size lacks what is priced."""
    kind = (resource.platform, resource.resource_type)
    pieces = list(_pieces(parts, resource))
    if not pieces or any(
        not version.prices_of(*kind) and not version.is_unpriced(*kind, EVERYTHING) for version, _ in pieces
    ):
        return None
    ratings = rate_pieces(pieces)
    for (version, _), rating in zip(pieces, ratings, strict=True):
        gauges = {price.metric for price in version.prices_of(*kind) if price.formula is Formula.TIME_GAUGE}
        if gauges - {each.dimension for each in rating.rates}:
            return None
    return sum((each.amount for rating in ratings for each in rating.rates), Decimal("0.00"))


def _pieces(parts: Sequence[Part], resource: Unmetered) -> Iterator[Priced]:
    usage = resource.size | {"count": 1}
    key = (resource.cloud, resource.platform, resource.resource_type, resource.resource_id)
    for part in parts:
        begin, end = max(resource.from_ts, part.from_ts), min(resource.to_ts, part.to_ts)
        if begin < end:
            yield part.version, MonthRecord(*key, "", 1, begin, (end - begin) // _MICROSECOND, resource.state, usage)
