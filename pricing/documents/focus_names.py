"""How resource types and metrics are called in FOCUS: services with their categories, and units (focus.yaml)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml

_GIGABYTES = ("GB", "GB")  # data sizes are their own plural
_UNITS = ("Unit", "Units")


class Service(NamedTuple):
    """A service as FOCUS names and files it."""

    name: str
    category: str
    subcategory: str


@dataclass(frozen=True, slots=True)
class FocusNames:
    """The tables of focus.yaml."""

    services: Mapping[tuple[str, str], Service]  # by (platform, resource type)
    adjustments: Service
    units: Mapping[str, tuple[str, str]]         # by metric: singular, plural

    def service(self, platform: str, resource_type: str) -> Service:
        """Name the service that a resource type is."""
        listed = self.services.get((platform, resource_type))
        return listed or Service(f"{platform} {resource_type}", "Other", "Other (Other)")

    def service_of_scope(self, scope: str) -> Service:
        """Name what an adjustment applies to: the service of ``platform.resource_type``, or adjustments for ``all``."""
        platform, dot, resource_type = scope.partition(".")
        return self.service(platform, resource_type) if dot else self.adjustments

    def unit(self, metric: str, *, over_time: bool) -> str:
        """Name the unit that a metric is priced in, in FOCUS's unit format: GB-Hours, GB, Pulls."""
        singular, plural = self.units.get(metric, _GIGABYTES if metric.endswith("_gb") else _UNITS)
        return f"{singular}-Hours" if over_time else plural


@cache
def shipped_names() -> FocusNames:
    """Read the table that ships with Tally."""
    table = yaml.safe_load(files("pricing.documents").joinpath("focus.yaml").read_text(encoding="utf-8"))
    services = {
        (platform, resource_type): Service(*service)
        for platform, types in table["services"].items()
        for resource_type, service in types.items()
    }
    units = {metric: (singular, plural) for metric, (singular, plural) in table["units"].items()}
    return FocusNames(services, Service(*table["adjustments"]), units)
