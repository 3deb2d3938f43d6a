"""Great Expectations, asked for several invariants of a run at once.

What the invariants are belongs in tally.store.metering.checks. The import costs seconds, so it happens here only when
a check runs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2
from dagster import ConfigurableResource, ResourceDependency

from resources.databases import Databases

_SESSION = "-c timezone=UTC -c jit=off -c application_name=tally-checks"
_NAMELESS = "postgresql+psycopg2://tally@localhost/tally"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Great Expectations found out about one invariant."""

    name: str
    violations: int
    first_rows: Sequence[Mapping[str, Any]]  # cloud, resource_type, subject, detail

    @property
    def passed(self) -> bool:
        """Whether the invariant holds."""
        return self.violations == 0


class Expectations(ConfigurableResource):  # type: ignore[type-arg]
    """Validates queries for violating rows against the metering database; nothing is expected to be found."""

    databases: ResourceDependency[Databases]

    def validate_queries(self, queries: Mapping[str, str]) -> list[Verdict]:
        """Run all queries in one validation; each yields cloud, resource_type, subject, detail of what violates it.

        The batch is a temporary table of everything that was found, so that each query runs only once: Great
        Expectations evaluates an expectation twice, for the rows and for their number.
        """
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig
        from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

        connections: list[Any] = []

        def connect() -> Any:
            connections.append(psycopg2.connect(self.databases.metering(), options=_SESSION))
            return connections[-1]

        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        # It takes connections, not the URL: that may name a socket, which it refuses, and holds the password.
        source = context.data_sources.add_postgres(
            "metering",
            connection_string=_NAMELESS,
            create_temp_table=True,
            kwargs={"creator": connect},  # type: ignore[call-arg]
        )
        asset = source.add_query_asset("violations", query=_found(queries))
        batch = asset.add_batch_definition_whole_table("of the run")
        suite = gx.ExpectationSuite(
            name="invariants",
            expectations=[
                UnexpectedRowsExpectation(
                    unexpected_rows_query="select cloud, resource_type, subject, detail from {batch} "
                    f"where invariant = '{name}' order by cloud, resource_type, subject, detail",
                    meta={"name": name},
                )
                for name in queries
            ],
        )
        context.suites.add(suite)
        validation = gx.ValidationDefinition(name="run", data=batch, suite=suite)
        context.validation_definitions.add(validation)
        try:
            outcome = validation.run(result_format="COMPLETE")
        finally:
            # Great Expectations would keep them, and what was found in them, as long as the process lives.
            for connection in connections:
                connection.close()
        verdicts = {verdict.name: verdict for verdict in map(_verdict, outcome.results)}
        return [verdicts[name] for name in queries]


def _found(queries: Mapping[str, str]) -> str:
    return "\nunion all\n".join(
        f"select '{name}' as invariant, cloud, resource_type, subject, detail from (\n{query}\n) as violations"
        for name, query in queries.items()
    )


def _verdict(result: Any) -> Verdict:
    if result.exception_info and "exception_message" in str(result.exception_info) and not result.result:
        raise RuntimeError(str(result.exception_info))
    return Verdict(
        name=result.expectation_config.meta["name"],
        violations=int(result.result["observed_value"]),
        first_rows=list((result.result.get("details") or {}).get("unexpected_rows") or ()),
    )
