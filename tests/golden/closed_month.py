"""What the golden tests look at: the usage records and the bills of a closed month, read from the ledger.

Closing the month belongs to conftest.py, what is right about it to the files in expected/.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from tally.domain.instants import format_instant
from tally.store.database import Connection

EXPECTED = Path(__file__).with_name("expected")
Document = Mapping[str, Any]

# The metering examples in expected/, and the cloud in which the example month plays each of them.
USAGE_EXAMPLES = {
    "usage-1-instance-resize": "os-prod-eu1",
    "usage-2-server-upgrade": "hetzner-main",
    "usage-3-volume-resize-and-retype": "os-prod-eu1",
    "usage-4-shoot-scaling-and-hibernation": "gardener-prod",
    "usage-5-repository-counters": "harbor-prod",
    "usage-6-instance-powered-off": "os-prod-eu2",
}


@dataclass(frozen=True)
class ClosedMonth:
    """The live run of a month. Numbers are int or Decimal."""

    billing_period: Document             # {"from": ..., "to": ...}
    usage_records: Sequence[Document]    # with cloud, project_id and platform beside what the requirement prints
    bills: Mapping[str, Document]        # by cloud/project_id
    outputs_hash: str                    # of all that the run has written
    documents_hash: str                  # of the texts of its bills, one after the other

    def usage_document(self, cloud: str, project_id: str, resource_ids: set[str]) -> Document:
        """The records of some resources of a project, in the form of the requirement's metering examples."""
        chosen = [
            record
            for record in self.usage_records
            if record["cloud"] == cloud and record["project_id"] == project_id and record["resource_id"] in resource_ids
        ]
        return {
            "billing_period": self.billing_period,
            "project_id": project_id,
            "platform": chosen[0]["platform"] if chosen else None,
            "usage_records": sorted(chosen, key=lambda record: (record["resource_id"], record["from"])),
        }


def read_json(text: str) -> Any:
    """Read JSON with decimals."""
    return json.loads(text, parse_float=Decimal)


def expected(name: str) -> Any:
    """Read one of the files in expected/."""
    return read_json((EXPECTED / f"{name}.json").read_text())


def read_closed_month(metering: Connection, period: str) -> ClosedMonth:
    """Read the live run of a period such as 2026-03 from the ledger."""
    run = metering.execute(
        """
        select id, period_from, period_to, outputs_hash
        from ledger.runs
        where period = %s and kind = 'regular' and status in ('completed', 'finalized')
        """,
        [period],
    ).fetchone()
    assert run is not None, f"{period} has no live run"
    run_id, period_from, period_to, outputs_hash = run
    usage = metering.execute(
        """
        select cloud, platform, project_id, resource_type, resource_id, state, from_ts, to_ts, usage::text
        from ledger.usage_records
        where run_id = %s
        """,
        [run_id],
    ).fetchall()
    bills = metering.execute(
        "select cloud || '/' || project_id, document from ledger.bills where run_id = %s order by 1", [run_id]
    ).fetchall()
    return ClosedMonth(
        billing_period={"from": format_instant(period_from), "to": format_instant(period_to)},
        usage_records=[_usage_record(*row) for row in usage],
        bills={project: read_json(document) for project, document in bills},
        outputs_hash=outputs_hash,
        documents_hash=sha256("".join(document for _, document in bills).encode()).hexdigest(),
    )


def _usage_record(*row: Any) -> Document:
    names = ("cloud", "platform", "project_id", "resource_type", "resource_id", "state")
    from_ts, to_ts, usage = row[len(names) :]
    return {
        **dict(zip(names, row, strict=False)),
        "from": format_instant(from_ts),
        "to": format_instant(to_ts),
        "usage": read_json(usage),
    }
