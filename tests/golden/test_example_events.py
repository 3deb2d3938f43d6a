"""The example month itself: its events are what the registry knows, and the model finds the printed usage in them.

This is the worked examples' second proof, without a database: what fails here is wrong in the data or in the model.
"""

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml

from tally import providers
from tally.domain.event import Event, decode_event
from tally.domain.instants import format_instant, parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.resource_type import ResourceType
from tally.example import EVENTS, PROJECTS
from tests.golden.closed_month import USAGE_EXAMPLES, ClosedMonth, expected
from tests.golden.comparison import differences
from tests.histories import Resource
from tests.model import Model, Record, Usage

MARCH = BillingPeriod.parse("2026-03")


def registered_types() -> Mapping[tuple[str, str], ResourceType]:
    """The resource types that ship with the providers."""
    files = sorted(Path(providers.__path__[0]).glob("*/resource_types.yaml"))
    return {
        (file.parent.name, name): ResourceType.from_definition(file.parent.name, name, 1, definition)
        for file in files
        for name, definition in yaml.safe_load(file.read_text()).items()
    }


TYPES = registered_types()
EXAMPLE = [decode_event(line) for line in EVENTS.read_bytes().splitlines()]


def record(event: Event) -> Record:
    """What an event says of the timeline of its resource."""
    transition = TYPES[event.platform, event.resource_type].transition(event.event_type)
    return Record(
        timestamp=event.timestamp,
        event_id=event.event_id,
        effect=transition.effect,
        source=event.source,
        project_id=event.project_id,
        size=event.payload.get("size"),
        state=event.payload.get("state", transition.state),
        usage={name: Decimal(value) for name, value in event.payload.get("usage", {}).items()},
    )


def models() -> Mapping[Resource, Model]:
    """The model of every resource in the example."""
    histories: dict[Resource, list[Record]] = defaultdict(list)
    for event in EXAMPLE:
        histories[event.resource].append(record(event))
    return {resource: Model(history) for resource, history in histories.items()}


def usage_record(resource: Resource, platform: str, usage: Usage) -> dict[str, object]:
    """A record of the model in the form of the requirement's documents."""
    cloud, resource_type, resource_id = resource
    minutes = Decimal(usage.length_us) / 60_000_000
    return {
        "cloud": cloud,
        "platform": platform,
        "project_id": usage.configuration.project_id,
        "resource_type": resource_type,
        "resource_id": resource_id,
        "state": usage.configuration.state,
        "from": format_instant(usage.from_ts),
        "to": format_instant(usage.to_ts),
        "usage": {"minutes": minutes, **usage.configuration.size, **usage.counters},
    }


@pytest.fixture(scope="module")
def modelled_month() -> ClosedMonth:
    """March as the model meters it, without bills."""
    platforms = {event.cloud: event.platform for event in EXAMPLE}
    return ClosedMonth(
        billing_period={"from": format_instant(MARCH.start), "to": format_instant(MARCH.end)},
        usage_records=[
            usage_record(resource, platforms[resource[0]], usage)
            for resource, model in models().items()
            for usage in model.usage(MARCH.start, MARCH.end)
        ],
        bills={},
        outputs_hash="",
        documents_hash="",
    )


@pytest.mark.parametrize(("name", "cloud"), USAGE_EXAMPLES.items(), ids=USAGE_EXAMPLES)
def test_the_model_finds_the_usage_of_the_requirement(modelled_month: ClosedMonth, name: str, cloud: str) -> None:
    """Rules 8 to 15: the independent model agrees with the worked examples."""
    document = expected(name)
    resources = {usage["resource_id"] for usage in document["usage_records"]}
    assert differences(document, modelled_month.usage_document(cloud, document["project_id"], resources)) == []


def test_the_example_leaves_nothing_to_complain_about() -> None:
    """Every lifetime begins with a create, and no event is an anomaly."""
    assert {resource: model.anomalies for resource, model in models().items() if model.anomalies} == {}
    assert not any(life.open_left for model in models().values() for life in model.lifetimes)


def test_every_resource_of_the_example_lives_through_all_of_march() -> None:
    """Coverage: 44,640 minutes for each, since all were created before and outlive it."""
    lengths = {
        resource: sum(usage.length_us for usage in model.usage(MARCH.start, MARCH.end))
        for resource, model in models().items()
    }
    assert set(lengths.values()) == {MARCH.length_us}


def test_example_events_are_unique_and_fit_their_resource_types() -> None:
    """Rules 1 and 6: distinct identities, known event types, valid sizes, registered counters."""
    assert len({(event.cloud, event.event_id) for event in EXAMPLE}) == len(EXAMPLE)
    for event in EXAMPLE:
        resource_type = TYPES[event.platform, event.resource_type]
        assert event.event_type in resource_type.lifecycle
        assert set(event.payload.get("usage", {})) <= resource_type.counters
        if "size" in event.payload:
            jsonschema.validate(event.payload["size"], dict(resource_type.size))


def test_every_project_of_the_example_is_registered_and_relations_join_registered_ones() -> None:
    """No project is billed unknown, and the shoot's infrastructure is attributed in March."""
    registry = yaml.safe_load(PROJECTS.read_text())
    known = {(project["platform"], f"{project['cloud']}/{project['external_id']}") for project in registry["projects"]}
    assert known == {(event.platform, f"{event.cloud}/{event.project_id}") for event in EXAMPLE}
    names = {name for _, name in known}
    assert all({relation["source"], relation["target"]} <= names for relation in registry["relations"])
    [tenancy] = [r for r in registry["relations"] if r["relation_type"] == "infrastructure_tenant"]
    assert parse_instant(tenancy["valid_from"]) < MARCH.start
    assert parse_instant(tenancy["valid_to"]) > MARCH.end
