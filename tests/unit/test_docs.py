"""The documentation is held to the code: settings, links, commands."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
import yaml

from pricing.documents.focus_columns import COLUMNS
from pricing.price_file import parse_price_version
from pricing.rating import RatingFinding
from tally.api.contract import operations
from tally.cli.parts import PARTS, commands_of
from tally.domain.completeness import KINDS
from tally.domain.event import FIELDS, decode_event, decode_json
from tally.domain.graph import RELATION_TYPES, GraphWarning
from tally.domain.resource_type import ResourceType
from tally.services.completeness_policy import parse_policy, shipped_policy
from tally.services.quote_document import read_items
from tally.services.validation import PayloadRules
from tally.settings import SETTINGS

REPOSITORY = Path(__file__).parents[2]
COMMANDS = {name: command for part in PARTS for name, command in commands_of(part).items()}
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ROW = re.compile(r"^\| `(TALLY_\w+)` \| (?:`([^`]*)`)? *\| (.*) \|$", re.MULTILINE)
_COMMAND = re.compile(r"^ *tally ([a-z-]+)(?: ([a-z]+))?", re.MULTILINE)
_OPTION = re.compile(r"--[a-z-]+")
_FIELD = re.compile(r"^\| (`[^|]+`) \|", re.MULTILINE)
_FINDING_IN_SQL = re.compile(r"^    select\s+'(\w+)'(?: as kind)?,", re.MULTILINE)
_COLUMN = re.compile(r"^\| `(\w+)` \| [^|]* \| (yes|no) \| (.*) \|$", re.MULTILINE)
_FINDING = re.compile(r"^\| `(\w+)` \| (\w+) \|", re.MULTILINE)


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
    for line in page.read_text(encoding="utf-8").splitlines():
        match = _COMMAND.match(line)
        if match is None:
            continue
        command = COMMANDS.get(match[1])
        if isinstance(command, typer.core.TyperGroup):
            command = command.commands.get(match[2] or "")
        assert command is not None, f"{page.name}: {line}"
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(_OPTION.findall(line)) <= known, f"{page.name}: {line}"


def test_the_readme_shows_every_command() -> None:
    """Nobody has to guess that a command exists."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    missing = {name for name in COMMANDS if f"tally {name}" not in readme and f"make {name}" not in readme}
    assert missing <= {"migrate"}


def test_make_targets_in_the_documentation_exist() -> None:
    """Each `make target` that a page names is a target."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, page.name


def reference(name: str) -> str:
    return (REPOSITORY / "docs/reference" / name).read_text(encoding="utf-8")


def block(page: str, language: str) -> str:
    return page.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_events_of_the_reference_are_accepted() -> None:
    """Each line is an event that the shipped resource type takes, and every field is listed."""
    page = reference("events.md")
    types = yaml.safe_load((REPOSITORY / "tally/providers/openstack/resource_types.yaml").read_text(encoding="utf-8"))
    instance = ResourceType.from_definition("openstack", "instance", 1, types["instance"])
    lines = block(page, "jsonl").splitlines()
    assert lines
    for line in lines:
        event = decode_event(line.encode())
        PayloadRules().check(event, instance.transition(event.event_type), instance)
    fields = page.partition("## Fields")[2].partition("##")[0]
    assert {field.strip("`") for field in _FIELD.findall(fields)} == FIELDS


def test_the_price_file_of_the_reference_is_accepted() -> None:
    """It can be copied into the folder of an installation's prices."""
    assert parse_price_version(block(reference("prices.md"), "yaml"), "prices.md").version == "2026-07"


def test_the_quote_of_the_reference_is_accepted() -> None:
    """It is a request of the contract."""
    body = decode_json(block(reference("command-line.md"), "json").encode())
    operations()["createQuote"].check_body("application/json", body)
    assert len(read_items(body)) == 3


def test_the_columns_of_the_marts_are_listed() -> None:
    """In the order of the models' own descriptions."""
    files = sorted((REPOSITORY / "dbt_project/models/marts").glob("*.yml"))
    described = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    models = [model for file in described for model in file.get("models", ())]
    page = reference("marts.md")
    assert sorted(re.findall(r"^## marts\.(\w+)$", page, re.MULTILINE)) == sorted(model["name"] for model in models)
    for model in models:
        section = page.partition(f"## marts.{model['name']}\n")[2].partition("\n## ")[0]
        listed = [name.strip("`") for row in _FIELD.findall(section) for name in row.split(", ")]
        assert listed == [column["name"] for column in model["columns"]]


def test_the_columns_of_focus_are_listed() -> None:
    """In their order, with whether they can be null and what they hold."""
    columns = _COLUMN.findall(reference("focus.md"))
    assert columns == [(column.name, "yes" if column.nullable else "no", column.help) for column in COLUMNS]


def test_findings_are_listed() -> None:
    """Every kind, in the order of the policy, with what the shipped policy makes of it."""
    rules = shipped_policy().rules
    assert _FINDING.findall(reference("findings.md")) == [(kind, rules[kind].action) for kind in KINDS]


def test_what_is_found_is_a_kind_that_policies_know() -> None:
    """Whatever finds it: dbt, the rating in Python, the project graph."""
    sql = (REPOSITORY / "dbt_project/models/intermediate/int_findings.sql").read_text(encoding="utf-8")
    found = set(_FINDING_IN_SQL.findall(sql))
    assert len(found) >= 7
    for finding in (RatingFinding, GraphWarning):
        found |= set(get_args(get_type_hints(finding)["kind"]))
    assert found <= set(KINDS)


def test_the_policy_of_the_reference_is_accepted() -> None:
    """It can be copied."""
    policy = parse_policy(block(reference("findings.md"), "yaml"), "findings.md")
    assert policy.action("anomaly", 5) == "warn"


def test_relation_types_are_listed() -> None:
    """Every type, in the order of its declaration."""
    table = reference("projects.md").partition("| Type |")[2].partition("\n\n")[0]
    assert [name.strip("`") for name in _FIELD.findall(table)] == list(RELATION_TYPES)


def test_the_command_line_is_listed() -> None:
    """Every command with every option of its own."""
    page = reference("command-line.md")
    for name, command in COMMANDS.items():
        nested = command.commands if isinstance(command, typer.core.TyperGroup) else {"": command}
        for sub_name, leaf in nested.items():
            row = page.partition(f"| `tally {name} {sub_name}".rstrip() + "` |")[2].partition("\n")[0]
            assert row, f"{name} {sub_name}"
            options = {option for parameter in leaf.params for option in parameter.opts if option.startswith("--")}
            assert options - {"--help"} == set(_OPTION.findall(row)), f"{name} {sub_name}"
