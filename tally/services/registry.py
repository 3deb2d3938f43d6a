"""The registry of resource types: loading those that Tally ships, adding an operator's, and listing them (rule 6).

How an event is judged by a type does not belong here, nor what a new definition does to stored events
(invalidation.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from tally.domain.errors import InvalidEvent, InvalidInput, NotFound, Refused
from tally.domain.event import check_value
from tally.domain.resource_type import ResourceType, definition_hash, exact
from tally.services import projection
from tally.services.invalidation import changed_transitions, find_invalidated
from tally.services.known_types import Key, Registry, current_registry, type_of
from tally.services.size_schema import check_schema
from tally.store.database import Connection
from tally.store.reporting import audit, stored_payloads
from tally.store.reporting import registry as store
from tally.store.reporting.registry import DefinitionRow

__all__ = [
    "Defined",
    "Registry",
    "check_definition",
    "current_registry",
    "define_type",
    "fold_pending",
    "list_types",
    "load_builtin_types",
    "shipped_types",
    "versions_of_type",
]


@dataclass(frozen=True, slots=True)
class Defined:
    """What became of a definition.

    ``created``: the type is new. ``changed``: a version was added. ``invalidates``: one line for each way in which
    stored events are invalid by it. ``rebuilt``: resources whose current state was folded again.
    """

    resource_type: ResourceType
    created: bool
    changed: bool
    invalidates: Sequence[str] = ()
    rebuilt: int = 0

    @property
    def version(self) -> int:
        """Number of the version that holds."""
        return self.resource_type.version


def list_types(
    connection: Connection, *, platform: str | None = None, after: Key | None = None, limit: int | None = None
) -> list[DefinitionRow]:
    """Return the definitions that hold by (platform, resource_type), those after ``after``, at most ``limit``."""
    return store.definitions(connection, platform=platform, after=after, limit=limit)


def versions_of_type(connection: Connection, platform: str, resource_type: str) -> list[DefinitionRow]:
    """Return all versions of one resource type, the one that holds last.

    Raises:
        NotFound: if the registry does not know the type.
    """
    rows = store.versions(connection, platform, resource_type)
    if not rows:
        raise NotFound(f"{platform}.{resource_type} is not in the registry of resource types")
    return rows


def shipped_types() -> Mapping[Key, ResourceType]:
    """Return the resource types that ship with Tally, without a database."""
    return {key: ResourceType.from_definition(*key, 0, definition) for key, definition in _shipped()}


def load_builtin_types(connection: Connection) -> list[str]:
    """Load the definitions that Tally ships, and return the names of those that are new or changed.

    A type that an operator has defined is left alone. Where a new definition gives stored events another meaning, their
    resources are folded again, and so are those that a change which was broken off has left.

    Raises:
        InvalidInput: naming the file and what is wrong in it.
    """
    shipped = dict(_shipped())
    with connection.transaction():
        store.lock_definitions(connection)
        rows = {(row.platform, row.resource_type): row for row in store.definitions(connection)}
        added = [
            key
            for key, definition in shipped.items()
            if ((row := rows.get(key)) is None or row.origin == "builtin")
            and _add(connection, row, *key, definition, "builtin")
        ]
        names = [".".join(key) for key in added]
        if names:
            audit.record(connection, "tally", "resource_type.load", "builtin", {"resource_types": names})
    fold_pending(connection)
    return names


def define_type(
    connection: Connection,
    platform: str,
    resource_type: str,
    definition: Mapping[str, Any],
    actor: str,
    *,
    accept_invalidation: str = "",
) -> Defined:
    """Add an operator's definition, which from now on holds; the same definition again changes nothing.

    A change that would make stored events invalid, or give them another meaning, needs ``accept_invalidation``: the
    reason for it, which is audited. Then the resources whose events have another meaning are folded again. If that is
    broken off, the same definition again does the rest, or the next start.

    Raises:
        InvalidInput: naming what is wrong in it.
        Refused: with what the change does to stored events, if that is not accepted or leaves them unreadable.
    """
    definition = check_definition(platform, resource_type, definition)
    _check_reason(accept_invalidation)
    proposal = _Proposal(platform, resource_type, definition, actor, accept_invalidation)
    changed: bool | None = None
    while changed is None:
        former = store.versions(connection, platform, resource_type)
        invalidates = _invalidated(connection, former, proposal)
        changed = _add_proposed(connection, former, proposal, invalidates)
    rebuilt = fold_pending(connection, (platform, resource_type))
    holds = type_of(store.versions(connection, platform, resource_type)[-1])
    return Defined(holds, not former, changed, invalidates, rebuilt)


def fold_pending(connection: Connection, key: Key | None = None) -> int:
    """Fold the resources again whose events a new version of their type gave another meaning; return how many.

    Of one type or of all. That such a fold has to be done is written with the version: it outlives whoever does it.
    """
    rebuilt = 0
    for pending in store.pending_folds(connection, key):
        for cloud in stored_payloads.clouds_of(connection, pending.platform):
            rebuilt += projection.rebuild(connection, cloud, pending.resource_type)
        store.end_fold(connection, pending.version)
    return rebuilt


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A definition that somebody wants to hold, and why stored events may become invalid ('' if they may not)."""

    platform: str
    resource_type: str
    definition: Mapping[str, Any]
    actor: str
    accepted_because: str

    @property
    def name(self) -> str:
        return f"{self.platform}.{self.resource_type}"


