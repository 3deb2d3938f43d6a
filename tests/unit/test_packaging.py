"""The packages are those of the repository, and uv can be installed on a machine that has nothing."""

import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tally.cli.parts import PARTS, commands_of

REPOSITORY = Path(__file__).parents[2]
UNNEEDED = ("great_expectations", "pandas", "numpy", "scipy", "pyarrow", "s3fs", "fastapi")


@pytest.mark.parametrize("name", ["tally", "pricing", "assets", "resources", "tally_dagster"])
def test_packages_are_imported_from_the_repository(name: str) -> None:
    """A copy in site-packages would be tested, and shown by Dagster, instead of the code at hand."""
    assert Path(str(import_module(name).__file__)).parent == REPOSITORY / name


def test_the_product_runs_without_orchestrator_and_checks() -> None:
    """The command line imports neither Dagster, dbt nor Great Expectations, and what is slow not for other commands."""
    slow = ("dagster", "dbt", "great_expectations", "fsspec", "jinja2", "numpy", "pyarrow", "requests")
    program = f"import sys, tally.cli, tally.cli.months; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("part", PARTS)
def test_each_command_is_found_in_its_module(part: str) -> None:
    """Modules of commands are imported by name, when somebody asks for one."""
    assert tuple(commands_of(part)) == PARTS[part]


def test_each_module_of_commands_is_one_of_the_parts() -> None:
    """A command that nobody can ask for would be dead."""
    modules = (REPOSITORY / "tally" / "cli").glob("*.py")
    assert {file.stem for file in modules if "\n@commands." in file.read_text(encoding="utf-8")} == set(PARTS)


def test_a_close_imports_only_what_it_needs() -> None:
    """Its process holds neither Great Expectations, which has one of its own, nor what writes documents and exports."""
    program = f"""import sys, tally_dagster.launch
print([name for name in {UNNEEDED} if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("file", ["sql", "yaml", "jsonl"])
def test_data_files_lie_within_packages(file: str) -> None:
    """What is read at run time is installed with the package that reads it."""
    found = [path for name in ("tally", "pricing") for path in (REPOSITORY / name).rglob(f"*.{file}")]
    assert found
    for path in found:
        parents = [parent for parent in path.parents if REPOSITORY in parent.parents]
        assert any((parent / "__init__.py").exists() for parent in parents), path


@pytest.fixture
def install_uv() -> ModuleType:
    """The program that make runs, as a module."""
    spec = importlib.util.spec_from_file_location("install_uv", REPOSITORY / ".ci" / "install_uv.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Index:
    """A package index with one wheel, which does what a real uv would: print its name."""

    def __init__(self, module: ModuleType, *, honest: bool = True) -> None:
        """Serve a wheel under the hash of its content, or of another."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(f"uv-{module.VERSION}.data/scripts/uv", "#!/bin/sh\necho uv\n")
        self.wheel = content.getvalue()
        digest = hashlib.sha256(self.wheel if honest else b"other").hexdigest()
        file = {"filename": module.wheel_name(), "url": "https://files/uv.whl", "hashes": {"sha256": digest}}
        self.listing = json.dumps({"files": [file]}).encode()

    def __call__(self, url: str) -> bytes:
        """Answer a request."""
        return self.wheel if url.endswith(".whl") else self.listing


def test_uv_comes_out_of_its_wheel(install_uv: ModuleType, tmp_path: Path) -> None:
    """Without pip and venv, as on a fresh Debian, the standard library does it."""
    install_uv.by_wheel(tmp_path, Index(install_uv))
    program = tmp_path / "bin" / "uv"
    assert os.access(program, os.X_OK)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "uv\n"


def test_a_wheel_with_another_hash_is_refused(install_uv: ModuleType, tmp_path: Path) -> None:
    """What the index did not promise is not run."""
    with pytest.raises(RuntimeError, match="does not have the hash"):
        install_uv.by_wheel(tmp_path, Index(install_uv, honest=False))
    assert not (tmp_path / "bin").exists()
