"""What dbt is told of the URL of a database."""

import pytest

from resources.dbt_runner import profile_environment
from tally.domain.errors import InvalidInput


def test_dbt_connects_as_the_url_says() -> None:
    """Of several hosts to the same one as every other part: a standby takes no writes."""
    told = profile_environment("postgresql://u:p@a,b/metering?target_session_attrs=read-write&sslmode=verify-full")
    asked = ("DBT_TALLY_HOST", "DBT_TALLY_PORT", "PGTARGETSESSIONATTRS", "PGSSLMODE")
    assert [told[name] for name in asked] == ["a,b", "5432", "read-write", "verify-full"]
    assert "PGPASSWORD" not in told


def test_hosts_on_several_ports_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one port for all hosts of a URL, not 5432, 5433"):
        profile_environment("postgresql://u@a,b:5433/metering")