def _check_reason(reason: str) -> None:
    try:
        check_value(reason, "the reason")
    except InvalidEvent as error:
        raise InvalidInput(error.detail) from None


def _invalidated(connection: Connection, former: Sequence[DefinitionRow], proposal: _Proposal) -> Sequence[str]:
    if not former or former[-1].content_hash == definition_hash(proposal.definition):
        return ()
    new = ResourceType.from_definition(proposal.platform, proposal.resource_type, 0, proposal.definition)
    found = find_invalidated(connection, [type_of(row) for row in former], new)
    if found.broken:
        raise Refused(f"{proposal.name} cannot be changed like this", found.broken)
    if found.reasons and not proposal.accepted_because:
        advice = "to change it nevertheless, accept this and say why"
        raise Refused(f"{proposal.name}: the change concerns stored events", [*found.reasons, advice])
    return found.reasons


def _add_proposed(
    connection: Connection, former: Sequence[DefinitionRow], proposal: _Proposal, invalidates: Sequence[str]
) -> bool | None:
    """Add a version if that is a change; None if ``former`` are no longer all versions, and have to be read again."""
    with connection.transaction():
        store.lock_definitions(connection)
        rows = store.versions(connection, proposal.platform, proposal.resource_type)
        if len(rows) != len(former):
            return None
        row = rows[-1] if rows else None
        if not _add(connection, row, proposal.platform, proposal.resource_type, proposal.definition, "operator"):
            return False
        detail: dict[str, Any] = {"version": store.version(connection)}
        if invalidates:
            detail |= {"invalidates": invalidates, "accepted_because": proposal.accepted_because}
        audit.record(connection, proposal.actor, "resource_type.define", proposal.name, detail)
    return True


def check_definition(platform: str, resource_type: str, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition with decimals for floats, after checking its keys, its lifecycle and its JSON Schema.

    Raises:
        InvalidInput: naming what is wrong.
    """
    definition = exact(definition)
    parsed = ResourceType.from_definition(platform, resource_type, 0, definition)
    check_schema(f"{platform}.{resource_type}", parsed.size)
    return definition


def _add(
    connection: Connection,
    row: DefinitionRow | None,
    platform: str,
    resource_type: str,
    definition: Mapping[str, Any],
    origin: str,
) -> bool:
    """Add a version unless the one that holds says the same."""
    content = definition_hash(definition)
    if row is not None and (row.content_hash, row.origin) == (content, origin):
        return False
    former = [type_of(each) for each in store.versions(connection, platform, resource_type)]
    version = store.add_definition(connection, platform, resource_type, definition, content, origin)
    new = ResourceType.from_definition(platform, resource_type, version, definition)
    if former and changed_transitions(former, new):
        store.begin_fold(connection, version)
    return True


def _shipped() -> Iterator[tuple[Key, Mapping[str, Any]]]:
    """Read tally/providers/<platform>/resource_types.yaml of every platform, in the order of their names."""
    for folder in sorted(files("tally.providers").iterdir(), key=lambda folder: folder.name):
        file = folder / "resource_types.yaml"
        if not file.is_file():
            continue
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise InvalidInput(f"{file}: {error}") from None
        if not isinstance(content, dict):
            raise InvalidInput(f"{file}: its top level is not a mapping of resource types")
        for resource_type, definition in content.items():
            yield (folder.name, resource_type), check_definition(folder.name, resource_type, definition)
