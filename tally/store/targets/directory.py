"""A directory as a target: a document appears in it whole or not at all, and stays when the power fails."""

import os
from pathlib import Path

from tally.domain.delivery import Parcel
from tally.domain.errors import Refused, Unavailable, cause


class Directory:
    """Files ``<month>/<number>.json`` below a directory, which has to exist: a disk that is away is not replaced."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def deliver(self, parcel: Parcel) -> str:
        """Write the file under its final name at once; one that is there already, with the same content, is left."""
        path = self._root / parcel.name
        if not self._root.is_dir():
            raise Unavailable(f"directory {self._root} does not exist; make it, or mount its disk")
        try:
            if path.exists():
                return _same(path, parcel.body)
            path.parent.mkdir(exist_ok=True)
            _sync_folder(self._root)
            _write(path, parcel.body)
        except OSError as error:
            raise Unavailable(f"{path} cannot be written: {cause(error)}") from None
        return str(path)


def _same(path: Path, body: bytes) -> str:
    if path.read_bytes() != body:
        raise Refused(f"{path} is not written", ["another file has its name; move it away"])
    return str(path)


def _write(path: Path, body: bytes) -> None:
    # The name is the same each time, so that whoever was killed leaves no more than one, which the next overwrites.
    draft = path.with_name(f".{path.name}.part")
    with draft.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder as lasting as the content of its files."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
