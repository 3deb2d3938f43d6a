"""Who acts, and what they may see: a role, the cloud that a credential is bound to, the projects of a consumer.

How callers prove who they are is the API's business; which operation a role may call stands in its contract.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

ProjectKey = tuple[str, str]  # (cloud, the project's id in that cloud)


class Role(StrEnum):
    """What a caller is for. Each operation of the API names the roles that may call it."""

    INGEST = "ingest"  # a collector: sends the events of its cloud
    SYNC = "sync"  # starts the reconciliation of its cloud
    OPERATOR = "operator"  # keeps the registry, projects, dead letters; sees everything
    READ_ALL = "read_all"  # metering and finance: sees everything, changes nothing
    CONSUMER = "consumer"  # a customer: sees its own projects


class Scope(NamedTuple):
    """The one installation that a credential is bound to."""

    platform: str
    cloud: str


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose identity is proved. ``name`` is the actor of the audit log, such as ``token:collector-eu1``."""

    name: str
    role: Role
    scope: Scope | None = None  # of ingest and sync credentials
    projects: frozenset[ProjectKey] | None = None  # what may be seen; None: every project

    def sees(self, cloud: str, project_id: str) -> bool:
        """Whether what belongs to a project may be shown to the caller."""
        return self.projects is None or (cloud, project_id) in self.projects
