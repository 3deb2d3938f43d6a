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
