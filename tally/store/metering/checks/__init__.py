"""The invariants of a run, one SQL file each: a query for the rows that violate it, none if it holds (rule 16).

A file begins with what is true, then after "Remedy:" with what to do if it is not. Its query takes the run as
:run_id and yields cloud, resource_type, subject, detail. How the queries are run does not belong here.
"""

from dataclasses import dataclass
from importlib.resources import files
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold of a run, and the query for what violates it."""

    name: str
    truth: str
    remedy: str
    sql: str

    def query(self, run_id: UUID) -> str:
        """The query for one run, without parameters; columns cloud, resource_type, subject, detail."""
        return self.sql.replace(":run_id", f"'{run_id}'")


def invariant_names() -> frozenset[str]:
    """The names of all invariants: a run is complete only with a verdict on each."""
    return frozenset(file.name.removesuffix(".sql") for file in files(__name__).iterdir() if file.name.endswith(".sql"))


def invariant(name: str) -> Invariant:
    """Read an invariant by its name."""
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    lines = text.splitlines()
    length = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    header = " ".join(line.removeprefix("--").strip() for line in lines[:length])
    truth, _, remedy = header.partition(" Remedy: ")
    return Invariant(name, truth, remedy, "\n".join(lines[length:]))
