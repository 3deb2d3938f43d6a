"""What the command line prints of a draft of prices on a month that was closed."""

from collections.abc import Sequence
from decimal import Decimal

from rich.console import Console

from tally.cli.grid import RowFormat, add, json_text, show, show_rows, table
from tally.services.what_if import Effect, ProjectEffect, WhatIf
from tally.services.what_if_document import EFFECT, project_view, write_what_if

_COLUMNS = ("cloud", "project_id", *EFFECT, "currency")
_SHOWN = 20  # projects at either end; the other formats have all


def what_if(console: Console, made: WhatIf, form: RowFormat) -> None:
    """The difference for each project, what the draft leaves open, and the sums."""
    if form is RowFormat.JSON:
        console.out(json_text(write_what_if(made)), highlight=False)
    elif form is RowFormat.CSV:
        show_rows(console, [project_view(project, made) for project in made.projects], _COLUMNS, form)
    else:
        _table(console, made)


def _table(console: Console, made: WhatIf) -> None:
    currency, total = made.draft.currency, made.total
    month = f"{made.run.period}{', month to date' if made.run.preliminary else ''}"
    console.print(f"{month}: {', '.join(made.run.price_versions)} -> {made.draft.version}, in {currency}")
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
    console.print(f"total {before} -> {after}: {difference} {currency}{share}")
    console.print(f"drift of rounding {' -> '.join(drifts)} {currency}")
    for usage in made.unsettled:
        where = f"{usage.platform}.{usage.resource_type} {usage.finding.subject}"
        console.print(f"finding {usage.finding.kind}: {where}, in {usage.records} record(s)")


def _ends(projects: Sequence[ProjectEffect]) -> Sequence[ProjectEffect]:
    return projects if len(projects) <= 2 * _SHOWN else [*projects[:_SHOWN], *projects[-_SHOWN:]]


def _cells(effect: Effect) -> tuple[str, ...]:
    percent = "" if effect.percent is None else f"{effect.percent:+.2f} %"
    drifts = _drift(effect.drift_before), _drift(effect.drift_after)
    return f"{effect.before:f}", f"{effect.after:f}", f"{effect.difference:+.2f}", percent, *drifts


def _drift(drift: Decimal) -> str:
    return f"{drift:+.4f}"
