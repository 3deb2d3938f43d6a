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

from platformdirs import user_data_dir

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
                faults.append(f"{name}={text!r}: {error}")

        values = {
            "home": read("TALLY_HOME", _home),
            "reporting_url": read("TALLY_REPORTING_URL", str),
            "metering_url": read("TALLY_METERING_URL", str),
            "dagster_url": read("TALLY_DAGSTER_URL", str),
            "zone": read("TALLY_ZONE", _zone),
            "grace": read("TALLY_GRACE_HOURS", lambda text: timedelta(hours=_count(text))),
            "clock_skew": read("TALLY_CLOCK_SKEW_SECONDS", lambda text: timedelta(seconds=_count(text))),
            "web_port": read("TALLY_WEB_PORT", _count),
        }
        if faults:
            raise InvalidInput("settings: " + "; ".join(faults))
        return cls(**values)


# Set by Tally for its own subprocesses and by its tests; not settings of an installation.
INTERNAL = frozenset({"TALLY_TEST_SERVER_URL", "TALLY_SHARED"})


def _home(text: str) -> Path:
    return Path(text).expanduser().absolute() if text else Path(user_data_dir("tally", appauthor=False))


def _zone(text: str) -> str:
    check_zone(text)
    return text


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("not a whole number from 0 up")
    return number
