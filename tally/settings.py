"""Settings, read once from the environment; all faults are reported together.

Every setting is a row of SETTINGS with its default and its help; docs/reference/settings.md lists the same rows,
and a test holds the two together. Nothing else in Tally reads TALLY_* from the environment.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import psycopg
from platformdirs import user_data_dir
from psycopg.conninfo import conninfo_to_dict

from tally.domain.errors import InvalidInput, cause
from tally.domain.period import check_zone

Network = IPv4Network | IPv6Network


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
    Setting("TALLY_PRICES", "", "Folder of price versions of your own, loaded beside those that ship; empty: none"),
    Setting("TALLY_PROVIDER_NAME", "", "Who provides the services: named on the pages of bills, and needed for FOCUS "
            "exports"),
    Setting("TALLY_PUBLISHER_NAME", "", "Who produces them, in FOCUS exports; empty: the provider"),
    Setting("TALLY_INVOICE_ISSUER_NAME", "", "Who issues the invoices: on the pages of bills and in FOCUS exports; "
            "empty: the provider"),
    Setting("TALLY_WEB_PORT", "3000", "Port of the Dagster webserver on the loopback interface"),
    Setting("TALLY_OIDC_ISSUER", "", "URL of the OIDC issuer whose JWTs the API takes, as in their claim iss; "
            "empty: none"),
    Setting("TALLY_OIDC_AUDIENCE", "", "What their claim aud has to hold; needed with an issuer"),
    Setting("TALLY_OIDC_JWKS_URL", "", "URL of the issuer's keys; empty: by discovery"),
    Setting("TALLY_OIDC_ALGORITHMS", "RS256,ES256", "Signatures that are taken, separated by commas; asymmetric only"),
    Setting("TALLY_OIDC_ROLE_CLAIM", "tally_role", "Claim that holds the role of a caller"),
    Setting("TALLY_OIDC_PROJECTS_CLAIM", "tally_projects", "Claim that lists the projects of a consumer"),
    Setting("TALLY_TRUSTED_PROXIES", "", "Networks of the proxies that verify client certificates, such as "
            "10.0.0.0/24,::1/128; empty: none"),
    Setting("TALLY_CERTIFICATE_HEADER", "X-Client-Certificate-Subject", "Header in which they pass the subject of a "
            "certificate"),
    Setting("TALLY_API_PORT", "8080", "Port of the Reporting API"),
    Setting("TALLY_API_WORKERS", "2", "Processes of the Reporting API"),
    Setting("TALLY_API_CONNECTIONS", "8", "Connections that each process of the API opens to a database, at most"),
    Setting(
        "TALLY_API_STATEMENT_SECONDS",
        "120",
        "How long the API lets a database work on one statement, or wait for a lock; then it answers 503",
    ),
    Setting("TALLY_API_MAX_BODY_BYTES", "16777216", "Longest body of a request to the API"),
    Setting("TALLY_API_MAX_BATCH_EVENTS", "10000", "Most events in one request"),
    Setting("TALLY_UNHEALTHY_SECONDS", "600", "How long the API may be unhealthy before /healthz fails"),
    Setting("TALLY_SYNC_MAX_DELETED_PERCENT", "10", "Share of the open resources of a cloud, and of each type, that "
            "one sync may close; 10 resources always"),
    Setting("TALLY_SYNC_MINUTES", "10", "How often the sensor reconciliation reconciles each cloud that has an "
            "adapter"),
    Setting("TALLY_SILENCE_HOURS", "24", "Hours without an event of its collector after which a cloud is silent"),
    Setting("TALLY_CORRECTIONS", "propose", "What the sensor late_events does about events that are late for a "
            "finalized period: propose or launch the correction"),
    Setting("TALLY_VICTORIAMETRICS_URL", "", "URL of the VictoriaMetrics that holds sampled counters, such as "
            "http://metrics.example.com:8428; empty: none is asked"),
    Setting("TALLY_COUNTER_SOURCES", "", "File that says which counters it holds; needed with its URL"),
    Setting("TALLY_COUNTER_MAX_GAP_SECONDS", "3600", "Longest span without a sample of a counter; a longer one is a "
            "hole, which blocks finalization"),
    Setting("TALLY_COMPLETENESS_POLICY", "", "File that says which findings block finalization; empty: the shipped "
            "policy"),
    Setting("TALLY_DELIVERY_TARGETS", "", "File that says where finalized bills are delivered; empty: nowhere"),
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
    prices: Path | None = None
    web_port: int = 3000
    api_port: int = 8080
    api_workers: int = 2
    api_connections: int = 8
    api_statement_seconds: int = 120
    api_max_body_bytes: int = 16 * 1024 * 1024
    api_max_batch_events: int = 10_000
    unhealthy_after: timedelta = timedelta(seconds=600)
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_jwks_url: str = ""
    oidc_algorithms: tuple[str, ...] = ("RS256", "ES256")
    oidc_role_claim: str = "tally_role"
    oidc_projects_claim: str = "tally_projects"
    trusted_proxies: tuple[Network, ...] = ()
    certificate_header: str = "X-Client-Certificate-Subject"
    sync_max_deleted_percent: int = 10
    sync_every: timedelta = timedelta(minutes=10)
    silence: timedelta = timedelta(hours=24)
    corrections: str = "propose"
    victoriametrics_url: str = field(default="", repr=False)
    counter_sources: Path | None = None
    counter_max_gap: timedelta = timedelta(hours=1)
    completeness_policy: Path | None = None
    delivery_targets: Path | None = None
    provider_name: str = ""
    publisher_name: str = ""
    invoice_issuer_name: str = ""

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
                shown = name if convert in {_url, _metrics_url} else f"{name}={text[:60]!r}"  # a URL holds a password
                faults.append(f"{shown}: {error}")

        values = {
            "home": read("TALLY_HOME", _home),
            "reporting_url": read("TALLY_REPORTING_URL", _url),
            "metering_url": read("TALLY_METERING_URL", _url),
            "dagster_url": read("TALLY_DAGSTER_URL", _url),
            "zone": read("TALLY_ZONE", _zone),
            "grace": read("TALLY_GRACE_HOURS", lambda text: timedelta(hours=_count(text, HOURS_IN_TEN_YEARS))),
            "clock_skew": read("TALLY_CLOCK_SKEW_SECONDS", lambda text: timedelta(seconds=_count(text, A_DAY))),
            "prices": read("TALLY_PRICES", _path),
            "provider_name": read("TALLY_PROVIDER_NAME", _display_name),
            "publisher_name": read("TALLY_PUBLISHER_NAME", _display_name),
            "invoice_issuer_name": read("TALLY_INVOICE_ISSUER_NAME", _display_name),
            "web_port": read("TALLY_WEB_PORT", lambda text: _count(text, LAST_PORT)),
            "oidc_issuer": read("TALLY_OIDC_ISSUER", _web_url),
            "oidc_audience": read("TALLY_OIDC_AUDIENCE", str),
            "oidc_jwks_url": read("TALLY_OIDC_JWKS_URL", _web_url),
            "oidc_algorithms": read("TALLY_OIDC_ALGORITHMS", _algorithms),
            "oidc_role_claim": read("TALLY_OIDC_ROLE_CLAIM", str),
            "oidc_projects_claim": read("TALLY_OIDC_PROJECTS_CLAIM", str),
            "trusted_proxies": read("TALLY_TRUSTED_PROXIES", _networks),
            "certificate_header": read("TALLY_CERTIFICATE_HEADER", _header),
            "api_port": read("TALLY_API_PORT", lambda text: _count(text, LAST_PORT)),
            "api_workers": read("TALLY_API_WORKERS", lambda text: _count(text, 64, least=1)),
            "api_connections": read("TALLY_API_CONNECTIONS", lambda text: _count(text, 100, least=1)),
            "api_statement_seconds": read("TALLY_API_STATEMENT_SECONDS", lambda text: _count(text, A_DAY, least=1)),
            "api_max_body_bytes": read("TALLY_API_MAX_BODY_BYTES", lambda text: _count(text, A_GIBIBYTE, least=1024)),
            "api_max_batch_events": read("TALLY_API_MAX_BATCH_EVENTS", lambda text: _count(text, 100_000, least=1)),
            "unhealthy_after": read("TALLY_UNHEALTHY_SECONDS", lambda text: timedelta(seconds=_count(text, A_DAY))),
            "sync_max_deleted_percent": read("TALLY_SYNC_MAX_DELETED_PERCENT", lambda text: _count(text, 100)),
            "sync_every": read("TALLY_SYNC_MINUTES", lambda text: timedelta(minutes=_count(text, 10_080, least=1))),
            "silence": read("TALLY_SILENCE_HOURS", lambda text: timedelta(hours=_count(text, 8_760, least=1))),
            "corrections": read("TALLY_CORRECTIONS", _corrections),
            "victoriametrics_url": read("TALLY_VICTORIAMETRICS_URL", _metrics_url),
            "counter_sources": read("TALLY_COUNTER_SOURCES", _path),
            "counter_max_gap": read("TALLY_COUNTER_MAX_GAP_SECONDS", _span),
            "completeness_policy": read("TALLY_COMPLETENESS_POLICY", _path),
            "delivery_targets": read("TALLY_DELIVERY_TARGETS", _path),
        }
        if bool(values["oidc_issuer"]) != bool(values["oidc_audience"]):
            faults.append("TALLY_OIDC_ISSUER and TALLY_OIDC_AUDIENCE come together")
        if bool(values["victoriametrics_url"]) != bool(values["counter_sources"]):
            faults.append("TALLY_VICTORIAMETRICS_URL and TALLY_COUNTER_SOURCES come together")
        if faults:
            raise InvalidInput("settings: " + "; ".join(faults))
        return cls(**values)


# More is a mistake of units, and would lead out of the calendar.
HOURS_IN_TEN_YEARS = 87_600
A_DAY = 86_400  # in seconds
LAST_PORT = 65_535
A_GIBIBYTE = 2**30
LONGEST_DISPLAY_NAME = 200
MOST_GAP = 40 * A_DAY  # a sample a month is the least that can be metered

# With a symmetric algorithm, or none, whoever knows the public key could sign.
ASYMMETRIC = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
_FIELD_NAME = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)

# Set by Tally for its own subprocesses and by its tests and benchmarks; not settings of an installation.
INTERNAL = frozenset(
    {
        "TALLY_API_DEVELOPMENT",
        "TALLY_TEST_SERVER_URL",
        "TALLY_SHARED",
        "TALLY_BENCH_EVENTS",
        "TALLY_BENCH_PROJECTS",
        "TALLY_BENCH_SECONDS",
    }
)


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


def _count(text: str, most: int, least: int = 0) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) else -1
    if not least <= number <= most:
        raise ValueError(f"not a whole number from {least} to {most}")
    return number


def _web_url(text: str) -> str:
    """Accept an https URL, or http on the machine itself: keys that travel in the open can be exchanged."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # a port that is no number, brackets that do not close
        raise ValueError("not a URL such as https://id.example.com/realms/main") from None
    if not host or parts.username or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ValueError("not a URL such as https://id.example.com/realms/main")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ValueError("it has to begin with https://; http:// is for the machine itself alone")
    return text


