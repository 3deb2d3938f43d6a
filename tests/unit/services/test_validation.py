"""Payloads judged by their resource type: size, state, usage (rules 5 and 6; S12 to S15, S37, S43)."""

from decimal import Decimal
from typing import Any

import pytest

from tally.domain.errors import InvalidEvent
from tally.domain.event import decode_json, parse_event
from tally.domain.resource_type import Effect, ResourceType, Transition
from tally.services.validation import LONGEST_REMEMBERED, PayloadRules

SIZE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["ram_gb"],
    "properties": {
        "vcpus": {"type": "integer", "minimum": 0},
        "ram_gb": {"type": "number", "multipleOf": Decimal("0.1")},
        "type": {"enum": ["ssd", "hdd"]},
        "boot": {"type": "boolean"},
        "offset": {"type": "number"},
    },
}


def resource_type(**changes: Any) -> ResourceType:
    """A resource type with some keys changed."""
    definition = {"size": SIZE, "descriptive": ["offset"], "counters": ["egress_gb"]} | changes
    return ResourceType.from_definition("test", "thing", 1, definition)


def check(payload: str, effect: str = "create", rules: PayloadRules | None = None, **changes: Any) -> None:
    """Judge a payload."""
    fields = ("event_id", "event_type", "platform", "cloud", "resource_type", "resource_id", "project_id")
    event = dict.fromkeys(fields, "x") | {"timestamp": "2026-03-01T00:00:00Z", "payload": decode_json(payload.encode())}
    (rules or PayloadRules()).check(parse_event(event), Transition(Effect(effect)), resource_type(**changes))


def reason(payload: str, effect: str = "create", **changes: Any) -> tuple[str, str]:
    """Why a payload is refused."""
    with pytest.raises(InvalidEvent) as refusal:
        check(payload, effect, **changes)
    return refusal.value.reason, refusal.value.detail


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        '{"size": null, "state": null, "usage": null}',
        '{"size": {"ram_gb": 8}}',
        '{"size": {"ram_gb": 8.0, "vcpus": 4.0, "type": "ssd", "boot": true, "offset": -5}}',
        '{"size": {"ram_gb": 0.3}}',
        '{"size": {"ram_gb": 1000000000000000}}',
        '{"state": "ERROR"}',
        '{"usage": {"egress_gb": 0.000000000000000001}}',
        '{"usage": {"egress_gb": 1e15}}',
        '{"usage": {}}',
    ],
)
def test_a_fitting_payload_is_taken(payload: str) -> None:
    """Rule 5; S13: a state that nobody listed is taken as it is, and null says nothing."""
    check(payload)


@pytest.mark.parametrize(
    ("size", "named"),
    [
        ('"m1.large"', "object"),
        ("[]", "object"),
        ("{}", "ram_gb"),
        ('{"ram_mb": 8192}', "ram_"),
        ('{"ram_gb": "8"}', "ram_gb"),
        ('{"ram_gb": true}', "ram_gb"),
        ('{"ram_gb": 0.35}', "ram_gb.*multiple"),
        ('{"ram_gb": 8, "vcpus": 1.5}', "vcpus: 1.5 is not"),
        ('{"ram_gb": 8, "vcpus": true}', "vcpus"),
        ('{"ram_gb": 8, "vcpus": -1}', "vcpus is negative"),
        ('{"ram_gb": 8, "type": "SSD"}', "type"),
        ('{"ram_gb": 1000000000000001}', "1e.15"),
        ('{"ram_gb": 0.1000000000000000001}', "18 decimals"),
        ('{"ram_gb": 8, "minutes": 5}', "minutes"),
        ('{"ram_gb": 8, "egress_gb": 5}', "egress_gb"),
    ],
)
def test_a_size_that_does_not_fit_is_refused_by_name(size: str, named: str) -> None:
    """Rule 6; S15: the unit is in the schema; S43: SSD is not ssd."""
    with pytest.raises(InvalidEvent, match=f"invalid_size: .*{named}"):
        check(f'{{"size": {size}}}')


def test_s12_a_dimension_that_is_missing_is_told() -> None:
    """S12: a flavor without its size in the payload is taken with no size; half a size is refused."""
    check('{"flavor": "m1.large"}')
    assert reason('{"size": {"vcpus": 4}}') == ("invalid_size", "size: 'ram_gb' is a required property")


@pytest.mark.parametrize("effect", ["usage", "delete", "ignore"])
def test_what_is_not_read_is_not_judged(effect: str) -> None:
    """Rule 5: size and state of usage and delete events are nobody's business."""
    check('{"size": {"nonsense": -1}, "state": 5}', effect)


@pytest.mark.parametrize("state", ['""', "5", "{}", '"' + "x" * 513 + '"'])
def test_a_state_is_a_text(state: str) -> None:
    """Rule 5."""
    assert reason(f'{{"state": {state}}}')[0] == "invalid_state"


@pytest.mark.parametrize(
    ("usage", "named"),
    [
        ("5", "object"),
        ('{"egress_gb": -1}', "negative"),
        ('{"egress_gb": "1"}', "number"),
        ('{"egress_gb": true}', "number"),
        ('{"egress_gb": null}', "number"),
        ('{"egress_gb": 1e16}', "beyond"),
        ('{"egress_gb": 1e-19}', "decimals"),
        ('{"pulls": 1}', "none of egress_gb"),
        ('{"": 1}', "name"),
    ],
)
def test_increments_are_non_negative_numbers_of_declared_counters(usage: str, named: str) -> None:
    """Rule 5; S37: a quantity is never negative."""
    with pytest.raises(InvalidEvent, match=f"invalid_usage: .*{named}"):
        check(f'{{"usage": {usage}}}', "usage")


def test_a_type_without_declared_counters_takes_any_that_is_no_other_metric() -> None:
    """Rule 26: what nobody prices blocks the close by its name, instead of being lost at the door."""
    check('{"usage": {"pulls": 1}}', "usage", counters=[])
    assert reason('{"usage": {"count": 1}}', "usage", counters=[])[0] == "invalid_usage"
    assert reason('{"usage": {"ram_gb": 1}}', "usage", counters=[])[0] == "invalid_usage"


def test_a_reference_to_another_document_is_not_fetched() -> None:
    """A definition cannot make Tally call somebody."""
    assert "judged" in reason('{"size": {}}', size={"$ref": "http://example.invalid/schema.json"})[1]


def test_verdicts_are_remembered_by_value_and_type() -> None:
    """1 and true are equal to Python, and not to a schema."""
    rules, size = PayloadRules(), {"properties": {"a": {"type": "integer"}}}
    check('{"size": {"a": 1}}', rules=rules, size=size)
    check('{"size": {"a": 1.0}}', rules=rules, size=size)
    with pytest.raises(InvalidEvent):
        check('{"size": {"a": true}}', rules=rules, size=size)


def test_a_verdict_holds_for_its_size_alone() -> None:
    """The rules remember: of equal sizes, of those that look alike, of giants, and of more than they can keep."""
    rules = PayloadRules(remembered=2)
    giant = '{"ram_gb": 1, "' + "x" * LONGEST_REMEMBERED + '": 1}'
    for _ in range(2):
        for size, fits in (
            ('{"ram_gb": 1}', True),
            ('{"ram_gb": "1"}', False),
            ('{"ram_gb": true}', False),
            ('{"ram_gb": 1.0}', True),
            ('{"ram_gb": 1.05}', False),
            (giant, False),
        ):
            if fits:
                check(f'{{"size": {size}}}', rules=rules)
            else:
                with pytest.raises(InvalidEvent):
                    check(f'{{"size": {size}}}', rules=rules)
