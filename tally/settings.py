"""Settings, read once from the environment; all faults are reported together.

Every setting is a row of SETTINGS with its default and its help; docs/reference/settings.md lists the same rows,
and a test holds the two together. Nothing else in Tally reads TALLY_* from the environment.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg
from platformdirs import user_data_dir
from psycopg.conninfo import conninfo_to_dict

from tally.domain.errors import InvalidInput
from tally.domain.period import check_zone


class Setting(NamedTuple):
    """One environment variable."""

    name: str
    default: str
    help: str


SETTINGS = (
    Setting("TALLY_HOME", "", "Where data lives: the embedded PostgreSQL, documents, logs. "
            "Default: tally below the user's data directory"),
    Setting("TALLY_REPORTING_URL", "", "postgresql:// URL of the reporting database; empty: embedded"),
    Setting("TALLY_METERING_URL", "", "postgresql:// URL of the metering database; empty: embedded"),
    Setting("TALLY_DAGSTER_URL", "", "postgresql:// URL of Dagster's own database; empty: embedded"),
    Setting("TALLY_ZONE", "UTC", "Zone of the billing periods; cannot change once a period is finalized"),
    Setting("TALLY_GRACE_HOURS", "72", "Hours after the end of a period before it can be finalized"),
    Setting("TALLY_CLOCK_SKEW_SECONDS", "300", "How far in the future an event may be stamped"),
    Setting("TALLY_WEB_PORT", "3000", "Port of the Dagster webserver on the loopback interface"),
)


@dataclass(frozen=True)
class Settings:
    """What an installation decides. URLs are kept out of repr: they hold passwords."""

    home: Path
    reporting_url: str = field(default="", repr=False)
    metering_url: str = field(default="", repr=False)
    dagster_url: str = field(default="", repr=False)
    zone: str = "UTC"
    grace: timedelta = timedelta(hours=72)
    clock_skew: timedelta = timedelta(seconds=300)
    web_port: int = 3000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read all settings.

        Raises:
            InvalidInput: naming every faulty setting at once.
        """
        faults: list[str] = []
        known = {setting.name for setting in SETTINGS} | INTERNAL
        unknown = [name for name in environment if name.startswith("TALLY_") and name not in known]
        faults += [f"{name} is not a setting" for name in unknown]

        def read(name: str, convert: Any) -> Any:
            default = next(setting.default for setting in SETTINGS if setting.name == name)
            text = environment.get(name) or default
            try:
                return convert(text)
            except (ValueError, InvalidInput) as error:
                shown = name if convert is _url else f"{name}={text[:60]!r}"  # a URL holds a password
                faults.append(f"{shown}: {error}")

        values = {
            "home": read("TALLY_HOME", _home),
            "reporting_url": read("TALLY_REPORTING_URL", _url),
            "metering_url": read("TALLY_METERING_URL", _url),
            "dagster_url": read("TALLY_DAGSTER_URL", _url),
            "zone": read("TALLY_ZONE", _zone),
            "grace": read("TALLY_GRACE_HOURS", lambda text: timedelta(hours=_count(text, HOURS_IN_TEN_YEARS))),
            "clock_skew": read("TALLY_CLOCK_SKEW_SECONDS", lambda text: timedelta(seconds=_count(text, A_DAY))),
            "web_port": read("TALLY_WEB_PORT", lambda text: _count(text, LAST_PORT)),
        }
        if faults:
            raise InvalidInput("settings: " + "; ".join(faults))
        return cls(**values)


# More is a mistake of units, and would lead out of the calendar.
HOURS_IN_TEN_YEARS = 87_600
A_DAY = 86_400  # in seconds
LAST_PORT = 65_535

# Set by Tally for its own subprocesses and by its tests; not settings of an installation.
INTERNAL = frozenset({"TALLY_TEST_SERVER_URL", "TALLY_SHARED"})


def _home(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError as error:  # a user without a home
        raise ValueError(str(error)) from None
    return path if text else Path(user_data_dir("tally", appauthor=False))


def _zone(text: str) -> str:
    check_zone(text)
    return text


def _url(text: str) -> str:
    """Accept the URL of a database; what is wrong with another is said without it."""
    if not text:
        return ""
    try:
        parts = conninfo_to_dict(text)
    except psycopg.Error:  # whose text would tell the password
        parts = {}
    scheme = text.partition("://")[0]
    at_sign = any("@" in str(parts.get(name, "")) for name in ("host", "port"))  # from a password that holds one
    if scheme not in {"postgresql", "postgres"} or not parts.get("dbname") or at_sign:
        raise ValueError(
            "not a URL such as postgresql://user:password@host:5432/database"
            " (what is special in a password is percent-encoded: @ is %40)"
        )
    return text


def _count(text: str, most: int) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) else -1
    if not 0 <= number <= most:
        raise ValueError(f"not a whole number from 0 to {most}")
    return number
