"""Bill documents as files: any name finds its place in the folder, and writers of one month take turns."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tally.services.documents import path_of, replacing

NAMES = ["..", ".", "../../etc/passwd", "a/b", "a\\b", "A ", "🦀" * 128, "x" * 512, "x" * 511, "%2E", "new\nline"]


def write(projects: Sequence[str], folder: Path) -> list[Path]:
    """Write a file for each project, which holds its name."""
    names = [path_of("os", project, ".json") for project in projects]
    with replacing(folder) as draft:
        for project, name in zip(projects, names, strict=True):
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_text(project)
    return [folder / name for name in names]


def test_every_name_has_a_file_of_its_own_below_the_folder(tmp_path: Path) -> None:
    """Whatever a cloud calls its projects."""
    folder = tmp_path / "bills" / "2026-03"
    paths = write(NAMES, folder)
    assert [path.read_text() for path in paths] == NAMES
    assert all(path.resolve().is_relative_to(folder) for path in paths)


def test_writers_of_one_month_take_turns(tmp_path: Path) -> None:
    """Two commands at once leave the documents of one of them, whole."""
    projects = [f"p-{number}" for number in range(50)]
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda _: write(projects, tmp_path / "2026-03"), range(16)))
    assert all(paths == written[0] for paths in written)
    assert all(path.exists() for path in written[0])
