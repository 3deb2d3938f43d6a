"""The SQL that rates usage, rendered outside dbt: the macro of the close, over any tables that hold what it reads.

What a quote or a draft of prices costs is thus worked out by the very statement that the bill is. What it says belongs
in dbt_project/macros/rating.sql; who runs it over which tables, in the services.
"""

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined

_MACROS = Path(__file__).resolve().parents[3] / "dbt_project" / "macros"
# Those that the macro `rating` calls, and itself.
_FILES = ("keys.sql", "rounding.sql", "rating.sql")


@dataclass(frozen=True, slots=True)
class RatingTables:
    """Names of the relations that rating reads, as SQL writes them; never text from outside.

    ``run`` has one row with ``pricing_version``; ``usage_records`` the columns of metering.int_usage_records. With
    ``parts``, which has a row of (pricing_version, from_ts, to_ts) for each version, ``run`` is not read. Without
    ``increments``, of the columns of metering.int_usage_increments, no record that has counters may be cut by them.
    """

    run: str
    usage_records: str
    versions: str = "ledger.pricing_versions"
    prices: str = "ledger.prices"
    modifiers: str = "ledger.price_modifiers"
    tiers: str = "ledger.price_tiers"
    parts: str | None = None
    increments: str | None = None


def rating_sql(tables: RatingTables) -> str:
    """A query with the columns of metering.int_rated_records."""
    macros = _macros()
    return macros.from_string(_source() + "{{ rating(**tables) }}").render(tables=asdict(tables))


@cache
def _macros() -> Environment:
    # It renders SQL, in which an ampersand is none of HTML's.
    return Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701


@cache
def _source() -> str:
    return "".join((_MACROS / name).read_text(encoding="utf-8") for name in _FILES)
