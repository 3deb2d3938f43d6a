"""Relations between projects: who pays for whom, whose prices are adjusted (rule 28).

Whatever changes a relation appends a version. What relations do to bills is decided in tally.domain.graph; where they
lead is related.py.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypedDict
from uuid import UUID, uuid4

from pricing.adjustments import EVERYTHING, METADATA_KEY, read_adjustments
from tally.domain.closed_periods import FinalizedPeriod, touched
from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.event import canonical_json
from tally.domain.graph import Relation, check_relation_type, refuse_cycle
from tally.domain.instants import MICROSECOND, format_instant
from tally.domain.principal import ProjectKey
from tally.domain.project import Project, check_metadata, check_name
from tally.services.known_types import current_registry
from tally.services.projects import find_project, get_project, patched_metadata
from tally.store.database import Connection
from tally.store.reporting import audit
from tally.store.reporting import projects as project_store
from tally.store.reporting import relations as store

MAX_REASON_BYTES = 2000
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)

ProjectName = UUID | str  # a registry id, or cloud/external_id


class Direction(StrEnum):
    """Which relations of a project are meant."""

    OUTGOING = "outgoing"  # the project is the source
    INCOMING = "incoming"  # the project is the target
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Change:
    """Who changes relations, when and why, and which periods are finalized by then.

    ``zone`` is that of the billing periods: two relations make a cycle if one period sees both.
    """

    actor: str
    now: datetime
    finalized: Sequence[FinalizedPeriod]
    zone: str = "UTC"
    reason: str | None = None


class RelationPatch(TypedDict, total=False):
    """What to change of a relation, as a JSON Merge Patch (RFC 7396): null clears, what is not named stays."""

    metadata: Mapping[str, Any] | None
    valid_from: datetime
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class Written:
    """A relation after it was written: whether that changed anything, and which finalized periods do not know it."""

    relation: Relation
    changed: bool
    late_for: tuple[str, ...] = ()


def relate(
    connection: Connection,
    source: ProjectName,
    target: ProjectName,
    relation_type: str,
    valid_from: datetime | None,
    valid_to: datetime | None,
    metadata: Mapping[str, Any] | None,
    change: Change,
) -> Written:
    """Relate two projects from ``valid_from`` (None: now) to ``valid_to`` (exclusive; None: open).

    The same again changes nothing. Without ``valid_from`` it is the same if one like it is valid now.

    Raises:
        InvalidInput: if the type is not declared, a project is related to itself, the validity is no period, or the
            metadata agree on adjustments that make no sense.
        NotFound: if a project is not registered.
        Refused: if it overlaps a relation of the same projects and type, closes a cycle of attribution, or touches a
            finalized period without a reason.
    """
    check_relation_type(relation_type)
    start, end = _checked_validity(change.now if valid_from is None else valid_from, valid_to)
    if end == start:
        raise InvalidInput(f"valid_to {format_instant(start)} is not after valid_from")
    metadata = check_metadata(metadata)
    reason = _checked_reason(change)
    _check_adjustments(connection, relation_type, metadata)
    with connection.transaction():
        project_store.lock(connection)
        ends = _project(connection, source), _project(connection, target)
        if ends[0].id == ends[1].id:
            raise InvalidInput(f"{ends[0].address} cannot be related to itself")
        relation = Relation(uuid4(), 1, ends[0].id, ends[1].id, relation_type, start, end, metadata, reason)
        existing = store.select_relations(connection)
        for other in existing:
            begins_alike = _valid_at(other, start) if valid_from is None else other.valid_from == start
            if begins_alike and _says(other) == _says(relation):
                return Written(other, changed=False)
        return _append(connection, existing, None, relation, "relation.create", change)


def patch_relation(connection: Connection, relation_id: UUID, patch: RelationPatch, change: Change) -> Written:
    """Change the metadata or the validity of a relation by appending a version; what is said already changes nothing.

    A relation that ends where it begins is annulled: it never counts.

    Raises:
        InvalidInput: if valid_to is before valid_from, or metadata hold what cannot be stored or makes no sense.
        NotFound: if there is no such relation.
        Refused: as relate does.
    """
    with connection.transaction():
        project_store.lock(connection)
        current = get_relation(connection, relation_id)
        start, end = _checked_validity(
            patch.get("valid_from", current.valid_from), patch.get("valid_to", current.valid_to)
        )
        metadata = current.metadata
        if "metadata" in patch:
            metadata = patched_metadata(metadata, patch["metadata"])
            _check_adjustments(connection, current.type, metadata)
        new = replace(current, valid_from=start, valid_to=end, metadata=metadata)
        return _replace(connection, current, new, "relation.update", change)


def close_relation(connection: Connection, relation_id: UUID, valid_to: datetime | None, change: Change) -> Written:
    """End a relation at ``valid_to`` (exclusive; None: now) by appending a version.

    One that ends by then stays as it is. One that has not begun by now is annulled: it ends where it begins.

    Raises:
        InvalidInput: if valid_to is before valid_from.
        NotFound: if there is no such relation.
        Refused: if it touches a finalized period without a reason.
    """
    with connection.transaction():
        project_store.lock(connection)
        current = get_relation(connection, relation_id)
        asked = max(change.now, current.valid_from) if valid_to is None else valid_to
        _, end = _checked_validity(current.valid_from, asked)
        if current.valid_to is not None and current.valid_to <= asked:
            return Written(current, changed=False)
        return _replace(connection, current, replace(current, valid_to=end), "relation.close", change)


def list_relations(
    connection: Connection,
    *,
    project: UUID | None = None,
    direction: Direction = Direction.BOTH,
    relation_type: str | None = None,
    visible: Collection[ProjectKey] | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int | None = None,
) -> list[Relation]:
    """Return relations, open or closed, each in the version that holds, in the order of (valid_from, id).

    ``visible``: only those whose two projects are among these; None is all.

    Raises:
        InvalidInput: if the type is not declared.
    """
    if relation_type is not None:
        check_relation_type(relation_type)
    return store.select_relations(
        connection,
        source=None if direction is Direction.INCOMING else project,
        target=None if direction is Direction.OUTGOING else project,
        relation_type=relation_type,
        visible=visible,
        after=after,
        limit=limit,
    )


def get_relation(connection: Connection, relation_id: UUID, project: UUID | None = None) -> Relation:
    """Return the version of a relation that holds; with ``project`` only one that has this end.

    Raises:
        NotFound: if there is none.
    """
    relation = store.find_relation(connection, relation_id)
    if relation is None or project not in (None, relation.source, relation.target):
        raise NotFound(f"relation {relation_id} does not exist; list the relations to see their ids")
    return relation


def _replace(connection: Connection, current: Relation, new: Relation, action: str, change: Change) -> Written:
    """Append a version of a relation, unless it says what the one before does."""
    if (new.valid_from, _says(new)) == (current.valid_from, _says(current)):
        return Written(current, changed=False)
    new = replace(new, version=current.version + 1, reason=_checked_reason(change))
    return _append(connection, store.select_relations(connection), current, new, action, change)


def _append(
    connection: Connection,
    existing: Sequence[Relation],
    before: Relation | None,
    relation: Relation,
    action: str,
    change: Change,
) -> Written:
    """Add a version of a relation, unless it contradicts the others or changes what is finalized without a reason."""
    ends = {end for other in (*existing, relation) for end in (other.source, other.target)}
    names = {project.id: project.address for project in project_store.projects_of(connection, ends)}
    subject = f"{names[relation.source]} {relation.type} {names[relation.target]}"
    for other in existing:
        if other.id != relation.id and _ends(other) == _ends(relation) and _overlap(other, relation):
            raise Refused(
                f"relation {subject}", [f"it overlaps relation {other.id}, {_validity(other)}; close that first"]
            )
    refuse_cycle(existing, relation, change.zone, names)
    late_for = touched(before, relation, change.finalized)
    if late_for and relation.reason is None:
        periods = ", ".join(late_for)
        raise Refused(f"relation {subject}", [f"it changes what holds in {periods}, which is finalized; give a reason"])
    store.add_relation(connection, relation)
    audit.record(connection, change.actor, action, subject, _told(before, relation))
    return Written(relation, changed=True, late_for=tuple(late_for))


def _check_adjustments(connection: Connection, relation_type: str, metadata: Mapping[str, Any]) -> None:
    """Refuse adjustments that could not be read, or that no line of a bill could ever be in the scope of."""
    scopes = {adjustment.scope for adjustment in read_adjustments(relation_type, metadata)} - {EVERYTHING}
    unknown = sorted(scopes - {".".join(key) for key in current_registry(connection)}) if scopes else []
    if unknown:
        raise InvalidInput(f"{METADATA_KEY}: scope {unknown[0]!r} is not a registered resource type")


def _told(before: Relation | None, after: Relation) -> dict[str, Any]:
    """Return what the audit log says of a version: its content, and that of the version before it."""
    detail = {"id": str(after.id), "version": after.version, "reason": after.reason, "new": _content(after)}
    return detail if before is None else detail | {"old": _content(before)}


def _content(relation: Relation) -> dict[str, Any]:
    return {
        "valid_from": format_instant(relation.valid_from),
        "valid_to": None if relation.valid_to is None else format_instant(relation.valid_to),
        "metadata": relation.metadata,
    }


def _project(connection: Connection, name: ProjectName) -> Project:
    return get_project(connection, name) if isinstance(name, UUID) else find_project(connection, name)


def _ends(relation: Relation) -> tuple[UUID, UUID, str]:
    return (relation.source, relation.target, relation.type)


def _overlap(one: Relation, other: Relation) -> bool:
    return one.intersects(other.valid_from, other.valid_to or _END_OF_TIME)


def _valid_at(relation: Relation, instant: datetime) -> bool:
    return relation.intersects(instant, instant + MICROSECOND)


def _validity(relation: Relation) -> str:
    until = "open" if relation.valid_to is None else f"to {format_instant(relation.valid_to)}"
    return f"valid from {format_instant(relation.valid_from)}, {until}"


def _says(relation: Relation) -> tuple[object, ...]:
    """Return all that a relation says but its beginning."""
    return (*_ends(relation), relation.valid_to, canonical_json(relation.metadata))


def _checked_reason(change: Change) -> str | None:
    reason = (change.reason or "").strip()
    if reason:
        check_name("reason", reason, MAX_REASON_BYTES)
    return reason or None


def _checked_validity(valid_from: datetime, valid_to: datetime | None) -> tuple[datetime, datetime | None]:
    start, end = _zoned("valid_from", valid_from), None if valid_to is None else _zoned("valid_to", valid_to)
    if end is not None and end < start:
        raise InvalidInput(f"valid_to {format_instant(end)} is not after valid_from {format_instant(start)}")
    return start, end


def _zoned(what: str, instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise InvalidInput(f"{what} has no zone; write an instant such as 2026-03-01T00:00:00Z")
    return instant.astimezone(UTC)
