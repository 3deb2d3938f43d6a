"""A metered month as FOCUS datasets: one per run, so that what is finalized is exported the same for ever.

The regular run is one dataset and each correction another: together they are what the month comes to. How a row
reads is the business of pricing.documents.focus; how a file is written, of focus_files.py.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from zoneinfo import ZoneInfo

from pricing.documents.adjustments import billed_adjustments
from pricing.documents.focus import Adjustment, Dataset, FocusRow, adjustment_row, charge_row
from pricing.documents.focus_columns import NAMES
from pricing.documents.focus_names import shipped_names
from tally.domain.billing_document import DocumentKey
from tally.domain.errors import NotFound, Refused
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.documents import replacing
from tally.services.focus_files import WRITERS, write_metadata
from tally.services.runs import finalized_runs
from tally.settings import Settings
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.metering import charges as store
from tally.store.metering.charges import WrittenBill, WrittenTotal
from tally.store.metering.runs import latest_run

_BILLED, _ACCOUNT = NAMES.index("BilledCost"), NAMES.index("BillingAccountId")


@dataclass(frozen=True, slots=True)
class Names:
    """Who is named as provider, publisher and issuer of the invoice."""

    provider: str
    publisher: str
    issuer: str

    @classmethod
    def of(cls, settings: Settings) -> "Names":
        """Read them from the settings; publisher and issuer are the provider where nothing else is said.

        Raises:
            Refused: if there is no provider: FOCUS takes no placeholder.
        """
        if not settings.provider_name:
            raise Refused("FOCUS names who provides the services", ["set TALLY_PROVIDER_NAME"])
        provider = settings.provider_name
        return cls(provider, settings.publisher_name or provider, settings.invoice_issuer_name or provider)


@dataclass(frozen=True, slots=True)
class _Issue:
    """A run whose charges become a dataset, the run that it stands on, and the name of the file."""

    run: Run
    former: Run | None
    file: str


def export_focus(
    metering: Connection,
    period: BillingPeriod,
    form: str,
    folder: Path,
    names: Names,
    now: datetime,
    billed: Collection[ProjectKey] | None = None,
) -> list[Path]:
    """Write the FOCUS datasets of a month as ``csv`` or ``parquet``; what the folder held before is gone.

    ``billed`` asks for some billed projects only.

    Raises:
        NotFound: if the month has no completed run.
        Refused: if the charges would not add up to the bills.
    """
    issues = _issues(metering, str(period))
    with replacing(folder) as draft:
        for issue in issues:
            _write(metering, issue, form, draft / f"{issue.file}.{form}", names, billed)
        write_metadata(draft / "focus-metadata.json", now)
    return [folder / f"{issue.file}.{form}" for issue in issues]


def open_dataset(
    metering: Connection,
    period: BillingPeriod,
    number: int,
    form: str,
    names: Names,
    billed: Collection[ProjectKey] | None = None,
) -> tuple[str, BinaryIO]:
    """Write one dataset of a month, 0 or the number of a correction, and open it; returns its name and the file.

    The file has no place in a folder any more: it is gone when it is closed.

    Raises:
        NotFound, Refused: as export_focus; also if there is no such correction.
    """
    issues = _issues(metering, str(period))
    if number >= len(issues):
        raise NotFound(f"{period} has no correction {number}; it has {len(issues) - 1}")
    name = f"{issues[number].file}.{form}"
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        _write(metering, issues[number], form, path, names, billed)
        return name, path.open("rb")


def adding_up(rows: Iterable[FocusRow], totals: Mapping[ProjectKey, WrittenTotal]) -> Iterator[FocusRow]:
    """Pass rows on, and compare what they bill each account with what it was billed.

    Raises:
        Refused: after the last row, naming the accounts that differ.
    """
    open_totals = defaultdict(Decimal, {"/".join(project): written.total for project, written in totals.items()})
    for row in rows:
        open_totals[row[_ACCOUNT]] -= row[_BILLED]
        yield row
    wrong = [f"{account} lacks {total:.2f}" for account, total in sorted(open_totals.items()) if total]
    if wrong:
        raise Refused("the charges do not add up to the bills", wrong)


def _write(
    metering: Connection, issue: _Issue, form: str, path: Path, names: Names, billed: Collection[ProjectKey] | None
) -> None:
    with metering.transaction():
        totals = store.written_totals(metering, issue.run.id, billed)
        dataset = _dataset(metering, issue, names, totals)
        WRITERS[form](adding_up(_rows(metering, issue, dataset, billed), totals), path)


def _issues(metering: Connection, period: str) -> list[_Issue]:
    finalized = finalized_runs(metering, period)
    if not finalized:
        run = latest_run(metering, period)
        if run is None:
            raise NotFound(f"{period} has no completed run; close it first: tally close {period}")
        return [_Issue(run, None, f"focus-{period}")]
    return [_Issue(finalized[0], None, f"focus-{period}")] + [
        _Issue(run, finalized[number], f"focus-{period}-correction-{number + 1}")
        for number, run in enumerate(finalized[1:])
    ]


def _rows(
    metering: Connection, issue: _Issue, dataset: Dataset, billed: Collection[ProjectKey] | None
) -> Iterator[FocusRow]:
    run, former = issue.run, issue.former
    for charge in store.charges(metering, run.id, former.id if former else None, billed):
        yield charge_row(charge, dataset)
    for bill in store.written_bills(metering, run.id, billed):
        for adjustment in _adjustments(bill):
            yield adjustment_row(adjustment, dataset)


def _dataset(
    metering: Connection,
    issue: _Issue,
    names: Names,
    totals: Mapping[ProjectKey, WrittenTotal],
) -> Dataset:
    run = issue.run
    issued = _month_of_issue(run)
    projects = store.known_projects(metering, run.id)

    def invoice_id(billed: ProjectKey) -> str | None:
        if run.status != "finalized" or billed not in totals:
            return None
        return DocumentKey(run.period, run.id, *billed, totals[billed].sign).number

    return Dataset(
        names.provider,
        names.publisher,
        names.issuer,
        run.id,
        run.corrects_run_id,
        issued.start,
        issued.end,
        run.period_from,
        run.period_to,
        shipped_names(),
        {key: project.name for key, project in projects.items()},
        {key: project.metadata for key, project in projects.items()},
        invoice_id,
    )


def _month_of_issue(run: Run) -> BillingPeriod:
    """The metered month; of a correction the one in which it was finalized, in the zone of the installation."""
    if run.kind == "regular":
        return BillingPeriod.parse(run.period, run.zone)
    assert run.finalized_at is not None, "a correction that counts is finalized"
    local = run.finalized_at.astimezone(ZoneInfo(run.zone))
    return BillingPeriod(local.year, local.month, run.zone)


def _adjustments(bill: WrittenBill) -> Iterator[Adjustment]:
    if '"adjustments"' not in bill.document:  # most bills have none, and some are megabytes
        return
    for line in billed_adjustments(read_json(bill.document)):
        yield Adjustment(
            bill.cloud, bill.project_id, bill.platform, line.type, line.scope, line.text, line.amount, bill.currency,
            bill.sign,
        )
