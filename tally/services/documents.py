"""Documents as files: <folder>/<cloud>/<project><suffix>, each whole or not there, whatever a project is called.

What stands in a document belongs to pricing; which documents there are, to the use cases.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

_LONGEST_NAME = 150  # of 255 bytes that file systems take


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of ``folder`` at the end; after a failure the former one stays."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _turn(folder.parent):
        draft = folder.with_name(folder.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        yield draft
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Give the path of a file that takes the place of ``path`` at the end; the folder's other files stay."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{os.getpid()}.new")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def path_of(cloud: str, project_id: str, suffix: str) -> Path:
    """Return the place of a project's document below a folder: different for each project, whatever its name."""
    return Path(file_name(cloud), file_name(project_id) + suffix)


def file_name(text: str) -> str:
    """Name a file after any text: never a way out of the folder, never too long, never the same for two texts."""
    name = quote(text, safe=" @+=,")
    if name.strip(".") == "":
        name = name.replace(".", "%2E")
    if len(name) <= _LONGEST_NAME:
        return name
    return name[:_LONGEST_NAME] + "~" + hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Let two commands that write the same month take turns."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
