"""dbt as a resource of Dagster: builds models for a run, and says what each came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import simplejson
from dagster import ConfigurableResource, ResourceDependency
from pydantic import PrivateAttr

from resources.databases import Databases
from resources.dbt_runner import invoke
from resources.manifest import derivation, manifest_for


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What building one model came to."""

    name: str
    rows: int | None  # None for a view
    seconds: float


class Dbt(ConfigurableResource):  # type: ignore[type-arg]
    """Builds models in the metering database."""

    databases: ResourceDependency[Databases]
    _manifest: Any = PrivateAttr(default=None)

    def run(self, models: Sequence[str], variables: Mapping[str, str], command: str = "run") -> list[ModelResult]:
        """Build models, with ``command="build"`` also testing their data.

        Raises:
            DbtError: naming the first model or test that failed.
        """
        selection = ["--select", *models, "--vars", simplejson.dumps(dict(variables))]
        if command == "build":
            # Tests of views that read every month whole have a tag of their own: a close does not wait for them.
            selection += ["--exclude-resource-type", "unit_test", "--exclude", "tag:whole_months"]
        outcome = invoke([command, *selection, "--no-write-json"], self.databases.metering(), self._parsed())
        return [
            ModelResult(result.node.name, _rows(result.adapter_response), result.execution_time)
            for result in outcome.results
            if result.node.resource_type == "model"
        ]

    def derivation(self) -> str:
        """Hash of the SQL by which timelines are derived."""
        return derivation(self._parsed())

    def _parsed(self) -> Any:
        self._manifest = self._manifest or manifest_for(self.databases.metering())
        return self._manifest


def _rows(response: Mapping[str, Any]) -> int | None:
    rows = response.get("rows_affected")
    return int(rows) if isinstance(rows, int) and rows >= 0 else None
