"""The code location as a readable list: a change of the graph is a change of definitions.txt that somebody reviews.

After a change that is meant: `python tests/unit/tally_dagster/test_definitions.py` writes the list anew.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import Definitions

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


if __name__ == "__main__":
    os.environ.setdefault("TALLY_HOME", tempfile.mkdtemp())
    SNAPSHOT.write_text(described(built()), encoding="utf-8")
