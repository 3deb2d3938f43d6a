"""Queries that can be asked for some projects only: the condition, and its parameters."""

from collections.abc import Iterable

from tally.domain.principal import ProjectKey


def among_asked(cloud: str, project: str) -> str:
    """The condition that the project which two columns name is one of ``asked_projects``, or that all are asked for."""
    return f"""(
            %(clouds)s::text[] is null
            or ({cloud}, {project}) in (
                select cloud, project_id
                from unnest(%(clouds)s::text[], %(projects)s::text[]) as asked (cloud, project_id)
            )
        )"""


def asked_projects(projects: Iterable[ProjectKey] | None) -> dict[str, list[str] | None]:
    """Parameters of a query for some projects; None asks for all."""
    if projects is None:
        return {"clouds": None, "projects": None}
    pairs = list(projects)
    return {"clouds": [cloud for cloud, _ in pairs], "projects": [project for _, project in pairs]}
