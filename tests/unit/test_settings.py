"""Settings are read once, with all faults told together, and passwords kept out of sight."""

from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from tally.domain.errors import InvalidInput
from tally.settings import INTERNAL, SETTINGS, Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    """Nothing has to be set."""
    settings = Settings.from_environment({})
    assert settings.home.name == "tally"
    assert settings.home.is_absolute()
    assert (settings.reporting_url, settings.metering_url, settings.dagster_url) == ("", "", "")
    assert (settings.zone, settings.grace, settings.web_port) == ("UTC", timedelta(hours=72), 3000)
    assert settings.clock_skew == timedelta(minutes=5)


def test_every_setting_is_read() -> None:
    """Each row of SETTINGS changes what it names."""
    settings = Settings.from_environment(
        {
            "TALLY_HOME": "/srv/tally",
            "TALLY_REPORTING_URL": "postgresql://a/r",
            "TALLY_METERING_URL": "postgresql://a/m",
            "TALLY_DAGSTER_URL": "postgresql://a/d",
            "TALLY_ZONE": "Europe/Berlin",
            "TALLY_GRACE_HOURS": "0",
            "TALLY_CLOCK_SKEW_SECONDS": "60",
            "TALLY_PRICES": "/etc/tally/prices",
            "TALLY_WEB_PORT": "8080",
            "TALLY_OIDC_ISSUER": "https://id.example.com/realms/main",
            "TALLY_OIDC_AUDIENCE": "tally",
            "TALLY_OIDC_JWKS_URL": "https://id.example.com/keys",
            "TALLY_OIDC_ALGORITHMS": "PS256, EdDSA",
            "TALLY_OIDC_ROLE_CLAIM": "https://example.com/role",
            "TALLY_OIDC_PROJECTS_CLAIM": "projects",
            "TALLY_TRUSTED_PROXIES": "10.0.0.0/24, ::1",
            "TALLY_CERTIFICATE_HEADER": "X-Subject",
            "TALLY_SYNC_MAX_DELETED_PERCENT": "25",
            "TALLY_SYNC_MINUTES": "5",
            "TALLY_SILENCE_HOURS": "6",
            "TALLY_CORRECTIONS": "launch",
            "TALLY_VICTORIAMETRICS_URL": "http://metrics.example.com:8428/select/0/prometheus",
            "TALLY_COUNTER_SOURCES": "/etc/tally/counters.yaml",
            "TALLY_COUNTER_MAX_GAP_SECONDS": "7200",
            "TALLY_PROVIDER_NAME": "Example Cloud",
            "TALLY_PUBLISHER_NAME": "Example Software",
            "TALLY_INVOICE_ISSUER_NAME": "Example Billing GmbH",
        }
    )
    assert settings == Settings(
        Path("/srv/tally"),
        "postgresql://a/r",
        "postgresql://a/m",
        "postgresql://a/d",
        "Europe/Berlin",
        timedelta(0),
        timedelta(seconds=60),
        Path("/etc/tally/prices"),
        8080,
        oidc_issuer="https://id.example.com/realms/main",
        oidc_audience="tally",
        oidc_jwks_url="https://id.example.com/keys",
        oidc_algorithms=("PS256", "EdDSA"),
        oidc_role_claim="https://example.com/role",
        oidc_projects_claim="projects",
        trusted_proxies=(ip_network("10.0.0.0/24"), ip_network("::1/128")),
        certificate_header="X-Subject",
        sync_max_deleted_percent=25,
        sync_every=timedelta(minutes=5),
        silence=timedelta(hours=6),
        corrections="launch",
        victoriametrics_url="http://metrics.example.com:8428/select/0/prometheus",
        counter_sources=Path("/etc/tally/counters.yaml"),
        counter_max_gap=timedelta(hours=2),
        provider_name="Example Cloud",
        publisher_name="Example Software",
        invoice_issuer_name="Example Billing GmbH",
    )
    assert len(SETTINGS) == len(Settings.__dataclass_fields__)


def test_all_faults_are_told_together() -> None:
    """Whoever mends settings mends them once; a misspelt one is a fault, not silence."""
    with pytest.raises(InvalidInput) as caught:
        Settings.from_environment(
            {"TALLY_ZONE": "Mars", "TALLY_GRACE_HOURS": "-1", "TALLY_GRACE_HOUR": "1", "PATH": "/"}
        )
    for fault in ("TALLY_ZONE='Mars'", "TALLY_GRACE_HOURS='-1'", "TALLY_GRACE_HOUR is not a setting"):
        assert fault in str(caught.value)


@pytest.mark.parametrize("name", sorted(INTERNAL))
def test_what_tests_set_is_no_fault(name: str) -> None:
    """The variables of the tests may be set while a command runs."""
    assert Settings.from_environment({name: "x"}) == Settings.from_environment({})


def test_passwords_stay_out_of_repr() -> None:
    """A settings object in a log tells no password."""
    settings = Settings.from_environment({"TALLY_REPORTING_URL": "postgresql://tally:hunter2@db/r"})
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "postgrsql://u:hunter2@h/db",
        "mysql://u:hunter2@h/db",
        "postgresql+psycopg2://u:hunter2@h/db",
        "host=h password=hunter2 dbname=db",
        "postgresql://u:hunter2@h",
        "postgresql://u:p@hunter2@h/db",
        "postgresql://u:p@hunter2:x@h/db",
        "postgresql://u:hunter2%zz@h/db",
        "postgresql://u:hunter2@h/db?hunter2=1",
    ],
)
@pytest.mark.parametrize("name", ["TALLY_REPORTING_URL", "TALLY_METERING_URL", "TALLY_DAGSTER_URL"])
def test_a_faulty_url_is_told_by_its_name_alone(name: str, url: str) -> None:
    """Whatever is wrong with it may be, or stand beside, the password."""
    with pytest.raises(InvalidInput) as caught:
        Settings.from_environment({name: url})
    assert f"{name}: not a URL such as postgresql://" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p%40ss@h:5432/db",
        "postgres://h/db?sslmode=require",
        "postgresql://u@/db?host=/run/postgresql&port=5433",
        "postgresql://a:5432,b:5433/db?target_session_attrs=read-write",
        "postgresql://u@[::1]:5432/db",
    ],
)
def test_every_form_of_url_that_libpq_reads_is_taken(url: str) -> None:
    """TCP, sockets, several hosts, IPv6."""
    assert Settings.from_environment({"TALLY_METERING_URL": url}).metering_url == url


