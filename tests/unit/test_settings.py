"""Settings are read once, with all faults told together, and passwords kept out of sight."""

from datetime import timedelta
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
            "TALLY_WEB_PORT": "8080",
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
        8080,
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
