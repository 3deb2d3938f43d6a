"""Bill documents as files: any name finds its place in the folder, and writers of one month take turns."""

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

from tally.services.documents import write_documents
from tally.store.metering.bills import BillRow

NAMES = ["..", ".", "../../etc/passwd", "a/b", "a\\b", "A ", "🦀" * 128, "x" * 512, "x" * 511, "%2E", "new\nline"]


def bill(project: str) -> BillRow:
    """The bill of a project."""
    return BillRow("os", project, "openstack", Decimal(1), "EUR", json.dumps({"project": project}), "")


def test_every_name_has_a_file_of_its_own_below_the_folder(tmp_path: Path) -> None:
    """Whatever a cloud calls its projects."""
    folder = tmp_path / "bills" / "2026-03"
    paths = write_documents([bill(name) for name in NAMES], folder)
    assert [json.loads(path.read_text())["project"] for path in paths] == NAMES
    assert all(path.resolve().is_relative_to(folder) for path in paths)


def test_writers_of_one_month_take_turns(tmp_path: Path) -> None:
    """Two commands at once leave the documents of one of them, whole."""
    bills = [bill(f"p-{number}") for number in range(50)]
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda _: write_documents(bills, tmp_path / "2026-03"), range(16)))
    assert all(paths == written[0] for paths in written)
    assert all(path.exists() for path in written[0])
