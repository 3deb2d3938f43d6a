"""The JSON form of a draft of prices on a closed month, over HTTP and on the command line alike."""

from typing import Any

from tally.services.what_if import Effect, ProjectEffect, UnsettledUsage, WhatIf

EFFECT = ("before", "after", "difference", "percent", "drift_before", "drift_after")


def write_what_if(made: WhatIf) -> dict[str, Any]:
    """Write the comparison; numbers are decimals. Projects come in their order: who would pay most more first."""
    return {
        "period": made.run.period,
        "preliminary": made.run.preliminary,
        "run_id": str(made.run.id),
        "price_version": made.run.pricing_version,
        "price_changes": made.run.price_changes,
        "draft": {"version": made.draft.version, "content_hash": made.draft.content_hash},
        "currency": made.draft.currency,
        "total": _effect(made.total),
        "losers": made.losers,
        "winners": made.winners,
        "projects": [project_view(project, made) for project in made.projects],
        "unsettled": [_unsettled(usage) for usage in made.unsettled],
    }


def project_view(project: ProjectEffect, made: WhatIf) -> dict[str, Any]:
    """What is said of one project."""
    key = {"cloud": project.cloud, "project_id": project.project_id}
    return key | _effect(project) | {"currency": made.draft.currency}


def _effect(effect: Effect) -> dict[str, Any]:
    return {name: getattr(effect, name) for name in EFFECT}


def _unsettled(usage: UnsettledUsage) -> dict[str, Any]:
    found = {"kind": usage.finding.kind, "platform": usage.platform, "resource_type": usage.resource_type}
    return found | {"subject": usage.finding.subject, "records": usage.records}
