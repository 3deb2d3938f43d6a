"""The worked examples beside the models (given, expect) hold on a migrated database."""

from resources.dbt_runner import invoke
from resources.manifest import manifest_for

MODELS = "staging intermediate marts"


def test_the_worked_examples_of_the_models_hold(metering_url: str, tally_home: None) -> None:  # noqa: ARG001
    """Each unit test has rows of its own; the models, empty without a run, only tell dbt the types of their columns."""
    manifest = manifest_for(metering_url)
    invoke(["run", "--select", *MODELS.split(), "--no-write-json"], metering_url, manifest)
    outcome = invoke(["test", "--select", "test_type:unit", "--no-write-json"], metering_url, manifest)
    assert [result.node.name for result in outcome.results if result.status != "pass"] == []
    assert {result.node.tested_node_unique_id.rpartition(".")[2] for result in outcome.results} == {
        "int_intervals_first_half",
        "int_usage_increments",
        "int_usage_records",
        "int_rated_records",
        "project_costs_daily",
        "project_corrections",
        "price_versions",
    }
