"""Price versions of an installation: loaded from files, never changed, and chosen by month (rule 24).

What a version file may say is pricing.price_file's business; where versions are kept, tally.store.metering.prices'.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import simplejson

from pricing.model import Price, PriceVersion
from pricing.price_file import parse_price_version
from pricing.terms import Terms
from pricing.validity import Part, check_versions, parts_of, whole
from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering.prices import (
    ModifierRow,
    PriceRow,
    StoredVersion,
    TierRow,
    UnpricedRow,
    VersionRows,
    insert_version,
    lock_versions,
    stored_versions,
)


def load_price_versions(connection: Connection, folder: Path | None = None) -> list[str]:
    """Load the version files of a folder (default: those shipped with Tally) into the metering database.

    Loading again is nothing. All files are loaded, or none.

    Args:
        connection: to the metering database.
        folder: holds one *.yaml file per version.

    Returns:
        The names of the versions that were added now.

    Raises:
        InvalidInput: with every fault of every file.
        Refused: if a file says something else than the version that is loaded under its name, or versions collide, or
            change inside a month what cannot.
    """
    return add_versions(connection, _read(folder or files("pricing") / "models"))


def add_versions(connection: Connection, versions: Sequence[PriceVersion]) -> list[str]:
    """Add versions to those that are loaded, all or none; returns the names of those that are new.

    Raises:
        InvalidInput: if two have one name.
        Refused: if one says something else than the version that is loaded under its name, or versions collide, or
            change inside a month what cannot.
    """
    _check_one_per_name(versions)
    with connection.transaction():
        lock_versions(connection)
        loaded = {version.version: version for version in loaded_versions(connection)}
        _refuse_changed(versions, loaded)
        new = [version for version in versions if version.version not in loaded]
        check_versions([*loaded.values(), *new])
        for version in new:
            insert_version(connection, rows_of(version))
    return [version.version for version in new]


def prices_for(connection: Connection, period: BillingPeriod) -> tuple[Part, ...]:
    """Return the price versions that hold for a billing period, each with its part of it: mostly one.

    Raises:
        Refused: if a part has none, listing those that are loaded; never another month's prices.
    """
    return parts_of(loaded_versions(connection), period)


def prices_with(connection: Connection, period: BillingPeriod, name: str) -> tuple[Part, ...]:
    """Return how a period is priced by a named version: all of it, whatever months the version holds for.

    A version that begins inside the period prices the rest of it, and the former ones what comes before.

    Raises:
        NotFound: if there is none of that name, listing those that are loaded.
        Refused: if the version begins inside the period, and what comes before has none.
    """
    return with_last(version_named(connection, name), loaded_versions(connection), period)


def with_last(last: PriceVersion, loaded: Sequence[PriceVersion], period: BillingPeriod) -> tuple[Part, ...]:
    """How a period is priced if a version, such as a draft, is the last one that there is: as prices_with says."""
    if not period.first_day < last.valid_from < period.next.first_day:
        return whole(last, period)
    return parts_of([*(version for version in loaded if version.valid_from < last.valid_from), last], period)


def price_parts(connection: Connection, run: Run) -> tuple[Part, ...]:
    """Return how a run has priced its period.

    Raises:
        NotFound: if a version of it is not loaded.
    """
    begins = [run.period_from, *(parse_instant(change["since"]) for change in run.price_changes)]
    versions = [version_named(connection, name) for name in run.price_versions or [""]]
    return tuple(map(Part, versions, begins, [*begins[1:], run.period_to]))


def version_named(connection: Connection, name: str) -> PriceVersion:
    """Return a loaded version by its name, as a run keeps it.

    Raises:
        NotFound: listing those that are loaded.
    """
    loaded = loaded_versions(connection)
    for version in loaded:
        if version.version == name:
            return version
    known = ", ".join(version.version for version in loaded) or "none"
    raise NotFound(f"price version {name!r} is not loaded; loaded: {known}")


def loaded_versions(connection: Connection) -> list[PriceVersion]:
    """List the versions that are loaded, by the first month that they hold for."""
    # JSON is YAML: what is stored goes through the same door as the file that it came from.
    return [
        parse_price_version(row.content, f"price version {row.version}", kept=True)
        for row in stored_versions(connection)
    ]


def _read(folder: Traversable) -> list[PriceVersion]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder of price versions")
    versions, faults = [], []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith((".yaml", ".yml")):
            try:
                versions.append(parse_price_version(file.read_text(encoding="utf-8"), file.name))
            except InvalidInput as error:
                faults.append(str(error))
            except UnicodeDecodeError as error:
                faults.append(f"{file.name}: not UTF-8 at byte {error.start}")
    if faults:
        raise InvalidInput("; ".join(faults))
    return versions


def _check_one_per_name(versions: Sequence[PriceVersion]) -> None:
    by_name: dict[str, PriceVersion] = {}
    for version in versions:
        if by_name.setdefault(version.version, version) is not version:
            raise InvalidInput(f"two files hold version {version.version}; a version is one file")


def _refuse_changed(versions: Sequence[PriceVersion], loaded: dict[str, PriceVersion]) -> None:
    reasons = [
        f"version {version.version} is loaded with other content; restore its file and write a new version instead"
        for version in versions
        if version.version in loaded and loaded[version.version].content_hash != version.content_hash
    ]
    if reasons:
        raise Refused("a price version never changes", reasons)


def rows_of(version: PriceVersion) -> VersionRows:
    """A version as the ledger keeps it."""
    content = simplejson.dumps(version.content, use_decimal=True, ensure_ascii=False)
    return VersionRows(
        StoredVersion(
            version.version,
            version.valid_from,
            version.valid_to,
            version.currency,
            content,
            version.content_hash,
            str(version.mid_period),
        ),
        [price_row(price) for price in version.prices],
        [row for price in version.prices for row in tier_rows(price)],
        [ModifierRow(m.platform, m.resource_type, m.kind, m.value, m.modifier) for m in version.modifiers],
        [UnpricedRow(free.platform, free.resource_type, free.metric) for free in version.unpriced],
    )


def price_row(price: Price) -> PriceRow:
    """A price as rating reads it."""
    terms = price.terms or Terms()
    mode, group = (str(terms.tiers.mode), str(terms.tiers.per)) if terms.tiers else (None, None)
    key = (price.platform, price.resource_type, price.metric)
    times = (terms.minimum_us, terms.increment_us)
    return PriceRow(*key, str(price.formula), price.price, mode, group, *times, terms.monthly_cap)


def tier_rows(price: Price) -> Iterator[TierRow]:
    """The tiers of a price as rating reads them."""
    above = Decimal(0)
    for no, tier in enumerate(price.terms.tiers.steps if price.terms and price.terms.tiers else (), 1):
        yield TierRow(price.platform, price.resource_type, price.metric, no, above, tier.up_to, tier.price)
        above = tier.up_to or above
