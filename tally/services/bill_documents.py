"""Bills in the forms that are handed on: as JSON, as CSV, and as a page to read and print.

How each form reads is the business of pricing.documents; where files lie, of documents.py.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from pricing.documents.bill_csv import bill_csv
from pricing.documents.bill_page import BillPage, Issue, render_bill_page
from tally.domain.billing_document import DocumentKey
from tally.domain.errors import NotFound
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.documents import path_of, replacing, replacing_file
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.metering import bill_history as store
from tally.store.metering.bill_history import IssuedRow


class BillForm(StrEnum):
    """The forms of a bill."""

    JSON = "json"
    CSV = "csv"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class IssuedBills:
    """All that was issued for a project in a month, in its order; the last is what counts."""

    run: Run
    rows: Sequence[IssuedRow]

    @property
    def project(self) -> ProjectKey:
        """(cloud, project_id)."""
        return (self.rows[0].cloud, self.rows[0].project_id)


def issued(metering: Connection, run: Run, billed: Collection[ProjectKey] | None = None) -> Iterator[IssuedBills]:
    """Stream the bills as of a run with their history, in the order of (cloud, project); needs a transaction."""
    for _, rows in groupby(store.issued_bills(metering, run.id, billed), key=lambda row: row[:2]):
        yield IssuedBills(run, list(rows))


def bill_document(metering: Connection, run: Run, project: ProjectKey, form: BillForm, issuer: str) -> str:
    """Return the bill of a project in one form.

    Raises:
        NotFound: if it has none.
    """
    with metering.transaction():
        bills = next(issued(metering, run, [project]), None)
    if bills is None:
        raise NotFound(f"{run.period} has no bill of project {'/'.join(project)}")
    return WRITERS[form](bills, issuer)


def export_bills(
    metering: Connection,
    run: Run,
    form: BillForm,
    folder: Path,
    issuer: str,
    billed: Collection[ProjectKey] | None = None,
) -> list[Path]:
    """Write each bill as a file: <folder>/<cloud>/<project>.<form>.

    What the folder held before is gone; with ``billed``, only the files of those projects are written again.
    """
    if billed is not None:
        return [_replace(metering, run, form, folder, issuer, project) for project in billed]
    names = []
    with replacing(folder) as draft, metering.transaction():
        for bills in issued(metering, run):
            name = path_of(*bills.project, f".{form}")
            names.append(folder / name)
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_text(WRITERS[form](bills, issuer), encoding="utf-8", newline="")
    return names


def _replace(metering: Connection, run: Run, form: BillForm, folder: Path, issuer: str, project: ProjectKey) -> Path:
    path = folder / path_of(*project, f".{form}")
    with replacing_file(path) as draft:
        draft.write_text(bill_document(metering, run, project, form, issuer), encoding="utf-8", newline="")
    return path


def _page(bills: IssuedBills, issuer: str) -> str:
    run, last = bills.run, bills.rows[-1]
    status = "preliminary" if run.preliminary else run.status
    return render_bill_page(
        BillPage(run.period, run.zone, status, issuer, *bills.project, last.project_name or "", _issues(bills))
    )


def _issues(bills: IssuedBills) -> list[Issue]:
    """One for each run: what it takes back and what it puts in its place are one issue."""
    issues = []
    for _, group in groupby(bills.rows, key=lambda row: row.run_id):
        rows = list(group)
        numbers = {row.sign: _number(bills.run, row) for row in rows}
        last = rows[-1]
        document = read_json(last.document) if last.sign > 0 else None
        issues.append(
            Issue(
                str(last.run_id), last.issued_at, document, last.document_hash, last.reason or "",
                number=numbers.get(1, ""), credit_note=numbers.get(-1, ""),
            )
        )  # fmt: skip
    return issues


def _number(run: Run, row: IssuedRow) -> str:
    """The number under which it is delivered; what is not finalized is no invoice."""
    if run.status != "finalized":
        return ""
    return DocumentKey(run.period, row.run_id, row.cloud, row.project_id, row.sign).number


def _csv(bills: IssuedBills, _issuer: str) -> str:
    """Write the bill that counts; of one that was taken back, a heading alone: it adds up to nothing."""
    last = bills.rows[-1]
    return bill_csv(read_json(last.document) if last.sign > 0 else None, bills.run.pricing_version or "")


def _json(bills: IssuedBills, _issuer: str) -> str:
    return bills.rows[-1].document


WRITERS: Mapping[BillForm, Callable[[IssuedBills, str], str]] = {
    BillForm.JSON: _json,
    BillForm.CSV: _csv,
    BillForm.HTML: _page,
}
