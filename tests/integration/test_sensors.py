"""The sensors on real databases: what they launch, what they only tell, and what they leave alone."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DagsterRunStatus, Definitions, SensorDefinition, build_sensor_context
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.test_utils import create_run_for_test

from resources.clock import Clock
from resources.databases import Databases
from resources.installation import Installation
from resources.platforms import Platforms
from tally.domain.errors import Refused
from tally.domain.inventory import AdapterFactory
from tally.services.clouds import register_cloud
from tally.store.database import Connection
from tally_dagster import jobs, sensors
from tests.integration.closing import SMALL, House, instance
from tests.integration.fake_platform import disk, volumes
from tests.integration.issuing import bill, finalized
from tests.integration.sending import send

NOW = "2026-05-01T00:00:00Z"


class Fakes(Platforms):
    """One platform with an adapter, which lists one volume."""

    def factories(self) -> dict[str, AdapterFactory]:
        return {"openstack": lambda _: volumes(disk())}


@lru_cache
def definitions() -> Definitions:
    """What the sensors belong to: Dagster looks up the months of their jobs there."""
    from tally_dagster.definitions import build_definitions

    return build_definitions()


@pytest.fixture(autouse=True)
def parsed(tally_home: None) -> None:
    """Dbt's project is parsed in the home of the tests."""


@pytest.fixture
def dagster() -> Iterator[DagsterInstance]:
    """Dagster's memory: empty."""
    with DagsterInstance.ephemeral() as empty:
        yield empty


def tick(
    sensor: SensorDefinition, dagster: DagsterInstance, databases: Databases, cursor: str | None = None, **more: Any
) -> SensorExecutionData:
    """Evaluate a sensor as the daemon does."""
    resources = {"databases": databases, "clock": Clock(instant=NOW), "installation": Installation(), **more}
    wanted = {name: resources[name] for name in sensor.required_resource_keys}
    context = build_sensor_context(dagster, cursor, definitions=definitions(), resources=wanted)
    data = sensor.evaluate_tick(context)
    for told in data.asset_events:
        dagster.report_runless_asset_event(told)
    return data


def months(data: SensorExecutionData) -> Sequence[str | None]:
    return [request.partition_key for request in data.run_requests or ()]


def of(house: House) -> Databases:
    return Databases(reporting_url=house.reporting_url, metering_url=house.metering_url)


class TestClosing:
    def test_a_month_that_waits_is_closed_by_its_own_key(self, dagster: DagsterInstance, house: House) -> None:
        """March was closed after its grace by hand; April's grace ends on 4 May."""
        assert tick(sensors.period_close, dagster, of(house)).skip_message == (
            "every month whose grace is over has been closed"
        )
        data = tick(sensors.period_close, dagster, of(house), clock=Clock(instant="2026-05-04T00:00:00Z"))
        assert [(request.run_key, request.partition_key) for request in data.run_requests or ()] == [
            ("close 2026-04", "2026-04")
        ]

    def test_a_closed_month_is_finalized_once_nothing_speaks_against_it(
        self, dagster: DagsterInstance, house: House
    ) -> None:
        """What speaks against it is told in the tick."""
        data = tick(sensors.period_finalization, dagster, of(house))
        (run_id,) = house.query("select 'finalize ' || id from ledger.runs")
        assert [(request.run_key, request.partition_key) for request in data.run_requests or ()] == [
            (*run_id, "2026-03")
        ]
        longer = Installation(grace_hours=24 * 365)
        waits = tick(sensors.period_finalization, dagster, of(house), installation=longer)
        assert waits.skip_message == "no closed month waits for its finalization"


    def test_what_was_launched_before_is_told_and_left_to_a_person(
        self, dagster: DagsterInstance, house: House
    ) -> None:
        """Dagster would skip the key without a word: after a close that failed, or where a backup knows of none."""
        (finalization,) = house.query("select 'finalize ' || id from ledger.runs")
        for key in ("close 2026-04", *finalization):
            create_run_for_test(dagster, status=DagsterRunStatus.FAILURE, tags={"dagster/run_key": key})
        closing = tick(sensors.period_close, dagster, of(house), clock=Clock(instant="2026-05-04T00:00:00Z"))
        finalizing = tick(sensors.period_finalization, dagster, of(house))
        for data, command in ((closing, "tally close 2026-04"), (finalizing, "tally finalize 2026-03")):
            assert not data.run_requests
            told = rf"launched once, by run \S+, now FAILURE; look at it, then call {command}$"
            assert re.search(told, data.skip_message or "")

    @pytest.mark.parametrize("sensor", [sensors.period_close, sensors.period_finalization, sensors.late_events])
    def test_over_half_a_history_nothing_is_launched_and_nothing_told_but_that(
        self, dagster: DagsterInstance, house: House, metering_url: str, sensor: SensorDefinition
    ) -> None:
        """The metering database is older than what it has taken over: ticks fail until both are brought together."""
        older = Databases(reporting_url=house.reporting_url, metering_url=metering_url)
        with pytest.raises(Refused, match="tally rebuild --events"):
            tick(sensor, dagster, older)


