"""Whether a finalized month is what it was finalized as (rules 19 and 21): hashes of what is kept, and a replay.

Hashes find what was changed in the ledger after DDL; the replay, which derives usage and costs of the month again from
the kept inputs, finds what the ledger says and the events do not, or the other way round, and names it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from pricing.model import PriceVersion
from tally import __version__
from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.instants import format_instant
from tally.domain.run import Run
from tally.services.bills import rebuilt
from tally.services.pricing import rows_of, version_named
from tally.services.runs import finalized_runs, hash_inputs, metering_lock
from tally.store.database import Connection
from tally.store.metering import ledger, tampering
from tally.store.metering import replay as replay_store
from tally.store.metering.counters import fingerprint as counters_fingerprint
from tally.store.metering.prices import VersionRows, stored_rows, stored_versions
from tally.store.metering.replay import Differing

Replay = Callable[[UUID], object]  # derives a run again, in the schemas of tally.store.metering.replay


class Difference(NamedTuple):
    """One thing that is not as it was: what kind of thing, which one, and what is wrong with it."""

    kind: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared, and what differs; nothing if the month is what it was finalized as."""

    runs: tuple[Run, ...]
    differences: tuple[Difference, ...]
    remarks: tuple[str, ...]


def verify(
    metering: Connection, period: str, replay: Replay, say: Callable[[str], object] = lambda _: None
) -> Verified:
    """Compare a finalized month and its corrections with what was kept, and with a replay; nothing is changed.

    Raises:
        Refused: if the month is not finalized.
        Unavailable: if another run holds the metering lock for hours.
    """
    with metering_lock(metering, say=say):
        finalized = finalized_runs(metering, period)
        if not finalized:
            why = f"it is not finalized, so that it may still change; finalize it first: tally finalize {period}"
            raise Refused(f"{period} cannot be verified", [why])
        last = finalized[-1]
        differences = [*_tampered(metering, finalized), *_replayed(metering, last, replay)]
    remarks = []
    if last.code_version != __version__:
        remarks.append(f"it was finalized by Tally {last.code_version}, and replayed by {__version__}")
    return Verified(tuple(finalized), tuple(differences), tuple(remarks))


def _tampered(metering: Connection, finalized: Sequence[Run]) -> Iterator[Difference]:
    for run in finalized:
        yield from _strange_run(metering, run)
    for bill in tampering.strange_bills(metering, [run.id for run in finalized]):
        project = f"{bill.cloud}/{bill.project_id}"
        yield Difference("bill", project, f"its document in run {bill.run_id} is not the one that was finalized")
    faulty = [difference for name in _versions(finalized) for difference in _strange_prices(metering, name, finalized)]
    yield from faulty
    if not faulty:
        yield from _strange_totals(metering, finalized[-1])


def _strange_run(metering: Connection, run: Run) -> Iterator[Difference]:
    if hash_inputs(_inputs(run)) != run.inputs_hash:
        yield Difference("run", str(run.id), "what it says that it has read is not what it had read")
    if ledger.fingerprint(metering, run.id) != run.outputs_hash:
        detail = "its usage, rated records or adjustments are not those that were finalized"
        yield Difference("run", str(run.id), detail)
    fetch = run.counter_fetch_id
    if fetch is not None and counters_fingerprint(metering, fetch) != run.counters_hash:
        yield Difference("counters", f"fetch {fetch}", f"they are not the samples that run {run.id} had read")


def _inputs(run: Run) -> dict[str, Any]:
    """What was hashed as the run began: see tally.services.runs.start."""
    names = ["period", "period_from", "period_to", "zone", "metered_to", "load_id", "registry_version", "code_version"]
    names += ["pricing_version", "pricing_hash"]
    if run.kind == "correction" or run.counters_hash is not None:
        names.append("counters_hash")
    if run.price_changes:
        names.append("price_changes")
    return {name: getattr(run, name) for name in names}


def _versions(finalized: Sequence[Run]) -> list[str]:
    return sorted({name for run in finalized for name in run.price_versions})


def _strange_prices(metering: Connection, name: str, finalized: Sequence[Run]) -> Iterator[Difference]:
    try:
        version = version_named(metering, name)
    except (NotFound, InvalidInput) as error:
        yield Difference("price version", name, f"it cannot be read: {error}")
        return
    read = {run.price_versions[name] for run in finalized if name in run.price_versions}
    if read != {version.content_hash}:
        yield Difference("price version", name, "its content is not what the runs have rated by")
    yield from strange_rows(metering, version)


def strange_rows(metering: Connection, version: PriceVersion) -> Iterator[Difference]:
    """Find the rows of a loaded version that are not what its content says."""
    stored = stored_rows(metering, next(row for row in stored_versions(metering) if row.version == version.version))
    found, wanted = _as_set(stored), _as_set(rows_of(version))
    for kind, row in sorted(found ^ wanted, key=str):
        where = "is in the ledger, and not in its content" if (kind, row) in found else "is missing, or was changed"
        told = (version.version, kind, *(value for value in row if value not in {None, ""}))
        yield Difference("price", " ".join(map(str, told)), where)


def _as_set(rows: VersionRows) -> set[tuple[str, tuple[Any, ...]]]:
    """All that rating reads of a version, each row with what it is; the content has a hash of its own."""
    kinds = {"price": rows.prices, "tier": rows.tiers, "modifier": rows.modifiers, "unpriced": rows.unpriced}
    head = rows.version._replace(version="", content="")
    return {("version", head), *((kind, row) for kind, some in kinds.items() for row in some)}


def _strange_totals(metering: Connection, run: Run) -> Iterator[Difference]:
    """Compare the bills that count with those that the records come to."""
    made = {(bill.cloud, bill.project_id): (bill.total, bill.document_hash) for bill in rebuilt(metering, run)}
    counting = {
        (bill.cloud, bill.project_id): (bill.total, bill.document_hash)
        for bill in tampering.hashed_bills(metering, run.id)
    }
    for key in sorted(made.keys() | counting.keys()):
        if made.get(key) != counting.get(key):
            (total, _), (of_records, _) = (found.get(key, ("none", "")) for found in (counting, made))
            detail = f"it is not what its records come to: {total} instead of {of_records}"
            yield Difference("bill", "/".join(key), detail)


def _replayed(metering: Connection, run: Run, replay: Replay) -> Iterator[Difference]:
    replay_store.drop_replay(metering)
    try:
        replay(run.id)
        usage = replay_store.differing_usage(metering, run.id)
        costs = replay_store.differing_costs(metering, run.id)
    finally:
        replay_store.drop_replay(metering)
    for kind, rows in (("usage", usage), ("cost", costs)):
        yield from (_difference(kind, row) for row in rows)
        if rows and rows[0].of > len(rows):
            yield Difference(kind, f"{rows[0].of - len(rows)} more", "only the first are named")


def _difference(kind: str, row: Differing) -> Difference:
    span = f"{format_instant(row.from_ts)} to {format_instant(row.to_ts)}"
    subject = " ".join(filter(None, (row.cloud, row.resource_type, row.resource_id, row.dimension)))
    where = "the ledger alone has" if row.side == "ledger" else "the replay alone has"
    return Difference(kind, subject, f"{where} {row.says} of {row.project_id}, {span}")