def _metrics_url(text: str) -> str:
    """Accept the URL of a server of one's own network, with a path and a password if need be."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        good = bool(parts.hostname) and parts.scheme in {"http", "https"} and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ValueError("not a URL such as http://metrics.example.com:8428")
    return text


def _path(text: str) -> Path | None:
    return Path(text).expanduser().absolute() if text else None


def _display_name(text: str) -> str:
    if len(text) > LONGEST_DISPLAY_NAME or not text.isprintable() or text != text.strip():
        raise ValueError(f"not a name of at most {LONGEST_DISPLAY_NAME} printable characters")
    return text


def _corrections(text: str) -> str:
    if text not in {"propose", "launch"}:
        raise ValueError("write propose or launch")
    return text


def _span(text: str) -> timedelta:
    return timedelta(seconds=_count(text, MOST_GAP, least=1))


def text_of(setting: str, path: Path) -> str:
    """The text of the file that a setting names.

    Raises:
        InvalidInput: if it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{setting}: {path} cannot be read: {cause(error)}") from None


def is_loopback(host: str) -> bool:
    """Whether a name or address is always the machine itself."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _algorithms(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in ASYMMETRIC]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(sorted(ASYMMETRIC))}")
    return names


def _networks(text: str) -> tuple[Network, ...]:
    networks = tuple(ip_network(part.strip()) for part in text.split(",")) if text.strip() else ()
    if any(network.prefixlen == 0 for network in networks):
        raise ValueError("a network of all addresses would believe everybody; name those of the proxies")
    return networks


def _header(text: str) -> str:
    if not _FIELD_NAME.fullmatch(text) or text.lower() == "authorization":
        raise ValueError("not a name of a header of its own: letters, digits and dashes")
    return text
