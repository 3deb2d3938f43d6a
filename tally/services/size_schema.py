"""The JSON Schema of a size: which schemas the registry takes, and the validator that judges by them.

Draft 2020-12, on decimals, and safe to run on whatever a collector sends: nothing is fetched, no schema refers to
itself, and patterns run on an engine whose time grows with the text only. What else a payload has to fulfil belongs to
validation.py.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, TypeChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry as References
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from tally.domain.errors import InvalidInput
from tally.domain.event import canonical_json

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_NODES = 2000  # subschemas, each reference counted as what it stands for
MAX_SCHEMA_DEPTH = 32
MAX_PATTERNS = 30  # each may take some megabytes, and a good part of a second to be compiled

# What would be read in a way that surprises, or cannot be judged in bounded time.
_REFUSED = {
    "$dynamicRef": "write $ref",
    "$recursiveRef": "write $ref",
    "patternProperties": "name the properties, or judge their names by propertyNames and their values by"
    " additionalProperties",
}


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """Return what judges sizes by a schema; numbers of both are int or Decimal."""
    # Without a way to retrieve them, references to other documents fail instead of going to the network.
    return Draft202012WithDecimals(schema, registry=References())


def check_schema(where: str, schema: Mapping[str, Any]) -> None:
    """Accept the JSON Schema of a size.

    Raises:
        InvalidInput: beginning with ``where``, then the place in the schema, what is wrong there and what to do.
    """
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        raise InvalidInput(f"{where}: size/$schema is {str(dialect)[:100]!r}; size is read as {DIALECT}")
    try:
        _check_against_dialect(schema)
    except SchemaError as error:
        place = "/".join(("size", *map(str, error.absolute_path)))
        raise InvalidInput(f"{where}: size is no JSON Schema at {place}: {error.message[:300]}") from None
    _Walk(where, schema).run()


def _check_against_dialect(schema: Any) -> None:
    """Raise SchemaError; formats are left out, because there a pattern would be judged as one of Python."""
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))


class _Walk:
    """One walk through a schema, along its subschemas and references."""

    def __init__(self, where: str, schema: Mapping[str, Any]) -> None:
        self._where = where
        self._schema = schema
        resource = Resource.from_contents(schema, default_specification=DRAFT202012)
        self._resolver = References().with_resource("", resource).resolver_with_root(resource)
        self._nodes: dict[int, int] = {}  # by the identity of a subschema: how many it stands for
        self._open: set[int] = set()
        self._patterns: set[str] = set()

    def run(self) -> None:
        nodes = self._count(self._schema, "size")
        if nodes > MAX_SCHEMA_NODES:
            self._refuse("size", f"it stands for {nodes} schemas, references resolved; at most {MAX_SCHEMA_NODES}")

    def _count(self, schema: Any, place: str) -> int:
        if not isinstance(schema, Mapping):
            return 1
        if id(schema) in self._open:
            self._refuse(place, "it refers to itself; write out what a size may hold")
        if len(self._open) >= MAX_SCHEMA_DEPTH:
            self._refuse(place, f"it is nested deeper than {MAX_SCHEMA_DEPTH} schemas, references resolved")
        if id(schema) not in self._nodes:
            self._open.add(id(schema))
            self._check(schema, place)
            parts = [self._count(part, place_of) for part, place_of in self._parts(schema, place)]
            self._open.discard(id(schema))
            self._nodes[id(schema)] = 1 + sum(parts)
        return self._nodes[id(schema)]

    def _check(self, schema: Mapping[str, Any], place: str) -> None:
        for keyword, instead in _REFUSED.items():
            if keyword in schema:
                self._refuse(f"{place}/{keyword}", f"it is not taken; {instead}")
        if "$id" in schema and schema is not self._schema:
            self._refuse(f"{place}/$id", "only the whole schema may have one")
        if "pattern" in schema:
            self._check_pattern(schema["pattern"], f"{place}/pattern")

    def _check_pattern(self, pattern: str, place: str) -> None:
        self._patterns.add(pattern)
        if len(self._patterns) > MAX_PATTERNS:
            self._refuse(place, f"there are more than {MAX_PATTERNS} patterns; write those of fixed texts as enum")
        try:
            _pattern(pattern)
        except PatternError as error:
            told = " ".join(str(error).partition("SchemaError:")[2].split())
            self._refuse(place, f"{told or 'it cannot be read'}; patterns are those of Rust's regex")

    def _parts(self, schema: Mapping[str, Any], place: str) -> Iterator[tuple[Any, str]]:
        for keyword, value in schema.items():
            for name, part in _subschemas(keyword, value):
                yield part, "/".join((place, keyword, *name))
        if "$ref" in schema:
            yield self._referred(schema["$ref"], f"{place}/$ref"), f"{place}/$ref"

    def _referred(self, reference: str, place: str) -> Any:
        if not reference.startswith("#"):
            self._refuse(place, f"{reference[:100]!r} leads to another document; write #/$defs/... and put it there")
        try:
            found = self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError):
            self._refuse(place, f"{reference[:100]!r} leads nowhere")
        try:
            _check_against_dialect(found)
        except SchemaError as error:
            self._refuse(place, f"{reference[:100]!r} leads to no JSON Schema: {error.message[:200]}")
        return found

    def _refuse(self, place: str, why: str) -> Any:
        raise InvalidInput(f"{self._where}: {place}: {why}")


def _subschemas(keyword: str, value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Give the schemas below a keyword, with their places below it."""
    if keyword in _HOLD_ONE:
        yield (), value
    elif keyword in _HOLD_MANY and isinstance(value, list):
        for number, part in enumerate(value):
            yield (str(number),), part
    elif keyword in _HOLD_NAMED and isinstance(value, Mapping):
        for name, part in value.items():
            yield (name[:60],), part


_HOLD_ONE = frozenset(
    {
        *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
_HOLD_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_HOLD_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "properties"})


@lru_cache(maxsize=1000)
def _pattern(pattern: str) -> SchemaValidator:
    """Compile a pattern for an engine that does not backtrack: no text of a collector makes it run for hours."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and value == int(value)


def _type_checker() -> TypeChecker:
    checker: TypeChecker = Draft202012Validator.TYPE_CHECKER
    return checker.redefine("number", lambda _, value: _is_number(value)).redefine(
        "integer", lambda _, value: _is_integer(value)
    )


def _exact_multiple(_: Validator, step: int | Decimal, value: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    """Judge multipleOf without a quotient, which decimals would round."""
    if not _is_number(value):
        return
    numerator, denominator = Decimal(value).as_integer_ratio()
    step_numerator, step_denominator = Decimal(step).as_integer_ratio()
    if numerator * step_denominator % (step_numerator * denominator):
        yield ValidationError(f"{value} is not a multiple of {step}")


def _linear_pattern(_: Validator, pattern: str, value: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    if not isinstance(value, str):
        return
    try:
        matches = _pattern(pattern).isinstance_python(value)
    except PatternError:  # of a definition that was stored when patterns were still Python's
        matches = False
    if not matches:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _unique_items(_: Validator, unique: Any, value: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    """Compare by canonical text: comparing each with each takes hours for a long list."""
    if unique and isinstance(value, list) and len(set(map(canonical_json, value))) < len(value):
        yield ValidationError("it holds the same item twice")


Draft202012WithDecimals: type[Validator] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators={"multipleOf": _exact_multiple, "pattern": _linear_pattern, "uniqueItems": _unique_items},
    type_checker=_type_checker(),
)
