"""The code location as a readable list: a change of the graph is a change of definitions.txt that somebody reviews.

After a change that is meant: `python tests/unit/tally_dagster/test_definitions.py` writes the list anew.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from dagster import (
    DagsterInstance,
    DagsterInvalidConfigError,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    Definitions,
)
from dagster._core.execution.api import create_execution_plan
from dagster._core.instance.config import PoolGranularity
from dagster._core.instance.ref import InstanceRef

from assets.steps import METERING_POOL
from tests.conftest import REPOSITORY

SNAPSHOT = Path(__file__).with_name("definitions.txt")


@pytest.fixture(scope="module")
def definitions() -> Iterator[Definitions]:
    """The definitions, built without any database."""
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLY_HOME", home)
        yield built()


def built() -> Definitions:
    from tally_dagster.definitions import build_definitions

    return build_definitions()


def described(definitions: Definitions) -> str:
    """Assets with what they are made from, checks, jobs, schedules and sensors, one line each."""
    graph = definitions.resolve_asset_graph()
    lines = ["assets (group: asset <- made from)"]
    for key in sorted(graph.get_all_asset_keys(), key=lambda key: (graph.get(key).group_name, key)):
        node = graph.get(key)
        parents = ", ".join(sorted(parent.to_user_string() for parent in node.parent_keys)) or "nothing"
        lines.append(f"  {node.group_name}: {key.to_user_string()} <- {parents}")
    lines.append("checks (asset: check)")
    for check in sorted(graph.asset_check_keys, key=lambda check: (check.asset_key, check.name)):
        blocking = "" if graph.get(check).blocking else " (does not block)"
        lines.append(f"  {check.asset_key.to_user_string()}: {check.name}{blocking}")
    lines.append("jobs")
    lines += [f"  {job.name}" for job in sorted(definitions.jobs or (), key=lambda job: job.name)]
    lines.append("schedules")
    lines += [f"  {schedule.name}" for schedule in definitions.schedules or ()]
    lines.append("sensors")
    lines += [f"  {sensor.name}" for sensor in definitions.sensors or ()]
    return "\n".join(lines) + "\n"


def offered(definitions: Definitions, job: str) -> dict[str, list[str]]:
    """The settings of resources that the launchpad offers for a job."""
    config = definitions.resolve_job_def(job).run_config_schema.config_type.fields["resources"].config_type
    return {
        name: sorted(getattr(part.config_type.fields["config"].config_type, "fields", {"anything": None}))
        for name, part in config.fields.items()
        if name != "io_manager"  # which no step uses
    }


def test_who_launches_a_run_sets_neither_its_clock_nor_its_grace_nor_its_databases(definitions: Definitions) -> None:
    """By the launchpad a month could else be finalized before its grace is over."""
    jobs = [*(job.name for job in definitions.jobs or ()), "__ASSET_JOB"]
    for job in jobs:
        resources = offered(definitions, job)
        assert {"clock", "databases", "installation", "metering"} <= resources.keys()
        assert {name: settings for name, settings in resources.items() if settings} == {}
    with pytest.raises(DagsterInvalidConfigError, match='unexpected config entry "instant"'):
        create_execution_plan(
            definitions.resolve_job_def("finalize_month"),
            {"resources": {"clock": {"config": {"instant": "2030-01-01T00:00:00Z"}}}},
        )


def test_no_setting_of_a_run_is_read_from_a_variable_of_the_process(definitions: Definitions) -> None:
    """An error could tell its value, such as a password, to whoever launches the run."""
    for job in [*(job.name for job in definitions.jobs or ()), "__ASSET_JOB"]:
        steps = definitions.resolve_job_def(job).run_config_schema.config_type.fields["ops"].config_type
        assert [kind.key for kind in steps.type_iterator() if "Source" in kind.key] == []
    with pytest.raises(DagsterInvalidConfigError, match="config:cloud"):
        create_execution_plan(
            definitions.resolve_job_def("reconcile"),
            {"ops": {"sync_cloud": {"config": {"cloud": {"env": "TALLY_METERING_URL"}}}}},
        )


def test_the_graph_is_the_one_that_was_reviewed(definitions: Definitions) -> None:
    """Asset keys, lineage, checks, jobs, schedules and sensors are those of definitions.txt."""
    assert described(definitions) == SNAPSHOT.read_text(encoding="utf-8")


def test_every_asset_says_what_it_is(definitions: Definitions) -> None:
    """Lineage is readable: each asset has a description, a group of its own kind and monthly partitions."""
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.description, key
        assert node.group_name != "default", key
        assert node.partitions_def is not None, key


@pytest.mark.parametrize("name", ["close_month", "finalize_month"])
def test_whatever_meters_or_finalizes_waits_in_one_pool(definitions: Definitions, name: str) -> None:
    """One run at a time, by the queue and not by processes that wait for a lock; a step that is forgotten would not."""
    nodes = definitions.resolve_job_def(name).all_node_defs
    assert {node.name for node in nodes if node.pools != {METERING_POOL}} == set()


def test_the_instance_that_is_shipped_lets_one_run_into_a_pool_and_one_reconcile_a_cloud() -> None:
    """deploy/dagster.yaml, as Dagster reads it."""
    told = yaml.safe_load((REPOSITORY / "deploy" / "dagster.yaml").read_text(encoding="utf-8"))
    memory = {"storage": {"sqlite": {"base_dir": tempfile.mkdtemp()}}}
    with DagsterInstance.from_ref(InstanceRef.from_dir(tempfile.mkdtemp(), overrides=told | memory)) as instance:
        concurrency = instance.get_concurrency_config()
    assert (concurrency.pool_config.default_pool_limit, concurrency.pool_config.pool_granularity) == (
        1, PoolGranularity.RUN,
    )
    assert concurrency.run_queue_config is not None
    assert concurrency.run_queue_config.tag_concurrency_limits == [
        {"key": "tally/cloud", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
    ]


def test_an_overdue_close_shows_as_stale(definitions: Definitions) -> None:
    """Freshness belongs to what a close makes in the end."""
    graph = definitions.resolve_asset_graph()
    fresh = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).freshness_policy}
    assert fresh == {"completed_run"}


def test_what_changes_the_ledger_is_switched_on_by_a_person(definitions: Definitions) -> None:
    """What only tells, and reconciliation, run from the start."""
    runs = {each.name for each in definitions.sensors or () if each.default_status is DefaultSensorStatus.RUNNING}
    assert runs == {"late_events", "reconciliation", "ingest_silence"}
    (month_to_date,) = definitions.schedules or ()
    assert month_to_date.default_status is DefaultScheduleStatus.STOPPED


if __name__ == "__main__":
    os.environ.setdefault("TALLY_HOME", tempfile.mkdtemp())
    SNAPSHOT.write_text(described(built()), encoding="utf-8")
