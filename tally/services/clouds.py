"""Clouds: the installations of platforms, each of exactly one platform for ever (rule 1)."""

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.project import META_PLATFORM, check_cloud
from tally.store.database import Connection
from tally.store.reporting import audit, registry
from tally.store.reporting import clouds as store
from tally.store.reporting.clouds import CloudRow

_SHOWN = 10  # clouds that an error names


def register_cloud(connection: Connection, platform: str, cloud: str, actor: str) -> tuple[CloudRow, bool]:
    """Register an installation of a platform; returns it, and whether it is new.

    Raises:
        InvalidInput: if the platform is not in the registry of resource types, or the name holds a slash, which parts
            a cloud from a project, or a character that nobody sees.
        Refused: if the cloud belongs to another platform.
    """
    with connection.transaction():
        created = claim_cloud(connection, platform, cloud, actor)
    return store.select_clouds(connection, cloud=cloud)[0], created


def claim_cloud(connection: Connection, platform: str, cloud: str, actor: str) -> bool:
    """Make sure that a cloud is registered for its platform; returns whether it is new. Needs a transaction.

    Raises:
        InvalidInput: if no cloud may bear that name, or the platform is not in the registry of resource types.
        Refused: if the cloud belongs to another platform.
    """
    check_cloud(cloud)
    _check_platform(connection, platform)
    if store.add_cloud(connection, platform, cloud):
        audit.record(connection, actor, "cloud.register", cloud, {"platform": platform})
        return True
    registered = store.select_clouds(connection, cloud=cloud)[0].platform
    if registered != platform:
        raise Refused(f"cloud {cloud}", [f"it belongs to the platform {registered}, not to {platform}"])
    return False


def list_clouds(
    connection: Connection, *, platform: str | None = None, after: str | None = None, limit: int | None = None
) -> list[CloudRow]:
    """Return clouds by name, those after ``after``, at most ``limit``."""
    return store.select_clouds(connection, platform=platform, after=after, limit=limit)


def find_cloud(connection: Connection, cloud: str) -> CloudRow:
    """Return a registered cloud.

    Raises:
        NotFound: if none has that name.
    """
    for row in store.select_clouds(connection, cloud=cloud):
        return row
    raise NotFound(f"there is no cloud {cloud}; tally cloud list names those that there are")


def only_cloud(connection: Connection, platform: str) -> str:
    """Return the cloud of a platform that has exactly one.

    Raises:
        InvalidInput: if it has none, or several, naming them.
    """
    _check_platform(connection, platform)
    names = [row.cloud for row in store.select_clouds(connection, platform=platform, limit=_SHOWN + 1)]
    if not names:
        raise InvalidInput(f"{platform} has no cloud yet; register its installation as a cloud first, or name it")
    if len(names) > 1:
        shown = ", ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "")
        raise InvalidInput(f"{platform} has several clouds; name the cloud: one of {shown}")
    return names[0]


def _check_platform(connection: Connection, platform: str) -> None:
    """A cloud keeps its platform for ever: a misspelt one would turn away all events of the cloud."""
    known = sorted({row.platform for row in registry.definitions(connection)} | {META_PLATFORM})
    if platform not in known:
        raise InvalidInput(
            f"{platform[:60]!r} is not a platform; the registry knows {', '.join(known)}; "
            "a platform begins with its first resource type, which an operator registers"
        )
