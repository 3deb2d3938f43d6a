"""A platform that answers what a test puts into it: the adapter of the reconciliation tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tally.domain.inventory import Answer, Listed


@dataclass
class Platform:
    """A platform as its adapter shows it: what it answers by type, and what happens while it is asked."""

    answers: Mapping[str, Sequence[Answer]]
    failures: Mapping[str, Exception] = field(default_factory=dict)  # raised after the answers of a type
    meanwhile: Callable[[], object] = lambda: None  # what happens while it lists

    @property
    def resource_types(self) -> Sequence[str]:
        """All that it has answers or failures for."""
        return [*self.answers, *(name for name in self.failures if name not in self.answers)]

    def list_resources(self, resource_type: str) -> Iterator[Answer]:
        """Answer, then fail if it is to fail."""
        yield from self.answers.get(resource_type, ())
        self.meanwhile()
        if resource_type in self.failures:
            raise self.failures[resource_type]


def disk(resource_id: str = "v-1", size_gb: int = 10, **fields: Any) -> Listed:
    """A volume as it is listed."""
    given = {"project_id": "p-1", "state": "available", "size": {"size_gb": size_gb}} | fields
    return Listed(resource_id, **given)


def volumes(*answers: Answer, **more: Any) -> Platform:
    """A platform that has volumes only."""
    return Platform({"volume": answers}, **more)
