"""The example month: its events and projects go in as any others, through the same services."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import yaml

from tally import example
from tally.domain.instants import parse_instant
from tally.services.ingest import Ingest
from tally.services.ingest_files import Format, Summary, ingest_stream
from tally.services.projects import create_project
from tally.services.relations import Change, relate
from tally.settings import Settings
from tally.store.database import Connection

PERIOD = "2026-03"


def load_example(reporting: Connection, settings: Settings, actor: str, clock: Callable[[], datetime]) -> Summary:
    """Take the events, projects and relations of the example month; again is nothing."""
    # No reason is asked for, whatever is finalized: the example relates projects of its own clouds alone.
    _load_projects(reporting, Change(actor, clock(), finalized=(), zone=settings.zone))
    summary = Summary()
    ingest = Ingest(reporting, clock=clock, clock_skew=settings.clock_skew, actor=actor)
    with example.EVENTS.open("rb") as stream:
        ingest_stream(ingest, stream, Format.TALLY, "", summary, lambda: None)
    return summary


def _load_projects(reporting: Connection, change: Change) -> None:
    content: dict[str, list[dict[str, Any]]] = yaml.safe_load(example.PROJECTS.read_text(encoding="utf-8"))
    for project in content["projects"]:
        create_project(
            reporting,
            project["platform"],
            project["cloud"],
            project["external_id"],
            project.get("name"),
            project.get("metadata"),
            change.actor,
        )
    for relation in content["relations"]:
        valid_to = relation.get("valid_to")
        relate(
            reporting,
            relation["source"],
            relation["target"],
            relation["relation_type"],
            parse_instant(relation["valid_from"]),
            parse_instant(valid_to) if valid_to else None,
            relation.get("metadata"),
            change,
        )
