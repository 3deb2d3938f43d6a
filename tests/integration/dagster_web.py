"""A real Dagster: webserver and daemon as ``tally up`` starts them, asked over GraphQL as the web interface asks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.conftest import REPOSITORY
from tests.integration.api_process import free_port

PATIENCE = 420  # seconds; only a Dagster that hangs needs them

_ASSETS = "{ assetNodes { assetKey { path } isMaterializable } }"
_BACKFILL = """mutation ($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_RUNS = """{ runsOrError { ... on Runs { results {
    runId jobName status startTime endTime tags { key value } } } } }"""
_TICKS = """query ($selector: InstigationSelector!) { instigationStateOrError(instigationSelector: $selector) {
    ... on InstigationState { status ticks(limit: 5) { status skipReason error { message } } } } }"""
_CHECKS = """query ($key: AssetKeyInput!, $check: String!) { assetCheckExecutions(assetKey: $key, checkName: $check,
    limit: 5) { status evaluation { success partition description } } }"""
_FAILURES = """query ($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
    ... on ExecutionStepFailureEvent { stepKey error { message cause { message } } } } } } }"""


@dataclass(frozen=True)
class DagsterWeb:
    """The webserver on a port of the loopback interface, and the process of ``tally up``."""

    address: str
    process: "subprocess.Popen[bytes]"

    def ask(self, query: str, **variables: Any) -> Any:
        """The data of a GraphQL answer without errors."""
        body = {"query": query, "variables": variables}
        answer = requests.post(f"{self.address}/graphql", json=body, timeout=60).json()
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def materializable(self) -> list[Sequence[str]]:
        """Keys of the assets that "Materialize all" selects."""
        return [node["assetKey"]["path"] for node in self.ask(_ASSETS)["assetNodes"] if node["isMaterializable"]]

    def backfill(self, *partitions: str) -> str:
        """Materialize all assets of some months, as the button of the asset graph does."""
        selection = [{"path": path} for path in self.materializable()]
        params = {"assetSelection": selection, "partitionNames": partitions}
        launched = self.ask(_BACKFILL, params=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    def runs(self, **tags: str) -> list[dict[str, Any]]:
        """Runs with these tags (an underscore stands for a slash); their tags as a mapping, the oldest first."""
        wanted = {name.replace("_", "/"): value for name, value in tags.items()}
        runs = self.ask(_RUNS)["runsOrError"]["results"]
        for run in runs:
            run["tags"] = {tag["key"]: tag["value"] for tag in run["tags"]}
        return [run for run in reversed(runs) if wanted.items() <= run["tags"].items()]

    def failures(self, run_id: str) -> list[Any]:
        """The steps of a run that failed, with the reason."""
        return [event for event in self.ask(_FAILURES, run=run_id)["logsForRun"]["events"] if event]

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        """The last ticks of a sensor."""
        selector = {
            "name": sensor,
            "repositoryName": "__repository__",
            "repositoryLocationName": "tally",
        }
        return list(self.ask(_TICKS, selector=selector)["instigationStateOrError"]["ticks"])

    def verdicts(self, asset: str, check: str) -> list[dict[str, Any]]:
        """The last verdicts of a check, the newest first."""
        executions = self.ask(_CHECKS, key={"path": [asset]}, check=check)["assetCheckExecutions"]
        return [each["evaluation"] for each in executions if each["evaluation"]]

    def told(self, sensor: str, asset: str, check: str) -> list[dict[str, Any]]:
        """The verdicts that a sensor has reported, or none yet; after a tick that failed the next is minutes away."""
        failed = [tick["error"] for tick in self.ticks(sensor) if tick["status"] == "FAILURE"]
        assert not failed, failed
        return self.verdicts(asset, check)


def eventually(what: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Wait until something is there and return it."""
    deadline = time.monotonic() + patience
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.5)
    return found


@contextmanager
def dagster_up(environment: Mapping[str, str], log: Path, port: int | None = None) -> Iterator[DagsterWeb]:
    """``tally up`` for a block, on a port that is free or on this one."""
    port = port or free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "tally"), "up"],
            env=os.environ | dict(environment) | {"TALLY_WEB_PORT": str(port)},
            cwd=REPOSITORY,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: process.poll() is not None or b"Ctrl-C" in log.read_bytes())
        assert process.poll() is None, log.read_text()
        yield DagsterWeb(f"http://127.0.0.1:{port}", process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
