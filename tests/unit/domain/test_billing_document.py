"""The envelope of a document: its number and its text never change, and a credit note names what it takes back."""

import hashlib
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import simplejson

from tally.domain.billing_document import BillingDocument, DocumentKey

REGULAR, CORRECTION = UUID(int=1), UUID(int=2)
BILL = '{\n  "total": 1020.00,\n  "project_id": "team-älpha"\n}\n'


def document(sign: int = 1, run_id: UUID = REGULAR, refers_to: UUID | None = None) -> BillingDocument:
    return BillingDocument(
        DocumentKey("2026-03", run_id, "gardener-eu1", "team-älpha", sign),
        "gardener",
        Decimal("1020.00") * sign,
        "EUR",
        datetime(2026, 4, 5, 6, 7, 8, tzinfo=UTC),
        BILL,
        hashlib.sha256(BILL.encode()).hexdigest(),
        refers_to,
        "cafe" if refers_to else None,
    )


def test_the_text_of_an_invoice_is_written_down() -> None:
    """Byte for byte: whoever has a document of an earlier Tally gets the same from a later one."""
    assert document().body.decode() == (
        '{"format": "tally-billing-document/1", "number": "2026-03-WH5NHBCSDRHVWBXS", "document_type": "invoice", '
        '"refers_to": null, "period": "2026-03", "run_id": "00000000-0000-0000-0000-000000000001", '
        '"issued_at": "2026-04-05T06:07:08Z", "cloud": "gardener-eu1", "project_id": "team-älpha", '
        '"platform": "gardener", "total": 1020.00, "currency": "EUR", '
        '"document_hash": "' + hashlib.sha256(BILL.encode()).hexdigest() + '", '
        '"bill": {\n  "total": 1020.00,\n  "project_id": "team-älpha"\n}}\n'
    )


def test_a_credit_note_and_what_replaces_the_invoice_name_it_by_its_number() -> None:
    """By number, run and hash; the three documents have numbers of their own."""
    invoice = document()
    credit_note = document(-1, CORRECTION, REGULAR)
    replacement = document(1, CORRECTION, REGULAR)
    told = [simplejson.loads(each.body, use_decimal=True) for each in (credit_note, replacement)]
    assert [each["document_type"] for each in told] == ["credit_note", "corrected_invoice"]
    assert [each["total"] for each in told] == [Decimal("-1020.00"), Decimal("1020.00")]
    for each in told:
        assert each["refers_to"] == {
            "number": invoice.key.number, "run_id": str(REGULAR), "document_hash": "cafe",
        }
    assert len({invoice.key.number, *(each["number"] for each in told)}) == 3


def test_a_first_invoice_of_a_correction_refers_to_nothing() -> None:
    """A project that had no bill before gets an invoice like any other."""
    told = simplejson.loads(document(1, CORRECTION).body)
    assert (told["document_type"], told["refers_to"]) == ("invoice", None)


def test_numbers_differ_in_whatever_a_document_differs_in() -> None:
    """Also where names run into each other."""
    keys = [
        DocumentKey("2026-03", run, cloud, project, sign)
        for run in (REGULAR, CORRECTION)
        for cloud, project in (("a", "b c"), ("a b", "c"), ("a", 'b", "c'))
        for sign in (1, -1)
    ]
    assert len({key.number for key in keys}) == len(keys)
