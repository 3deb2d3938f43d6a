"""The invariants of a run, one SQL file each: a query for the rows that violate it, none if it holds (rule 16).

A file begins with what is true, then after "Remedy:" with what to do if it is not. Its query takes the run as
:run_id and yields cloud, resource_type, subject, detail. Where it reads all resources, a comment such as
/* of_metered_resources(events) */ stands for the join that a correction of some resources needs; what such a correction
alone adds is in a comment, /* of_some_resources inner join ... */. How the queries are run does not belong here.
"""

import re
from dataclasses import dataclass
from importlib.resources import files

from tally.domain.run import Run

_SCOPE = re.compile(r"/\* of_metered_resources\((\w+)\) \*/")
_OF_SOME = re.compile(r"/\* of_some_resources (.*?) \*/")
_OF_CORRECTED = (
    r"inner join metering.int_corrected_resources as metered on metered.cloud = \1.cloud"
    r" and metered.resource_type = \1.resource_type and metered.resource_id = \1.resource_id"
)


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold of a run, and the query for what violates it."""

    name: str
    truth: str
    remedy: str
    sql: str

    def query(self, run: Run) -> str:
        """The query for one run, without parameters; columns cloud, resource_type, subject, detail."""
        some = run.scope == "changed"
        sql = _OF_SOME.sub(r"\1" if some else "", _SCOPE.sub(_OF_CORRECTED if some else "", self.sql))
        return sql.replace(":run_id", f"'{run.id}'")


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
