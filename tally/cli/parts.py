"""Which module holds which command. Only that of the command that runs is imported: all of them take a second.

What a command does belongs to its module; how the command line begins and ends, to app.py.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

# In the order of the help.
PARTS: Mapping[str, Sequence[str]] = {
    "ingest": ("ingest",),
    "months": ("close", "finalize", "completeness", "waive", "late", "correct", "periods", "runs"),
    "bills": ("bill", "explain", "verify"),
    "exports": ("export",),
    "kickbacks": ("kickback",),
    "deliveries": ("deliver", "resend", "deliveries"),
    "lab": ("quote", "what-if"),
    "pricing": ("pricing",),
    "installation": ("up", "api", "demo", "migrate", "rebuild"),
    "projects": ("project",),
    "clouds": ("cloud",),
    "credentials": ("credential",),
    "rejected": ("rejected",),
}


class Parts(TyperGroup):
    """All commands, each imported when somebody asks for it."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the names of all commands."""
        return [name for names in PARTS.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Return the command of a name, None if there is none."""
        part = next((part for part, names in PARTS.items() if cmd_name in names), None)
        return commands_of(part)[cmd_name] if part else None


def commands_of(part: str) -> Mapping[str, Any]:
    """Import a module of commands; returns them by their names."""
    whole = typer.Typer()
    whole.add_typer(import_module(f"tally.cli.{part}").commands)
    return typer.main.get_group(whole).commands
