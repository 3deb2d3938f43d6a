"""The document that a billing or ERP system takes: an envelope around one bill of the ledger, with a number of its own.

Everything in it follows from what is finalized, so that the same document is the same text for ever, however often it
is sent. What a bill says belongs to pricing.bill; where a document goes, to tally.domain.delivery.
"""

import hashlib
import json
from base64 import b32encode
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from uuid import UUID

import simplejson

from tally.domain.instants import format_instant

DocumentType = Literal["invoice", "credit_note", "corrected_invoice"]

FORMAT = "tally-billing-document/1"
_NUMBER_BYTES = 10  # 80 bits, 16 letters and digits: no two documents of an installation share them


class DocumentKey(NamedTuple):
    """What identifies a document: a bill that a finalized run has written (``sign`` 1) or taken back (-1)."""

    period: str
    run_id: UUID
    cloud: str
    project_id: str
    sign: int

    @property
    def number(self) -> str:
        """Its number, such as 2026-03-K7Q2M4XA9BTC5DEF: derived, so stable and unique; not consecutive."""
        identity = json.dumps([str(self.run_id), self.cloud, self.project_id, self.sign])
        digest = hashlib.sha256(identity.encode()).digest()[:_NUMBER_BYTES]
        return f"{self.period}-{b32encode(digest).decode()}"


def document_type(sign: int, refers_to_run_id: UUID | None) -> DocumentType:
    """What a document is, by whether it takes back, or replaces, the bill of an earlier run."""
    if sign < 0:
        return "credit_note"
    return "invoice" if refers_to_run_id is None else "corrected_invoice"


@dataclass(frozen=True, slots=True)
class BillingDocument:
    """A bill of the ledger with what stands around it.

    ``bill`` is the JSON text of the ledger and ``bill_hash`` its sha256. A credit note takes back the bill that
    ``refers_to_run_id`` has written for the project, a corrected invoice replaces it; ``refers_to_hash`` is its sha256.
    """

    key: DocumentKey
    platform: str
    total: Decimal
    currency: str
    issued_at: datetime
    bill: str
    bill_hash: str
    refers_to_run_id: UUID | None
    refers_to_hash: str | None

    @property
    def body(self) -> bytes:
        """The envelope as JSON in UTF-8, with a newline at the end."""
        key = self.key
        envelope = {
            "format": FORMAT,
            "number": key.number,
            "document_type": document_type(key.sign, self.refers_to_run_id),
            "refers_to": self._refers_to(),
            "period": key.period,
            "run_id": str(key.run_id),
            "issued_at": format_instant(self.issued_at),
            "cloud": key.cloud,
            "project_id": key.project_id,
            "platform": self.platform,
            "total": self.total,
            "currency": self.currency,
            "document_hash": self.bill_hash,
            "bill": simplejson.RawJSON(self.bill.rstrip("\n")),
        }
        return (simplejson.dumps(envelope, use_decimal=True, ensure_ascii=False) + "\n").encode()

    def _refers_to(self) -> dict[str, Any] | None:
        if self.refers_to_run_id is None:
            return None
        return {
            "number": self.key._replace(run_id=self.refers_to_run_id, sign=1).number,
            "run_id": str(self.refers_to_run_id),
            "document_hash": self.refers_to_hash,
        }
