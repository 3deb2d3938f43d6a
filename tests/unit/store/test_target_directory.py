"""A directory takes documents whole, once, and only where it is the directory that was meant."""

from pathlib import Path

import pytest

from tally.domain.delivery import Parcel
from tally.domain.errors import Refused, Unavailable
from tally.store.targets.directory import Directory

PARCEL = Parcel("2026-03/2026-03-A.json", "2026-03-A:drop", b'{"total": 1.00}\n')


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_document_is_one_file_however_often_it_is_delivered(tmp_path: Path) -> None:
    """The second time leaves the file alone: what watches the directory sees one."""
    receipt = Directory(tmp_path).deliver(PARCEL)
    written = Path(receipt).stat()
    assert Directory(tmp_path).deliver(PARCEL) == receipt == str(tmp_path / PARCEL.name)
    assert files(tmp_path) == {PARCEL.name: PARCEL.body}
    assert (Path(receipt).stat().st_ino, Path(receipt).stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_what_a_killed_delivery_has_left_is_written_over(tmp_path: Path) -> None:
    """A half written file has a hidden name of its own, and is gone afterwards."""
    (tmp_path / "2026-03").mkdir()
    (tmp_path / "2026-03" / ".2026-03-A.json.part").write_bytes(b'{"tot')
    Directory(tmp_path).deliver(PARCEL)
    assert files(tmp_path) == {PARCEL.name: PARCEL.body}


def test_another_file_of_the_name_is_not_overwritten(tmp_path: Path) -> None:
    """Refused: a person looks at it, and the other documents go on."""
    Directory(tmp_path).deliver(PARCEL)
    (tmp_path / PARCEL.name).write_bytes(b"mine")
    with pytest.raises(Refused, match="another file has its name"):
        Directory(tmp_path).deliver(PARCEL)
    assert files(tmp_path) == {PARCEL.name: b"mine"}


def test_a_directory_that_is_away_is_not_made(tmp_path: Path) -> None:
    """Bills would lie below the place where a disk is to be mounted, and be hidden by it."""
    with pytest.raises(Unavailable, match="does not exist"):
        Directory(tmp_path / "mount").deliver(PARCEL)
    assert not (tmp_path / "mount").exists()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file stands where the month has to be."""
    (tmp_path / "2026-03").write_bytes(b"")
    with pytest.raises(Unavailable, match=r"2026-03-A\.json cannot be written"):
        Directory(tmp_path).deliver(PARCEL)
