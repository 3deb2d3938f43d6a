"""The documentation is held to the code: settings, links, commands."""

import re
from pathlib import Path

import pytest
import typer

from tally.cli import app
from tally.settings import SETTINGS

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ROW = re.compile(r"^\| `(TALLY_\w+)` \| (?:`([^`]*)`)? *\| (.*) \|$", re.MULTILINE)
_COMMAND = re.compile(r"^ *tally ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)
_OPTION = re.compile(r"--[a-z-]+")


def test_settings_are_documented() -> None:
    """The page lists exactly the settings, with their defaults and their help."""
    page = (REPOSITORY / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert _ROW.findall(page) == [tuple(setting) for setting in SETTINGS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_resolve(page: Path) -> None:
    """Each relative link leads to a file of the repository."""
    links = [link.partition("#")[0] for link in _LINK.findall(page.read_text(encoding="utf-8"))]
    broken = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_exist(page: Path) -> None:
    """Each command in an example exists, and so does each of its options."""
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    for line in page.read_text(encoding="utf-8").splitlines():
        match = _COMMAND.match(line)
        if match is None:
            continue
        command = commands.commands.get(match[1])
        if isinstance(command, typer.core.TyperGroup):
            command = command.commands.get(match[2] or "")
        assert command is not None, f"{page.name}: {line}"
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(_OPTION.findall(line)) <= known, f"{page.name}: {line}"


def test_the_readme_shows_every_command() -> None:
    """Nobody has to guess that a command exists."""
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    missing = {name for name in commands.commands if f"tally {name}" not in readme and f"make {name}" not in readme}
    assert missing <= {"migrate"}


def test_make_targets_in_the_documentation_exist() -> None:
    """Each `make target` that a page names is a target."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, page.name
