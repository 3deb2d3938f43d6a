"""Projects and the relations between them: who exists, who pays for whom, whose prices are adjusted (rule 28).

A project is addressed as ``cloud/external_id``. What relations do to bills is decided in tally.domain.graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from tally.domain.errors import InvalidEvent, InvalidInput, NotFound, Refused
from tally.domain.event import MAX_TEXT_BYTES, canonical_json, check_value
from tally.domain.graph import Relation, check_relation_type, refuse_cycle
from tally.domain.instants import format_instant
from tally.domain.resource_type import exact
from tally.store.database import Connection
from tally.store.reporting import audit
from tally.store.reporting import projects as store
from tally.store.reporting import registry as registry_store

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Project:
    """A registered project of one cloud."""

    id: UUID
    platform: str
    cloud: str
    external_id: str
    name: str | None
    metadata: Mapping[str, Any]

    @property
    def address(self) -> str:
        """How people name it."""
        return f"{self.cloud}/{self.external_id}"


def create_project(
    connection: Connection,
    platform: str,
    cloud: str,
    external_id: str,
    name: str | None,
    metadata: Mapping[str, Any] | None,
    actor: str,
) -> Project:
    """Register a project, and its cloud if that is new; the same project again changes nothing.

    Raises:
        InvalidInput: if a name is empty or too long, the platform is not in the registry of resource types, or
            metadata hold what cannot be stored.
        Refused: if the cloud belongs to another platform, or its address is taken: by this project with other content,
            or by one that has the slash elsewhere.
    """
    for what, text in (("platform", platform), ("cloud", cloud), ("external_id", external_id)):
        _check_name(what, text)
    if name is not None:
        _check_name("name", name)
    metadata = _checked_metadata(metadata)
    with connection.transaction():
        store.lock(connection)
        _check_platform(connection, platform)
        _claim_cloud(connection, platform, cloud)
        for other in store.projects_at(connection, f"{cloud}/{external_id}"):
            if other.cloud != cloud:
                raise Refused(
                    f"project {cloud}/{external_id}", [f"this already means {other.external_id!r} of {other.cloud!r}"]
                )
        added = store.add_project(connection, platform, cloud, external_id, name, metadata)
        if added is not None:
            detail = {"id": str(added), "platform": platform, "name": name, "metadata": metadata}
            audit.record(connection, actor, "project.create", f"{cloud}/{external_id}", detail)
    project = find_project(connection, f"{cloud}/{external_id}")
    if added is None and _content(project) != _content(replace(project, name=name, metadata=metadata)):
        raise Refused(f"project {project.address}", ["it is registered with another name or other metadata"])
    return project


def relate(
    connection: Connection,
    source: str,
    target: str,
    relation_type: str,
    valid_from: datetime,
    valid_to: datetime | None,
    metadata: Mapping[str, Any] | None,
    actor: str,
    *,
    zone: str = "UTC",
) -> Relation:
    """Relate two projects from ``valid_from`` to ``valid_to`` (exclusive; None: open); the same again changes nothing.

    ``zone`` is that of the billing periods: two relations make a cycle if one period sees both.

    Raises:
        InvalidInput: if the type is not declared, a project is related to itself, or the validity is no period.
        NotFound: if a project is not registered.
        Refused: if it overlaps a relation of the same projects and type, or closes a cycle of attribution.
    """
    check_relation_type(relation_type)
    valid_from, valid_to = _checked_validity(valid_from, valid_to)
    metadata = _checked_metadata(metadata)
    with connection.transaction():
        store.lock(connection)
        ends = find_project(connection, source), find_project(connection, target)
        if ends[0].id == ends[1].id:
            raise InvalidInput(f"{source} cannot be related to itself")
        relation = Relation(uuid4(), 1, ends[0].id, ends[1].id, relation_type, valid_from, valid_to, metadata)
        existing = store.relations(connection)
        for other in existing:
            if _says(other) == _says(relation):
                return other
        _append(connection, existing, relation, "relation.create", actor, zone)
    return relation


def close_relation(
    connection: Connection, relation_id: UUID, valid_to: datetime, actor: str, *, zone: str = "UTC"
) -> Relation:
    """End a relation at ``valid_to`` (exclusive) by appending a version; what was before stays readable.

    Raises:
        InvalidInput: if valid_to is not after valid_from.
        NotFound: if there is no such relation.
        Refused: if a later end overlaps another relation, or closes a cycle of attribution.
    """
    with connection.transaction():
        store.lock(connection)
        existing = store.relations(connection)
        current = next((relation for relation in existing if relation.id == relation_id), None)
        if current is None:
            raise NotFound(f"relation {relation_id} does not exist; list the relations to see their ids")
        _, end = _checked_validity(current.valid_from, valid_to)
        if end == current.valid_to:
            return current
        closed = replace(current, version=current.version + 1, valid_to=end)
        _append(connection, existing, closed, "relation.close", actor, zone)
    return closed


def list_projects(connection: Connection) -> list[Project]:
    """Return all projects, in the order of their addresses."""
    return [Project(*row) for row in store.projects(connection)]


def list_relations(connection: Connection) -> list[Relation]:
    """Return all relations, open or closed, each in the version that holds, in the order of their validity."""
    return store.relations(connection)


def find_project(connection: Connection, address: str) -> Project:
    """Return the project at ``cloud/external_id``.

    Raises:
        NotFound: if there is none.
    """
    rows = store.projects_at(connection, address)
    if not rows:
        raise NotFound(f"project {address!r} is not registered; write cloud/external_id, or create it first")
    return Project(*rows[0])


def _check_platform(connection: Connection, platform: str) -> None:
    """A cloud keeps its platform for ever: a misspelt one would turn away all events of the cloud."""
    known = sorted({row.platform for row in registry_store.definitions(connection)})
    if platform not in known:
        raise InvalidInput(f"{platform[:60]!r} is not a platform; the registry knows {', '.join(known)}")


def _claim_cloud(connection: Connection, platform: str, cloud: str) -> None:
    registry_store.register_clouds(connection, {cloud: platform})
    registered = registry_store.platforms(connection, [cloud])[cloud]
    if registered != platform:
        raise Refused(f"cloud {cloud}", [f"it belongs to the platform {registered}, not to {platform}"])


def _append(
    connection: Connection, existing: Sequence[Relation], relation: Relation, action: str, actor: str, zone: str
) -> None:
    """Add a version of a relation, unless it contradicts the others."""
    names = {project.id: project.address for project in list_projects(connection)}
    subject = f"{names[relation.source]} {relation.type} {names[relation.target]}"
    for other in existing:
        if other.id != relation.id and _ends(other) == _ends(relation) and _overlap(other, relation):
            raise Refused(
                f"relation {subject}", [f"it overlaps relation {other.id}, {_validity(other)}; close that first"]
            )
    refuse_cycle(existing, relation, zone, names)
    store.add_relation(connection, relation)
    detail = {
        "id": str(relation.id),
        "version": relation.version,
        "valid_from": format_instant(relation.valid_from),
        "valid_to": None if relation.valid_to is None else format_instant(relation.valid_to),
        "metadata": relation.metadata,
    }
    audit.record(connection, actor, action, subject, detail)


def _ends(relation: Relation) -> tuple[UUID, UUID, str]:
    return (relation.source, relation.target, relation.type)


def _overlap(one: Relation, other: Relation) -> bool:
    return one.intersects(other.valid_from, other.valid_to or _END_OF_TIME)


def _validity(relation: Relation) -> str:
    until = "open" if relation.valid_to is None else f"to {format_instant(relation.valid_to)}"
    return f"valid from {format_instant(relation.valid_from)}, {until}"


def _says(relation: Relation) -> tuple[object, ...]:
    return (*_ends(relation), relation.valid_from, relation.valid_to, canonical_json(relation.metadata))


def _content(project: Project) -> tuple[object, ...]:
    return (project.platform, project.name, canonical_json(project.metadata))


def _checked_validity(valid_from: datetime, valid_to: datetime | None) -> tuple[datetime, datetime | None]:
    for what, instant in (("valid_from", valid_from), ("valid_to", valid_to)):
        if instant is not None and instant.tzinfo is None:
            raise InvalidInput(f"{what} has no zone; write an instant such as 2026-03-01T00:00:00Z")
    if valid_to is not None and valid_to <= valid_from:
        raise InvalidInput(f"valid_to {format_instant(valid_to)} is not after valid_from {format_instant(valid_from)}")
    return valid_from.astimezone(UTC), None if valid_to is None else valid_to.astimezone(UTC)


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    checked = exact(metadata or {})
    try:
        check_value(checked, "metadata")
    except InvalidEvent as error:
        raise InvalidInput(error.detail) from None
    if not isinstance(checked, dict):
        raise InvalidInput("metadata is not an object")
    return checked


def _check_name(what: str, text: str) -> None:
    try:
        fits = 0 < len(text.encode()) <= MAX_TEXT_BYTES and "\0" not in text
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise InvalidInput(
            f"{what} {text[:60]!r} is empty, longer than {MAX_TEXT_BYTES} bytes or holds what is no text"
        )