@pytest.mark.parametrize("name", ["TALLY_GRACE_HOURS", "TALLY_CLOCK_SKEW_SECONDS", "TALLY_WEB_PORT"])
@pytest.mark.parametrize("number", ["99999999999999999999", "9" * 5000, "-1", "1.5", "1_0", "ten", "\u0663"])
def test_numbers_are_whole_and_stay_within_the_calendar(name: str, number: str) -> None:
    """A number beyond its range is a fault of the settings, not an accident of the arithmetic later on."""
    with pytest.raises(InvalidInput, match=f"{name}=.*not a whole number from 0 to"):
        Settings.from_environment({name: number})


def test_a_home_of_nobody_is_a_fault() -> None:
    """The shell would not have expanded it either."""
    with pytest.raises(InvalidInput, match="TALLY_HOME="):
        Settings.from_environment({"TALLY_HOME": "~no-such-user/tally"})


@pytest.mark.parametrize("name", ["TALLY_OIDC_ISSUER", "TALLY_OIDC_JWKS_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "http://id.example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://10.0.0.1",
        "file:///etc/passwd",
        "https://",
        "https://user:hunter2@id.example.com",
        "https://id.example.com/?a=b",
        "https://id.example.com/#a",
        "https://id.example.com:port",
        "https://[::1",
        "https://id.example.com/ a",
        "id.example.com",
    ],
)
def test_keys_do_not_travel_in_the_open(name: str, url: str) -> None:
    """Whoever could exchange the keys of the issuer could be anybody."""
    with pytest.raises(InvalidInput, match=f"{name}="):
        Settings.from_environment({name: url, "TALLY_OIDC_AUDIENCE": "tally"})


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "127.8.8.8", "[::1]:8080"])
def test_an_issuer_of_the_machine_itself_may_speak_http(host: str) -> None:
    """For development."""
    url = f"http://{host}/realms/main"
    settings = Settings.from_environment({"TALLY_OIDC_ISSUER": url, "TALLY_OIDC_AUDIENCE": "tally"})
    assert settings.oidc_issuer == url


@pytest.mark.parametrize("names", ["none", "HS256", "RS256,HS256", "RS256,", "rs256", "RS256;ES256"])
def test_signatures_are_asymmetric(names: str) -> None:
    """With another one, the public key would sign."""
    with pytest.raises(InvalidInput, match="TALLY_OIDC_ALGORITHMS="):
        Settings.from_environment({"TALLY_OIDC_ALGORITHMS": names})


@pytest.mark.parametrize("given", ["TALLY_OIDC_ISSUER", "TALLY_OIDC_AUDIENCE"])
def test_an_issuer_needs_an_audience(given: str) -> None:
    """Without one, a token that was made for another service would do here."""
    with pytest.raises(InvalidInput, match="TALLY_OIDC_ISSUER and TALLY_OIDC_AUDIENCE come together"):
        Settings.from_environment({given: "https://id.example.com"})


@pytest.mark.parametrize("networks", ["0.0.0.0/0", "::/0", "10.0.0.1/24", "proxy", "10.0.0.0/24,", "10.0.0.0-10.0.0.9"])
def test_proxies_are_named_by_their_networks(networks: str) -> None:
    """Not all addresses, no names, no host bits that are a slip."""
    with pytest.raises(InvalidInput, match="TALLY_TRUSTED_PROXIES="):
        Settings.from_environment({"TALLY_TRUSTED_PROXIES": networks})


@pytest.mark.parametrize("name", ["Authorization", "X Subject", "X-Subject:", "X_Subject", "\u00e4"])
def test_a_header_has_a_name_of_its_own(name: str) -> None:
    """With an underscore some proxies would drop or confuse it."""
    with pytest.raises(InvalidInput, match="TALLY_CERTIFICATE_HEADER="):
        Settings.from_environment({"TALLY_CERTIFICATE_HEADER": name})


def test_counters_need_a_server_and_their_sources() -> None:
    """One without the other would meter nothing in silence; a password is not shown."""
    for alone in ({"TALLY_VICTORIAMETRICS_URL": "http://vm:8428"}, {"TALLY_COUNTER_SOURCES": "counters.yaml"}):
        with pytest.raises(InvalidInput, match="TALLY_VICTORIAMETRICS_URL and TALLY_COUNTER_SOURCES come together"):
            Settings.from_environment(alone)


@pytest.mark.parametrize(
    "url", ["vm:8428", "ftp://vm", "http://", "http://u:secret@vm:x", "http://vm?secret", "http://a b"]
)
def test_what_is_no_url_of_a_metrics_server_is_refused(url: str) -> None:
    """Without telling it: it may hold a password."""
    with pytest.raises(InvalidInput, match="TALLY_VICTORIAMETRICS_URL: not a URL such as") as caught:
        Settings.from_environment({"TALLY_VICTORIAMETRICS_URL": url, "TALLY_COUNTER_SOURCES": "counters.yaml"})
    assert "secret" not in str(caught.value)
