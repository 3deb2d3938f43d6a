"""Each document of a finalized run reaches each target once, whoever fails, is killed, or delivers at the same time."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import simplejson
from prometheus_client.parser import text_string_to_metric_families
from tenacity import wait_none

from tally.domain.delivery import Destination, Parcel
from tally.domain.errors import InvalidInput, NotFound, Refused, Unavailable
from tally.services.deliver import (
    DocumentRequest,
    Outcome,
    deliver,
    deliver_to,
    due,
    list_deliveries,
    progress,
    send_again,
    withdraw,
)
from tally.store.database import Connection, connected
from tally.store.metering.deliveries import DeliveryRow, Progress
from tally.store.targets.directory import Directory
from tally.store.targets.webhook import Webhook, read_secret
from tests.integration.api_server import live_api
from tests.integration.issuing import CLOUD, bill, cancellation, finalized
from tests.integration.registering import day
from tests.receiver import SECRET, hangs_up, receiving, says

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def clock() -> datetime:
    return NOW


@dataclass
class Shelf:
    """A target in memory: it keeps what it is given, unless ``before`` raises."""

    before: Callable[[Parcel], object] = lambda parcel: None  # noqa: ARG005
    parcels: list[Parcel] = field(default_factory=list)

    def deliver(self, parcel: Parcel) -> str:
        self.before(parcel)
        self.parcels.append(parcel)
        return "kept"

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [simplejson.loads(parcel.body, use_decimal=True) for parcel in self.parcels]

    def told(self, *names: str) -> list[tuple[Any, ...]]:
        """Some members of each document, in the order of their arrival."""
        return [tuple(document[name] for name in names) for document in self.documents]


def to(shelf: Any, name: str = "erp", first: str = "2026-03") -> Destination:
    return Destination(name, first, shelf)


def listed(metering: Connection, **wanted: Any) -> list[DeliveryRow]:
    return list_deliveries(metering, limit=1000, **wanted)


def resend(reporting: Connection, metering: Connection, *what: str) -> int:
    return send_again(reporting, metering, DocumentRequest("erp", what, "disk lost", "anna", NOW))


def take_back(reporting: Connection, metering: Connection, *what: str) -> int:
    return withdraw(reporting, metering, DocumentRequest("erp", what, "booked by hand", "bert", NOW))


def refuses(project_id: str) -> Callable[[Parcel], None]:
    """Refuse the documents of one project."""

    def check(parcel: Parcel) -> None:
        if simplejson.loads(parcel.body)["project_id"] == project_id:
            raise Refused("not taken", ["unknown customer"])

    return check


@pytest.fixture
def march(metering: Connection) -> UUID:
    """A finalized month with three bills."""
    return finalized(metering, *(bill(project, "100.00") for project in ("p-1", "p-2", "p-3")))


def corrected(metering: Connection, march: UUID) -> UUID:
    """A correction: p-1 is billed anew, p-2 no longer, p-4 for the first time."""
    return finalized(
        metering,
        cancellation(bill("p-1", "100.00"), march),
        bill("p-1", "90.00"),
        cancellation(bill("p-2", "100.00"), march),
        bill("p-4", "7.00"),
        corrects=march,
    )


class TestOutbox:
    def test_what_is_finalized_is_delivered_once_from_the_first_month_on(
        self, metering: Connection, march: UUID
    ) -> None:
        """Neither an earlier month nor a run that is only completed; a second call finds nothing to do."""
        finalized(metering, bill("p-1", "1.00"), period="2026-02")
        finalized(metering, bill("p-1", "2.00"), period="2026-04", finalize=False)
        shelf = Shelf()
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 3, 3, 0)
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 0, 0, 0)
        assert shelf.told("period", "run_id", "project_id") == [
            ("2026-03", str(march), project) for project in ("p-1", "p-2", "p-3")
        ]
        late = Shelf()
        assert deliver_to(metering, to(late, "archive", "2026-02"), clock, period="2026-02").delivered == 1
        assert progress(metering) == [
            Progress("archive", "2026-02", 1, 0, 0), Progress("archive", "2026-03", 0, 3, 0),
            Progress("erp", "2026-03", 3, 0, 0),
        ]

    def test_a_correction_sends_credit_notes_and_then_what_replaces_the_invoices(
        self, metering: Connection, march: UUID
    ) -> None:
        """Each credit note names the number and the hash of the invoice that was sent; the sums are right."""
        shelf = Shelf()
        deliver_to(metering, to(shelf), clock)
        invoices = {document["project_id"]: document for document in shelf.documents}
        corrected(metering, march)
        deliver_to(metering, to(shelf), clock)
        assert [(kind, project, str(total)) for kind, project, total in
                shelf.told("document_type", "project_id", "total")[3:]] == [
            ("credit_note", "p-1", "-100.00"), ("credit_note", "p-2", "-100.00"),
            ("corrected_invoice", "p-1", "90.00"), ("invoice", "p-4", "7.00"),
        ]
        for document in shelf.documents[3:6]:
            invoice = invoices[document["project_id"]]
            assert document["refers_to"] == {name: invoice[name] for name in ("number", "run_id", "document_hash")}
            assert document["bill"].get("cancels", {}).get("run_id") in (None, str(march))
        assert shelf.documents[6]["refers_to"] is None
        assert str(sum(total for total, in shelf.told("total"))) == "197.00"

    def test_a_run_that_is_entered_twice_at_once_is_entered_once(
        self, metering: Connection, metering_url: str, march: UUID
    ) -> None:
        """The second waits for the first, and finds its documents there."""
        found: list[Outcome] = []
        with connected(metering_url) as other:
            second = threading.Thread(target=lambda: found.append(deliver_to(other, to(Shelf()), clock)))
            with metering.transaction():
                deliver_to(metering, to(Shelf()), clock)
                second.start()
                second.join(0.2)
                assert second.is_alive()
            second.join()
        assert (found, len(listed(metering))) == ([Outcome("erp", 0, 0, 0)], 3)
        assert {row.run_id for row in listed(metering)} == {march}

    @pytest.mark.usefixtures("march")
    def test_what_is_delivered_never_changes(self, metering: Connection) -> None:
        """Nothing is sent again because a row was touched."""
        deliver_to(metering, to(Shelf()), clock)
        for statement in ("update delivery.deliveries set attempts = 0", "delete from delivery.deliveries"):
            with pytest.raises(psycopg.Error, match="its rows never change"):
                metering.execute(statement.encode())


class TestSentAgain:
    @pytest.mark.usefixtures("march")
    def test_what_a_target_has_lost_is_sent_again_as_it_was(self, reporting: Connection, metering: Connection) -> None:
        """One document and a month that holds it: each once more, under its key; the record says who asked, and why."""
        shelf = Shelf()
        deliver_to(metering, to(shelf), clock)
        first = list(shelf.parcels)
        number = listed(metering)[0].document.number
        assert resend(reporting, metering, number, "2026-03") == 3
        assert progress(metering) == [Progress("erp", "2026-03", 0, 3, 0)]
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 0, 3, 0)
        assert shelf.parcels == first * 2
        assert progress(metering) == [Progress("erp", "2026-03", 3, 0, 0)]
        assert [(row.sending, row.asked_by, row.reason) for row in listed(metering)[:2]] == [
            (1, None, None), (2, "anna", "disk lost"),
        ]
        query = "select actor, action, subject, detail ->> 'reason' from reporting.audit_log where actor <> 'tally'"
        assert reporting.execute(query).fetchall() == [("anna", "delivery.resend", "erp", "disk lost")]

    def test_one_is_sent_again_once_however_often_it_is_asked_for(
        self, reporting: Connection, metering: Connection, march: UUID
    ) -> None:
        """Nor before it was there at all; its later documents wait for it as they did before."""
        shelf = Shelf()
        with pytest.raises(NotFound, match="erp has nothing of 2026-03, or waits for it"):
            resend(reporting, metering, "2026-03")
        deliver_to(metering, to(shelf), clock)
        (number,) = {row.document.number for row in listed(metering) if row.project_id == "p-1"}
        resend(reporting, metering, number)
        for again in (number, "2026-04", number[:-1]):
            with pytest.raises(NotFound, match=f"erp has nothing of {again}"):
                resend(reporting, metering, again)
        corrected(metering, march)
        shelf.before = refuses("p-1")
        deliver_to(metering, to(shelf), clock)
        shelf.before = lambda _: None
        deliver_to(metering, to(shelf), clock)
        kinds = [kind for kind, project in shelf.told("document_type", "project_id") if project == "p-1"]
        assert kinds == ["invoice", "invoice", "credit_note", "corrected_invoice"]
        with pytest.raises(InvalidInput, match="say it with --reason"):
            send_again(reporting, metering, DocumentRequest("erp", [number], " ", "anna", NOW))
        with pytest.raises(InvalidInput, match="'everything' is neither a month such as"):
            resend(reporting, metering, "everything")


class TestWithdrawn:
    def test_a_sending_that_nobody_waits_for_any_more_is_withdrawn(
        self, reporting: Connection, metering: Connection, march: UUID
    ) -> None:
        """It is tried no more and holds nothing back; the history has its last error, who ended it, and why."""
        shelf = Shelf()
        deliver_to(metering, to(shelf), clock)
        resend(reporting, metering, "2026-03")
        corrected(metering, march)
        shelf.before = refuses("p-1")
        deliver_to(metering, to(shelf), clock)
        assert progress(metering) == [Progress("erp", "2026-03", 4, 2, 1)]
        assert take_back(reporting, metering, "2026-03") == 1
        shelf.before = lambda _: None
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 0, 2, 0)
        assert [kind for kind, project in shelf.told("document_type", "project_id") if project == "p-1"] == [
            "invoice", "credit_note", "corrected_invoice",
        ]
        assert progress(metering) == [Progress("erp", "2026-03", 7, 0, 0)]
        assert [(row.sending, row.reason, row.last_error, row.withdrawn_by, row.withdrawal_reason, row.withdrawn_at)
                for row in listed(metering, status="withdrawn")] == [
            (2, "disk lost", "not taken: unknown customer", "bert", "booked by hand", NOW),
        ]
        query = """select actor, subject, detail ->> 'documents', detail ->> 'reason' from reporting.audit_log
            where action = 'delivery.withdraw'"""
        assert reporting.execute(query).fetchall() == [("bert", "erp", "1", "booked by hand")]
        with pytest.raises(psycopg.Error, match="its rows never change"):
            metering.execute("update delivery.deliveries set withdrawn_at = null where withdrawn_at is not null")

    @pytest.mark.usefixtures("march")
    def test_what_was_withdrawn_can_be_sent_again(self, reporting: Connection, metering: Connection) -> None:
        """As a sending after the withdrawn one."""
        shelf = Shelf()
        deliver_to(metering, to(shelf), clock)
        for _ in range(2):
            resend(reporting, metering, "2026-03")
            assert take_back(reporting, metering, "2026-03") == 3
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 0, 0, 0)
        assert due(metering, [to(shelf)], NOW) == []
        resend(reporting, metering, "2026-03")
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 0, 3, 0)
        assert {row.sending for row in listed(metering, status="delivered")} == {1, 4}

    @pytest.mark.usefixtures("march")
    def test_what_a_target_never_had_is_not_withdrawn(self, reporting: Connection, metering: Connection) -> None:
        """Nor what is there, nor without a reason: every document is delivered, or seen as not delivered."""
        shelf = Shelf(refuses("p-1"))
        deliver_to(metering, to(shelf), clock)
        for name in ("2026-03", *(row.document.number for row in listed(metering))):
            with pytest.raises(NotFound, match=f"nothing of {name} is being sent to erp again"):
                take_back(reporting, metering, name)
        with pytest.raises(InvalidInput, match="say it with --reason"):
            withdraw(reporting, metering, DocumentRequest("erp", ["2026-03"], " ", "bert", NOW))

    @pytest.mark.usefixtures("march")
    def test_what_is_in_hand_is_waited_for(
        self, reporting: Connection, metering: Connection, metering_url: str
    ) -> None:
        """It was delivered, and is not withdrawn then: the outbox never denies what a target has."""
        in_hand, go_on = threading.Event(), threading.Event()

        def slowly(_: Parcel) -> None:
            in_hand.set()
            assert go_on.wait(60)

        deliver_to(metering, to(Shelf()), clock)
        resend(reporting, metering, "2026-03")
        deliverer = threading.Thread(target=deliver, args=(metering_url, [to(Shelf(slowly))], clock))
        deliverer.start()
        assert in_hand.wait(60)
        withdrawn: list[int] = []
        person = threading.Thread(target=lambda: withdrawn.append(take_back(reporting, metering, "2026-03")))
        person.start()
        person.join(0.2)
        assert person.is_alive()
        go_on.set()
        person.join()
        deliverer.join()
        assert withdrawn == [2]
        assert progress(metering) == [Progress("erp", "2026-03", 3, 0, 0)]


class TestFailures:
    def test_a_document_that_is_refused_waits_and_the_others_go_on(self, metering: Connection, march: UUID) -> None:
        """Its later documents wait for it: a credit note never arrives before its invoice."""
        corrected(metering, march)
        shelf = Shelf(refuses("p-1"))
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 7, 4, 1)
        assert shelf.told("document_type", "project_id") == [
            ("invoice", "p-2"), ("invoice", "p-3"), ("credit_note", "p-2"), ("invoice", "p-4"),
        ]
        (failed,) = listed(metering, status="failed")
        assert (failed.project_id, failed.attempts, failed.last_error, failed.next_attempt_at.isoformat()) == (
            "p-1", 1, "not taken: unknown customer", "2026-06-01T00:01:00+00:00",
        )
        assert [(row.document_type, row.attempts) for row in listed(metering, status="pending")] == [
            ("credit_note", 0), ("corrected_invoice", 0),
        ]
        shelf.before = lambda _: None
        assert deliver_to(metering, to(shelf), clock) == Outcome("erp", 0, 3, 0)
        assert [kind for kind, project in shelf.told("document_type", "project_id") if project == "p-1"] == [
            "invoice", "credit_note", "corrected_invoice",
        ]

    @pytest.mark.usefixtures("march")
    def test_a_target_that_does_not_answer_is_given_up_and_its_document_waits_ever_longer(
        self, metering: Connection
    ) -> None:
        """One attempt a call; by itself only when it is due, by a person at any time."""

        def away(_: Parcel) -> None:
            raise Unavailable("nobody there")

        shelf = to(Shelf(away))
        for _ in range(3):
            assert deliver_to(metering, shelf, clock) == Outcome("erp", 3 * (_ == 0), 0, 1, "nobody there")
        (failed,) = listed(metering, status="failed")
        assert (failed.attempts, failed.next_attempt_at.isoformat()) == (3, "2026-06-01T00:04:00+00:00")
        calm = Shelf()
        assert deliver_to(metering, to(calm), clock, only_due=True).delivered == 2
        assert due(metering, [shelf], NOW) == []
        assert due(metering, [shelf], failed.next_attempt_at) == ["erp"]
        assert deliver_to(metering, to(calm), clock).delivered == 1

    @pytest.mark.usefixtures("march")
    def test_a_failing_target_does_not_stop_the_others(
        self, metering: Connection, metering_url: str, tmp_path: Path
    ) -> None:
        """One breaks in a way that nobody has thought of, one is busy, one is well."""

        def broken(_: Parcel) -> None:
            raise KeyError("s3cret")

        with receiving() as receiver:
            receiver.answer = says(503)
            hook = Webhook(receiver.url, read_secret(SECRET), 5, backoff=wait_none())
            destinations = [to(Shelf(broken), "broken"), to(hook, "busy"), to(Directory(tmp_path), "well")]
            outcomes = deliver(metering_url, destinations, clock)
        assert [(each.target, each.delivered, each.failed, each.stopped) for each in outcomes] == [
            ("broken", 0, 1, "unexpected KeyError"),
            ("busy", 0, 1, "webhook at 127.0.0.1 answers 503: without a reason"),
            ("well", 3, 0, None),
        ]
        names = [f"{row.document.number}.json" for row in listed(metering, target="well")]
        assert sorted(path.name for path in (tmp_path / "2026-03").iterdir()) == sorted(names)


class TestTogether:
    @pytest.mark.usefixtures("march")
    def test_two_deliverers_deliver_each_document_once(self, metering: Connection, metering_url: str) -> None:
        """The second passes over what the first has in hand, and does the rest; the first then finds it done."""
        in_hand, go_on = threading.Event(), threading.Event()

        def slowly(_: Parcel) -> None:
            in_hand.set()
            assert go_on.wait(60)

        shelf = Shelf(slowly)
        outcomes: list[Outcome] = []
        first = threading.Thread(target=lambda: outcomes.extend(deliver(metering_url, [to(shelf)], clock)))
        first.start()
        assert in_hand.wait(60)
        other = Shelf()
        second = deliver_to(metering, to(other), clock)
        go_on.set()
        first.join()
        assert (outcomes, second) == ([Outcome("erp", 3, 1, 0)], Outcome("erp", 0, 2, 0))
        assert [project for project, in shelf.told("project_id") + other.told("project_id")] == ["p-1", "p-2", "p-3"]

    def test_many_deliverers_at_a_webhook_that_takes_documents_without_saying_so(
        self, metering: Connection, metering_url: str
    ) -> None:
        """Each comes a second time under the same key, with the same bytes, and no third time."""
        finalized(metering, *(bill(f"p-{number:02}", "1.00") for number in range(40)))
        with receiving() as receiver:

            def answer(handler: BaseHTTPRequestHandler) -> None:
                first = receiver.times[handler.headers["Idempotency-Key"]] == 1
                (hangs_up if first else says(201))(handler)

            receiver.answer = answer
            hooks = [Webhook(receiver.url, read_secret(SECRET), 30, backoff=wait_none()) for _ in range(3)]
            threads = [threading.Thread(target=deliver, args=(metering_url, [to(hook)], clock)) for hook in hooks]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert progress(metering) == [Progress("erp", "2026-03", 40, 0, 0)]
        assert (len(receiver.times), set(receiver.times.values())) == (40, {2})
        assert all(message.is_signed() for message in receiver.messages)
        assert len({(message.key, message.body) for message in receiver.messages}) == 40


def test_deliveries_are_shown_over_http(
    reporting_url: str, metering_url: str, metering: Connection, march: UUID
) -> None:
    """Page by page, narrowed down by target, month and status."""
    deliver_to(metering, to(Shelf(refuses("p-2"))), clock)
    deliver_to(metering, to(Shelf(), "archive"), clock)
    address = "/api/v1/deliveries"
    with live_api(reporting_url, metering_url) as api:
        every = api.items(address, limit=4)
        (failed,) = api.items(address, target="erp", period="2026-03", status="failed")
        assert api.items(address, period="2026-04") == []
        assert api.get(address, status="lost").status_code == 400
    assert Counter((item["target"], item["status"]) for item in every) == {
        ("archive", "delivered"): 3, ("erp", "delivered"): 2, ("erp", "failed"): 1,
    }
    assert failed == {
        "target": "erp", "number": failed["number"], "document_type": "invoice", "period": "2026-03",
        "run_id": str(march), "cloud": CLOUD, "project_id": "p-2", "status": "failed", "attempts": 1,
        "attempted_at": "2026-06-01T00:00:00Z", "next_attempt_at": "2026-06-01T00:01:00Z",
        "last_error": "not taken: unknown customer", "delivered_at": None, "receipt": None, "sending": 1,
        "asked_at": None, "asked_by": None, "reason": None,
        "withdrawn_at": None, "withdrawn_by": None, "withdrawal_reason": None,
    }


def test_what_targets_lack_is_a_metric(
    reporting_url: str, metering_url: str, metering: Connection, march: UUID
) -> None:
    """By target, with the age of the oldest; what was finalized since and no delivery has looked for waits, too."""
    deliver_to(metering, to(Shelf(refuses("p-2"))), clock)
    deliver_to(metering, to(Shelf(), "archive"), clock)
    finalized(metering, bill("p-1", "1.00"), bill("p-2", "1.00"), period="2026-02")

    def told() -> dict[tuple[str, ...], float]:
        with live_api(reporting_url, metering_url) as api:
            families = text_string_to_metric_families(api.get("/metrics").text)
            samples = [sample for family in families for sample in family.samples]
        return {(s.name, *s.labels.values()): s.value for s in samples if s.name.startswith("deliveries")}

    waiting, oldest = "deliveries_waiting", "deliveries_oldest_timestamp_seconds"
    issued = day("2026-05-02").timestamp()
    known = {(waiting, "failed", "archive"): 0, (waiting, "failed", "erp"): 1, (oldest, "erp"): issued}
    assert told() == known | {(waiting, "pending", "archive"): 0, (waiting, "pending", "erp"): 0}
    corrected(metering, march)
    pending = {(waiting, "pending", "archive"): 4, (waiting, "pending", "erp"): 4}
    assert told() == known | pending | {(oldest, "archive"): issued}
