"""What the command line prints of a draft of prices on a month that was closed."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console

from tally.cli.grid import RowFormat, add, json_text, show, show_rows, table
from tally.services.what_if import Effect, ProjectEffect, UnsettledUsage, WhatIf

_EFFECT = ("before", "after", "difference", "percent", "drift_before", "drift_after")
_COLUMNS = ("cloud", "project_id", *_EFFECT, "currency")
_SHOWN = 20  # projects at either end; the other formats have all


def what_if(console: Console, made: WhatIf, form: RowFormat) -> None:
    """The difference for each project, what the draft leaves open, and the sums."""
    if form is RowFormat.JSON:
        console.out(json_text(_document(made)), highlight=False)
    elif form is RowFormat.CSV:
        show_rows(console, [_row(project, made) for project in made.projects], _COLUMNS, form)
    else:
        _table(console, made)


def _document(made: WhatIf) -> dict[str, Any]:
    return {
        "period": made.run.period,
        "preliminary": made.run.preliminary,
        "run_id": str(made.run.id),
        "price_version": made.run.pricing_version,
        "draft": {"version": made.draft.version, "content_hash": made.draft.content_hash},
        "currency": made.draft.currency,
        "total": _effect(made.total),
        "losers": made.losers,
        "winners": made.winners,
        "projects": [_row(project, made) for project in made.projects],
        "unsettled": [_unsettled(usage) for usage in made.unsettled],
    }


def _row(project: ProjectEffect, made: WhatIf) -> dict[str, Any]:
    key = {"cloud": project.cloud, "project_id": project.project_id}
    return key | _effect(project) | {"currency": made.draft.currency}


def _effect(effect: Effect) -> dict[str, Any]:
    return {name: getattr(effect, name) for name in _EFFECT}


def _unsettled(usage: UnsettledUsage) -> dict[str, Any]:
    found = {"kind": usage.finding.kind, "platform": usage.platform, "resource_type": usage.resource_type}
    return found | {"subject": usage.finding.subject, "records": usage.records}


def _table(console: Console, made: WhatIf) -> None:
    currency, total = made.draft.currency, made.total
    month = f"{made.run.period}{', month to date' if made.run.preliminary else ''}"
    console.print(f"{month}: {made.run.pricing_version} -> {made.draft.version}, in {currency}", markup=False)
    rows = table("Cloud", "Project", ">Before", ">After", ">Difference", ">Percent", ">Drift before", ">Drift after")
    for project in _ends(made.projects):
        add(rows, project.cloud, project.project_id, *_cells(project))
    show(console, rows)
    hidden = len(made.projects) - len(_ends(made.projects))
    if hidden:
        console.print(f"and {hidden} more in between: --format csv lists all")
    unchanged = len(made.projects) - made.losers - made.winners
    console.print(f"{made.losers} would pay more, {made.winners} less, {unchanged} the same")
    before, after, difference, percent, *drifts = _cells(total)
    share = f", {percent}" if percent else ""
    console.print(f"total {before} -> {after}: {difference} {currency}{share}", markup=False)
    console.print(f"drift of rounding {' -> '.join(drifts)} {currency}", markup=False)
    for usage in made.unsettled:
        where = f"{usage.platform}.{usage.resource_type} {usage.finding.subject}"
        console.print(f"finding {usage.finding.kind}: {where}, in {usage.records} record(s)", markup=False)


def _ends(projects: Sequence[ProjectEffect]) -> Sequence[ProjectEffect]:
    return projects if len(projects) <= 2 * _SHOWN else [*projects[:_SHOWN], *projects[-_SHOWN:]]


def _cells(effect: Effect) -> tuple[str, ...]:
    percent = "" if effect.percent is None else f"{effect.percent:+.2f} %"
    drifts = _drift(effect.drift_before), _drift(effect.drift_after)
    return f"{effect.before:f}", f"{effect.after:f}", f"{effect.difference:+.2f}", percent, *drifts


def _drift(drift: Decimal) -> str:
    return f"{drift:+.4f}"
