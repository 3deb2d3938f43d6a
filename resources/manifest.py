"""The dbt project as dbt has parsed it: once for each content, for all databases and processes.

Parsing takes seconds, and would be done by each process and for each database, which the parsed project names in every
relation. Variables are read when a model is compiled, not when it is parsed: only a replay, whose schemas have other
names, parses by itself.
"""

import fcntl
import hashlib
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from resources.dbt_runner import invoke, target_path
from tally.store.metering.timelines import KEPT

_NOWHERE = "nowhere"


def manifest_path() -> Path:
    """The manifest of the project as it is now, as JSON."""
    return _prepared() / "manifest.json"


def manifest_for(url: str) -> Any:
    """The parsed project, for a database: what dbt takes instead of parsing. Whoever runs dbt has one of his own."""
    from dbt.contracts.graph.manifest import Manifest

    # Written by this account, below TALLY_HOME.
    manifest = Manifest(**pickle.loads((_prepared() / "manifest.pickle").read_bytes()))  # noqa: S301
    database = str(conninfo_to_dict(url)["dbname"])
    for node in (*manifest.nodes.values(), *manifest.sources.values()):
        if node.database == _NOWHERE:
            node.database = database
        if node.relation_name:
            node.relation_name = node.relation_name.replace(f'"{_NOWHERE}"', f'"{database}"', 1)
    return manifest


def derivation(manifest: Any) -> str:
    """Hash of the SQL by which timelines are derived: of what is kept, what that is made from, and their macros."""
    parts = {}
    asked = [name for name, node in manifest.nodes.items() if node.name in KEPT]
    while asked:
        name = asked.pop()
        part = manifest.nodes.get(name) or manifest.macros.get(name)
        if name not in parts and part is not None and part.package_name == manifest.metadata.project_name:
            parts[name] = getattr(part, "raw_code", None) or part.macro_sql
            asked += [*part.depends_on.macros, *getattr(part.depends_on, "nodes", ())]
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def _prepared() -> Path:
    """The directory of the project as it is now, parsed if that is not done yet, by one process for all."""
    target = target_path()
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pickled = target / "manifest.pickle"
        if not pickled.exists():
            parsed = invoke(["parse", "--write-json"], f"postgresql://nobody@localhost:5432/{_NOWHERE}")
            unfinished = pickled.with_suffix(".unfinished")
            # By its public parts: as a whole dbt pickles it in another order than it reads it in.
            parts = {part.name: getattr(parsed, part.name) for part in fields(parsed) if not part.name.startswith("_")}
            unfinished.write_bytes(pickle.dumps(parts))
            unfinished.rename(pickled)
    return target
