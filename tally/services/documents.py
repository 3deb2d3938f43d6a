"""Bill documents as files: TALLY_HOME/bills/<period>/<cloud>/<project>.json, byte for byte as the ledger holds them."""

import fcntl
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tally.store.metering.bills import BillRow

_LONGEST_NAME = 150  # of 255 bytes that file systems take


def write_documents(bills: Sequence[BillRow], folder: Path) -> list[Path]:
    """Write the document of each bill and return the paths in the same order; what the folder held before is gone."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands that write the same month take turns
        return _write(bills, folder)


def _write(bills: Sequence[BillRow], folder: Path) -> list[Path]:
    draft = folder.with_name(folder.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    names = [Path(_name(bill.cloud), _name(bill.project_id) + ".json") for bill in bills]
    for bill, name in zip(bills, names, strict=True):
        path = draft / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(bill.document, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    return [folder / name for name in names]


def _name(text: str) -> str:
    """Name a file after any text: never a way out of the folder, never too long, never the same for two texts."""
    name = quote(text, safe=" @+=,")
    if name.strip(".") == "":
        name = name.replace(".", "%2E")
    if len(name) <= _LONGEST_NAME:
        return name
    return name[:_LONGEST_NAME] + "~" + hashlib.sha256(text.encode()).hexdigest()[:16]