class TestLate:
    def test_what_is_late_is_proposed_once_in_the_check_and_corrected_only_where_that_is_wanted(
        self, dagster: DagsterInstance, house: House
    ) -> None:
        """S11, of whatever age. TALLY_CORRECTIONS=launch requests one run for the same news, none beside another."""
        assert house.launch("finalize_month").success
        before = tick(sensors.late_events, dagster, of(house))
        assert before.skip_message == "nothing is late for any finalized month"
        assert [event.passed for event in before.asset_events] == [True]  # type: ignore[union-attr]

        house.ingest(instance("late", "03-20T12:00:00", "delete.end", "i-2", project_id="p-2"))
        house.ingest(instance("april", "04-20T12:00:00", "create.end", "i-3", size=SMALL))
        proposed = tick(sensors.late_events, dagster, of(house), before.cursor)
        assert months(proposed) == []
        assert (proposed.skip_message or "").startswith("2026-03: 1 late event(s); look at it: tally late 2026-03")
        (told,) = proposed.asset_events
        assert (told.passed, told.description) == (False, proposed.skip_message)  # type: ignore[union-attr]
        assert not tick(sensors.late_events, dagster, of(house), proposed.cursor).asset_events

        launching = {"installation": Installation(corrections="launch")}
        launched = tick(sensors.late_events, dagster, of(house), proposed.cursor, **launching)
        again = tick(sensors.late_events, dagster, of(house), launched.cursor, **launching)
        assert months(launched) == months(again) == ["2026-03"]
        keys = [request.run_key for data in (launched, again) for request in data.run_requests or ()]
        assert len(set(keys)) == 1  # by which Dagster launches it once
        create_run_for_test(dagster, status=DagsterRunStatus.STARTED, tags={"dagster/partition": "2026-03"})
        assert months(tick(sensors.late_events, dagster, of(house), again.cursor, **launching)) == []


