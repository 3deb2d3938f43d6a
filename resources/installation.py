"""What the installation decides about periods: their zone and their grace, and what watches over them.

Default: tally.settings.
"""

from datetime import timedelta

from dagster import ConfigurableResource

from tally.domain.completeness import Policy
from tally.domain.period import BillingPeriod
from tally.services.completeness_policy import read_policy
from tally.settings import Settings


class Installation(ConfigurableResource):  # type: ignore[type-arg]
    """Zone and grace of the billing periods; what is left empty comes from the environment."""

    zone: str = ""
    grace_hours: int | None = None
    corrections: str = ""

    @property
    def period_zone(self) -> str:
        """The zone of the billing periods."""
        return self.zone or Settings.from_environment().zone

    @property
    def launches_corrections(self) -> bool:
        """Whether what is late is corrected at once, or only proposed."""
        return (self.corrections or Settings.from_environment().corrections) == "launch"

    def period(self, partition_key: str) -> BillingPeriod:
        """The billing period of a partition such as 2026-03."""
        return BillingPeriod.parse(partition_key, self.period_zone)

    def policy(self) -> Policy:
        """Which findings block finalization."""
        return read_policy(Settings.from_environment().completeness_policy)

    @property
    def grace(self) -> timedelta:
        """How long after its end a period waits before it can be finalized."""
        if self.grace_hours is None:
            return Settings.from_environment().grace
        return timedelta(hours=self.grace_hours)
