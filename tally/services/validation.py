"""Whether the payload of an event fits its resource type: size, state, usage (rules 5 and 6). Pure, but for its cache.

Only what will be read is judged: size and state of create and update events, usage of all that are not ignored. The
rest of a payload is nobody's business, and a JSON null says the same as an absent key.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from jsonschema.exceptions import best_match as most_telling
from jsonschema.protocols import Validator
from referencing.exceptions import Unresolvable

from tally.domain.errors import InvalidEvent
from tally.domain.event import MAX_TEXT_BYTES, Event
from tally.domain.resource_type import RESERVED_METRICS, Effect, ResourceType, Transition
from tally.services.size_schema import validator_of

# What exact rating can carry through all its products (rule 23); no real quantity comes near.
MAX_QUANTITY = 10**15
MAX_DECIMALS = 18
SIZES_REMEMBERED = 20_000
LONGEST_REMEMBERED = 1000  # characters

_DECIMAL_REPR = re.compile(r"Decimal\('([^']*)'\)")


class PayloadRules:
    """The rules of all resource types of one registry version.

    Sizes repeat (flavors do), and a JSON Schema is slow: the verdict on a size is remembered by the text of its repr,
    unless that is so long that it will not come again.
    """

    def __init__(self, remembered: int = SIZES_REMEMBERED) -> None:
        """Know nothing yet, and remember the verdicts on so many sizes at most."""
        self._validators: dict[int, Validator] = {}
        self._remembered = remembered
        self._size_faults: dict[tuple[int, str], str] = {}

    def check(self, event: Event, transition: Transition, resource_type: ResourceType) -> None:
        """Accept an event or say what is wrong.

        Raises:
            InvalidEvent: with reason invalid_size, invalid_state or invalid_usage.
        """
        if transition.effect is Effect.IGNORE:
            return
        payload = event.payload
        if transition.effect in (Effect.CREATE, Effect.UPDATE):
            if payload.get("state") is not None:
                check_state(payload["state"])
            if payload.get("size") is not None:
                self.check_size(payload["size"], resource_type)
        if payload.get("usage") is not None:
            check_usage(payload["usage"], resource_type)

    def check_size(self, size: Any, resource_type: ResourceType) -> None:
        """Accept a size or say what is wrong.

        Raises:
            InvalidEvent: with reason invalid_size.
        """
        if not isinstance(size, dict):
            raise InvalidEvent("invalid_size", "payload.size is not an object")
        known = (resource_type.version, repr(size))
        fault = self._size_faults.get(known)
        if fault is None:
            fault = self._find_size_fault(size, resource_type)
            if len(known[1]) <= LONGEST_REMEMBERED:
                self._remember(known, fault)
        if fault:
            raise InvalidEvent("invalid_size", fault)

    def _remember(self, known: tuple[int, str], fault: str) -> None:
        if len(self._size_faults) >= self._remembered:
            self._size_faults.clear()
        self._size_faults[known] = fault

    def _find_size_fault(self, size: Mapping[str, Any], resource_type: ResourceType) -> str:
        for name, value in size.items():
            if name in RESERVED_METRICS or name in resource_type.counters:
                return f"size.{name[:60]} is the name of another metric; a size may not hold it"
            if _is_number(value):
                lowest = -MAX_QUANTITY if name in resource_type.descriptive else 0
                if fault := _quantity_fault(value, lowest):
                    return f"size.{name[:60]} {fault}"
        return _schema_fault(self._validator(resource_type), size)

    def _validator(self, resource_type: ResourceType) -> Validator:
        validator = self._validators.get(resource_type.version)
        if validator is None:
            validator = validator_of(resource_type.size)
            self._validators[resource_type.version] = validator
        return validator


def check_usage(usage: Any, resource_type: ResourceType) -> None:
    """Accept increments of counters or say what is wrong.

    A type that declares counters takes no others. One that declares none takes every name that is not already another
    metric: what nobody prices then blocks the close by name (rule 26), instead of being lost here.

    Raises:
        InvalidEvent: with reason invalid_usage.
    """
    if not isinstance(usage, dict):
        raise InvalidEvent("invalid_usage", "payload.usage is not an object")
    for name, value in usage.items():
        where = f"usage.{name[:60]}"
        if not name or len(name.encode()) > MAX_TEXT_BYTES:
            raise InvalidEvent("invalid_usage", f"{where}: a name has 1 to {MAX_TEXT_BYTES} bytes")
        if resource_type.counters and name not in resource_type.counters:
            raise InvalidEvent("invalid_usage", f"{where} is none of {', '.join(sorted(resource_type.counters))}")
        if name in RESERVED_METRICS or name in resource_type.size.get("properties", {}):
            raise InvalidEvent("invalid_usage", f"{where} is the name of another metric")
        if not _is_number(value):
            raise InvalidEvent("invalid_usage", f"{where} is not a number")
        if fault := _quantity_fault(value, 0):
            raise InvalidEvent("invalid_usage", f"{where} {fault}")


def check_state(state: Any) -> None:
    """Accept a state or say what is wrong.

    Raises:
        InvalidEvent: with reason invalid_state.
    """
    if not isinstance(state, str) or not state:
        raise InvalidEvent("invalid_state", "payload.state is not a text, or an empty one")
    if len(state.encode()) > MAX_TEXT_BYTES:
        raise InvalidEvent("invalid_state", f"payload.state is longer than {MAX_TEXT_BYTES} bytes")


def _quantity_fault(number: int | Decimal, lowest: int) -> str:
    if number < lowest:
        return "is negative" if lowest == 0 else f"is below {lowest:.0e}"
    if number > MAX_QUANTITY:
        return f"is beyond {MAX_QUANTITY:.0e}"
    if isinstance(number, Decimal):
        decimals = -cast("int", number.as_tuple().exponent)
        if decimals > MAX_DECIMALS and round(number, MAX_DECIMALS) != number:
            return f"has more than {MAX_DECIMALS} decimals"
    return ""


def _schema_fault(validator: Validator, size: Mapping[str, Any]) -> str:
    try:
        error = most_telling(validator.iter_errors(size))
    except (Unresolvable, ArithmeticError) as problem:
        return f"size cannot be judged by its schema: {problem}"
    if error is None:
        return ""
    where = ".".join(("size", *map(str, error.absolute_path)))
    message = _DECIMAL_REPR.sub(r"\1", error.message)
    return f"{where[:120]}: {message[:300]}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
