"""The invariants as blocking asset checks: a violation ends the run, names the rows and says what to do (rule 16).

Which invariants gate which step is said here; what they are, in tally.store.metering.checks.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSpec,
    MarkdownMetadataValue,
    MetadataValue,
    multi_asset_check,
)

from assets.partitions import MONTHS, partitioned_checks, running
from assets.steps import METERING_POOL, making
from resources.databases import Metering
from resources.expectations import Expectations, Verdict
from resources.installation import Installation
from tally.domain.run import Check, Run
from tally.services import runs
from tally.store.metering.checks import Invariant, invariant

# What takes longest comes first: two are looked for at once, and neither should wait for the other at the end.
GATES = {
    "usage": (
        "traceability",
        "projection_matches_timelines",
        "coverage",
        "no_gap",
        "no_overlap",
        "no_negative_usage",
        "count_is_one",
        "counters_add_up",
    ),
    "rating": (
        "amount_is_rounded_exact_amount",
        "amount_keeps_terms",
        "every_part_is_rated",
        "every_priced_quantity_is_rated",
        "no_negative_amount",
    ),
    "bills": ("bills_equal_line_items",),
}
_ALSO_READ = {
    "projection_matches_timelines": ["current_resources"],
    "coverage": ["int_proved_lives"],
    "every_part_is_rated": ["int_usage_increments"],
}
_SHOWN = 20


def invariant_checks() -> list[AssetChecksDefinition]:
    """One definition per gate: its invariants are validated together."""
    return [_gate(asset, [invariant(name) for name in names]) for asset, names in GATES.items()]


def _gate(asset: str, invariants: Sequence[Invariant]) -> AssetChecksDefinition:
    @multi_asset_check(name=f"check_{asset}", specs=[_spec(asset, i) for i in invariants], pool=METERING_POOL)
    def check(
        context: AssetCheckExecutionContext, metering: Metering, installation: Installation, expectations: Expectations
    ) -> Iterator[AssetCheckResult]:
        run = running(context, metering, installation)
        with making(context, metering, run):
            verdicts = expectations.validate_queries({i.name: i.query(run) for i in invariants})
        checks = [_check(verdict) for verdict in verdicts]
        runs.record_checks(metering.connection, run, checks)
        for i, verdict, verdict_check in zip(invariants, verdicts, checks, strict=True):
            yield AssetCheckResult(
                asset_key=asset,
                check_name=i.name,
                passed=verdict.passed,
                description=None if verdict.passed else f"{verdict_check.detail}. {i.remedy}",
                metadata=_metadata(run, i, verdict),
            )

    return check


def _spec(asset: str, i: Invariant) -> AssetCheckSpec:
    with partitioned_checks():
        return AssetCheckSpec(
            i.name,
            asset=asset,
            blocking=True,
            description=i.truth,
            additional_deps=_ALSO_READ.get(i.name),
            partitions_def=MONTHS,
        )


def _check(verdict: Verdict) -> Check:
    if verdict.passed:
        return Check(verdict.name, True, 0, "")
    first = verdict.first_rows[0]
    where = " ".join(str(first[column]) for column in ("cloud", "resource_type", "subject") if first[column])
    others = f" (and {verdict.violations - 1} more)" if verdict.violations > 1 else ""
    return Check(verdict.name, False, verdict.violations, f"{where}: {first['detail']}{others}")


def _metadata(run: Run, i: Invariant, verdict: Verdict) -> dict[str, MetadataValue[Any]]:
    metadata: dict[str, MetadataValue[Any]] = {
        "run_id": MetadataValue.text(str(run.id)),
        "violations": MetadataValue.int(verdict.violations),
    }
    if not verdict.passed:
        metadata |= {"rows": _table(verdict), "remedy": MetadataValue.text(i.remedy)}
    return metadata


def _table(verdict: Verdict) -> MarkdownMetadataValue:
    import pandas as pd

    rows = pd.DataFrame(verdict.first_rows[:_SHOWN], columns=["cloud", "resource_type", "subject", "detail"], dtype=str)
    # Names come from outside: a bar in one of them would end its cell.
    table = rows.replace(r"([|\\])", r"\\\1", regex=True).to_markdown(index=False)
    more = verdict.violations - len(rows)
    return MetadataValue.md(f"{table}\n\nand {more} more" if more > 0 else table)
