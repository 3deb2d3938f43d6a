"""Price files as an operator works with them: judged, loaded, compared with what is loaded.

What a file may say is pricing's business, how versions are kept and chosen that of pricing.py.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pricing.lint import Lint, Types, lint
from pricing.model import PriceVersion
from pricing.price_file import parse_price_version
from pricing.yaml_nodes import FaultyDocument
from tally.domain.errors import InvalidInput, cause
from tally.services.known_types import current_registry
from tally.services.pricing import add_versions, loaded_versions, version_named
from tally.services.registry import shipped_types
from tally.store.database import Connection
from tally.store.metering import price_use
from tally.store.metering.price_use import VersionUse

MAX_FILE_BYTES = 4 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml")


def price_files(paths: Iterable[Path]) -> list[Path]:
    """List files, and the version files of folders.

    Raises:
        InvalidInput: if a folder has none.
    """
    found: list[Path] = []
    for path in paths:
        files = _files_of(path) if path.is_dir() else [path]
        if not files:
            raise InvalidInput(f"{path} holds no price file; one ends with .yaml")
        found += files
    return found


def lint_without_database(path: Path) -> Lint:
    """Judge a file by its form and by the resource types that ship with Tally."""
    return lint(_text(path), str(path), shipped_types(), all_types=False)


def lint_for(reporting: Connection, metering: Connection, path: Path) -> Lint:
    """Judge a file by its form, by the registry of an installation, and by the versions that are loaded there."""
    return lint(_text(path), str(path), current_registry(reporting), loaded=loaded_versions(metering))


def load_files(reporting: Connection, metering: Connection, paths: Sequence[Path]) -> list[str]:
    """Load version files, all or none; what is loaded already is not judged again.

    Returns:
        The names of the versions that were added now.

    Raises:
        InvalidInput: with every fault of every file, what the registry does not know included.
        Refused: if a file says something else than the version that is loaded under its name, or versions collide.
    """
    loaded = {version.version for version in loaded_versions(metering)}
    types = current_registry(reporting)
    versions, faults = [], []
    for path in paths:
        try:
            versions.append(_judged(path, types, loaded))
        except InvalidInput as error:
            faults.append(str(error))
    if faults:
        raise InvalidInput("; ".join(faults))
    return add_versions(metering, versions)


def load_folder(reporting: Connection, metering: Connection, folder: Path) -> list[str]:
    """Load the version files of a folder, as load_files does; it may be empty.

    Raises:
        InvalidInput: also if it is no folder.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder of price versions")
    return load_files(reporting, metering, _files_of(folder))


def read_price_file(path: Path) -> PriceVersion:
    """Read one version file.

    Raises:
        InvalidInput: with all its faults.
    """
    return parse_price_version(_text(path), str(path))


def is_file(name: str) -> bool:
    """Whether a name is one of a file rather than of a loaded version."""
    return name.endswith(_SUFFIXES) or "/" in name


def version_of(metering: Connection | None, name: str) -> PriceVersion:
    """Return the version in a file, or the loaded one of that name; only that needs the database.

    Raises:
        InvalidInput, NotFound: if there is none.
    """
    if is_file(name):
        return read_price_file(Path(name))
    assert metering is not None
    return version_named(metering, name)


def versions_in_use(metering: Connection) -> list[VersionUse]:
    """List the loaded versions and what they are used by, by the first day that they hold for."""
    return price_use.versions_in_use(metering)


def _judged(path: Path, types: Types, loaded: Collection[str]) -> PriceVersion:
    """Read a file that is in order, or is loaded already: the registry, or Tally, may have moved on since."""
    text = _text(path)
    judged = lint(text, str(path), types)
    if judged.version is not None and not judged.faults:
        return judged.version
    with suppress(InvalidInput):
        version = parse_price_version(text, str(path), kept=True)
        if version.version in loaded:
            return version
    raise FaultyDocument(str(path), judged.faults)


def _files_of(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in _SUFFIXES)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read: {cause(error)}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"{path} is longer than {MAX_FILE_BYTES} bytes; it is no price file")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not UTF-8 at byte {error.start}") from None