class TestClouds:
    @pytest.fixture
    def databases(self, reporting_url: str, metering_url: str) -> Databases:
        return Databases(reporting_url=reporting_url, metering_url=metering_url)

    def test_each_cloud_with_an_adapter_is_reconciled_by_one_run_at_a_time(
        self, dagster: DagsterInstance, reporting: Connection, databases: Databases
    ) -> None:
        """Without an adapter nothing is launched; a cloud whose run is under way waits."""
        for platform, cloud in (("openstack", "os-1"), ("openstack", "os-2"), ("harbor", "registry")):
            register_cloud(reporting, platform, cloud, "test")
        none = tick(sensors.reconciliation, dagster, databases, platforms=Platforms())
        assert none.skip_message == "no cloud with an adapter is due"
        create_run_for_test(dagster, status=DagsterRunStatus.STARTING, tags={"tally/cloud": "os-1"})
        data = tick(sensors.reconciliation, dagster, databases, platforms=Fakes())
        assert [request.tags["tally/cloud"] for request in data.run_requests or ()] == ["os-2"]

    def test_the_run_that_is_launched_reconciles_the_cloud(
        self, reporting: Connection, databases: Databases
    ) -> None:
        """The volume that no event told of is there afterwards."""
        from tally_dagster.definitions import build_definitions

        register_cloud(reporting, "openstack", "os-1", "test")
        fakes = build_definitions({"databases": databases, "clock": Clock(instant=NOW), "platforms": Fakes()})
        run_config = {"ops": {"sync_cloud": {"config": {"cloud": "os-1"}}}}
        assert fakes.resolve_job_def("reconcile").execute_in_process(run_config=run_config).success
        assert reporting.execute("select resource_id from reporting.current_resources").fetchall() == [("v-1",)]

    def test_a_cloud_whose_events_stopped_is_named(
        self, dagster: DagsterInstance, reporting: Connection, databases: Databases
    ) -> None:
        """A day after its last event. One that was never heard is none, and a synthetic event is no sign of life."""
        register_cloud(reporting, "openstack", "never", "test")
        send(reporting, instance("e-1", "04-29T00:00:00", "create.end", size=SMALL))
        recent = tick(sensors.ingest_silence, dagster, databases, clock=Clock(instant="2026-04-30T00:00:00Z"))
        assert recent.skip_message == "every cloud that has resources sends events"
        silent = tick(sensors.ingest_silence, dagster, databases, recent.cursor, clock=Clock(instant=NOW))
        (told,) = silent.asset_events
        assert not told.passed  # type: ignore[union-attr]
        assert (silent.skip_message or "").startswith("silent: os-prod-eu1. look at its")
        synthetic = instance("e-2", "04-30T12:00:00", "create.end", "i-9", size=SMALL)
        send(reporting, synthetic | {"event_type": "reconcile.create", "source": "reconciliation"})
        still = tick(sensors.ingest_silence, dagster, databases, silent.cursor)
        assert (still.skip_message, still.asset_events) == (silent.skip_message, [])


class TestDelivery:
    def test_documents_are_delivered_while_a_target_lacks_some(
        self,
        dagster: DagsterInstance,
        reporting_url: str,
        metering: Connection,
        metering_url: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """By one run at a time. A run that fails is launched again when the next attempt is due."""
        databases = Databases(reporting_url=reporting_url, metering_url=metering_url)
        assert tick(sensors.delivery, dagster, databases).skip_message == "TALLY_DELIVERY_TARGETS names none"
        (tmp_path / "targets.yaml").write_text(f"drop:\n  type: directory\n  from: 2026-03\n  path: {tmp_path}/drop\n")
        monkeypatch.setenv("TALLY_DELIVERY_TARGETS", str(tmp_path / "targets.yaml"))
        assert tick(sensors.delivery, dagster, databases).skip_message == "no target waits for documents"
        finalized(metering, bill("p-1", "1.00"))
        assert len(tick(sensors.delivery, dagster, databases).run_requests or ()) == 1
        assert not launched(databases, NOW)
        assert tick(sensors.delivery, dagster, databases).skip_message == "no target waits for documents"
        (tmp_path / "drop").mkdir()
        later = "2026-05-01T00:01:00Z"
        assert len(tick(sensors.delivery, dagster, databases, clock=Clock(instant=later)).run_requests or ()) == 1
        create_run_for_test(dagster, status=DagsterRunStatus.STARTED, tags={"tally/kind": "deliver"})
        busy = tick(sensors.delivery, dagster, databases, clock=Clock(instant=later))
        assert busy.skip_message == "drop: a delivery is under way"
        assert launched(databases, later)
        assert [path.suffix for path in (tmp_path / "drop" / "2026-03").iterdir()] == [".json"]


def launched(databases: Databases, now: str) -> bool:
    """Run the job that the sensor asks for; whether it has succeeded."""
    resources = {"databases": databases, "clock": Clock(instant=now)}
    return jobs.deliver_documents.execute_in_process(resources=resources, raise_on_error=False).success


def test_a_month_to_date_is_the_month_of_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schedule requests the running month."""
    from dagster import RunRequest, build_schedule_context

    from tally.domain.instants import parse_instant
    from tally_dagster.schedules import month_to_date

    monkeypatch.setenv("TALLY_ZONE", "Europe/Berlin")
    schedule = month_to_date()
    when = parse_instant("2026-04-01T04:00:00Z")
    context = build_schedule_context(scheduled_execution_time=when, repository_def=definitions().get_repository_def())
    (request,) = schedule.evaluate_tick(context).run_requests or ()
    assert isinstance(request, RunRequest)
    assert request.partition_key == "2026-04"
