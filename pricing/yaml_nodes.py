"""Reading a YAML document by its nodes: text and exact decimals with line numbers, all faults collected.

PyYAML's own constructors are not used: they would read 0.02 as a binary float, `off` as false, and of two equal keys
the last. What the keys mean is price_file.py's business.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import yaml

from tally.domain.errors import InvalidInput
from tally.domain.event import MAX_TEXT_BYTES

_DECIMAL = re.compile(r"-?\d{1,10}(\.\d{1,18})?", re.ASCII)
_NULL = "tag:yaml.org,2002:null"

Members = dict[str, yaml.Node]


class Fault(NamedTuple):
    """One thing that is wrong with a document, and where: its line, or 0 for the document as a whole."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


class FaultyDocument(InvalidInput):
    """A document that cannot be read; ``faults`` are all that was found, in the order of their lines."""

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        super().__init__(f"{name}: " + "; ".join(map(str, faults)))
        self.faults = tuple(faults)


class Faults:
    """What is wrong with one document, with the line of each fault."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[Fault] = []

    def add(self, node: yaml.Node, text: str) -> None:
        """Note a fault at the line where a node begins."""
        self._found.append(Fault(node.start_mark.line + 1, text))

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_all(self) -> None:
        """Raise FaultyDocument with all faults in the order of their lines, if there are any."""
        if self._found:
            raise FaultyDocument(self._name, sorted(set(self._found)))


def compose(text: str, name: str) -> yaml.Node:
    """Parse one YAML document into nodes.

    Raises:
        FaultyDocument: naming the line where it is no YAML.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise FaultyDocument(name, [Fault(line, f"not YAML: {error.problem or error.context}")]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise FaultyDocument(name, [Fault(0, f"not YAML: {str(error).splitlines()[0]}")]) from None
    if node is None:
        raise FaultyDocument(name, [Fault(0, "it is empty")])
    return node


class Reader:
    """Reads nodes; what cannot be read is noted as a fault and comes back as None or nothing.

    ``kept``: the document was taken before, so that what is readable and only no longer taken is no fault of it.
    """

    def __init__(self, faults: Faults, *, kept: bool = False) -> None:
        self.faults = faults
        self.kept = kept

    def members(self, node: yaml.Node, what: str) -> Members:
        """Read a mapping with distinct text keys."""
        if not isinstance(node, yaml.MappingNode):
            self.faults.add(node, f"{what} is not a mapping")
            return {}
        result: Members = {}
        for key_node, value in node.value:
            key = self.text(key_node, f"a key of {what}")
            if key is None:
                continue
            if key in result:
                self.faults.add(key_node, f"{what} has the key {key!r} twice")
            result[key] = value
        return result

    def entries(self, node: yaml.Node, what: str) -> Iterator[tuple[str, yaml.Node]]:
        """Read a mapping that must not be empty."""
        found = self.members(node, what)
        if isinstance(node, yaml.MappingNode) and not node.value:
            self.faults.add(node, f"{what} is empty; leave it out")
        yield from found.items()

    def items(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """Read a list that must not be empty."""
        if not isinstance(node, yaml.SequenceNode):
            self.faults.add(node, f"{what} is not a list")
            return []
        if not node.value:
            self.faults.add(node, f"{what} is empty; leave it out")
        return list(node.value)

    def fields(self, node: yaml.Node, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Members:
        """Read a mapping of known keys."""
        members = self.members(node, what)
        if not isinstance(node, yaml.MappingNode):
            return {}
        for key, value in members.items():
            if key not in required and key not in optional:
                known = ", ".join(dict.fromkeys(required + optional))
                self.faults.add(value, f"{what} has the unknown key {key!r}; known are {known}")
        missing = [key for key in required if key not in members]
        if missing:
            self.faults.add(node, f"{what} lacks {', '.join(missing)}")
        return {key: value for key, value in members.items() if key in required or key in optional}

    def text(self, node: yaml.Node, what: str) -> str | None:
        """Read a scalar as it is written: `off` is a text, and so is 2026-03."""
        written = isinstance(node, yaml.ScalarNode) and node.tag != _NULL and node.value.isprintable()
        if not written or not node.value.strip():
            self.faults.add(node, f"{what} is not a text")
            return None
        if len(node.value.encode()) > MAX_TEXT_BYTES and not self.kept:
            self.faults.add(node, f"{what} is longer than {MAX_TEXT_BYTES} bytes")
            return None
        return str(node.value)

    def parsed(self, node: yaml.Node, what: str, parse: Callable[[str], str]) -> str | None:
        """Read a text through a function that judges it: it raises InvalidInput, or returns it."""
        text = self.text(node, what)
        if text is None or self.kept:
            return text
        try:
            return parse(text)
        except InvalidInput as error:
            self.faults.add(node, f"{what}: {error}")
            return None

    def amount(self, node: yaml.Node, what: str) -> Decimal | None:
        """Read a decimal number from 0 up, exactly."""
        text = self.text(node, what)
        if text is None:
            return None
        if not _DECIMAL.fullmatch(text):
            self.faults.add(node, f"{what} is {text[:40]!r}; write a decimal number such as 0.02")
            return None
        if text.startswith("-"):
            self.faults.add(node, f"{what} is {text}; it is never negative")
            return None
        return Decimal(text)
