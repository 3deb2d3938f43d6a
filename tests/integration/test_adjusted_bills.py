"""Bills with adjustments in the ledger: their documents, their rows, and what corrections make of both (rule 29)."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tally.domain.graph import Relation
from tally.domain.run import Run
from tally.services.bills import make_bills, rebuilt
from tally.store.database import Connection, connected
from tally.store.json_text import read_json
from tally.store.metering import ledger
from tally.store.metering.adjustments import select_adjustments
from tally.store.metering.bills import issued_bills, select_document
from tally.store.metering.checks import invariant
from tests.conftest import fresh_database
from tests.integration.ledger_by_hand import (
    Usage,
    add_projects,
    add_relations,
    begin_run,
    bill,
    project_id,
    write_usage,
)
from tests.integration.test_immutability import REFUSED, refusal

MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
TEAM, TENANT, CUSTOMER, RESELLER = "garden/team-alpha", "os/tenant", "meta/customer", "partner/corp"
PLAIN, UNREADABLE = "os/plain", "os/unreadable"
M1_XLARGE = {"vcpus": 8, "ram_gb": 16, "disk_gb": 160, "flavor": "m1.xlarge"}


def relation(number: int, source: str, target: str, kind: str, *agreed: dict[str, Any], version: int = 1) -> Relation:
    metadata = {"pricing_adjustments": list(agreed)} if agreed else {}
    ends = project_id(source), project_id(target)
    return Relation(UUID(int=number), version, *ends, kind, MARCH, None, metadata)


def discount(rate: str, scope: str = "all", kind: str = "discount", **more: str) -> dict[str, Any]:
    return {"type": kind, "rate": Decimal(rate), "scope": scope, **more}


RELATIONS = [
    relation(1, TEAM, TENANT, "infrastructure_tenant"),
    relation(2, TEAM, RESELLER, "managed_by", discount("0.1", description="End customers")),
    relation(3, TEAM, CUSTOMER, "member_of"),
    relation(4, CUSTOMER, RESELLER, "managed_by", discount("0.2", "openstack.instance"),
             discount("0.1", kind="kickback")),
    relation(5, TENANT, RESELLER, "managed_by", discount("0.5")),
    relation(7, UNREADABLE, RESELLER, "managed_by", {"type": "discount", "percent": 10}),
]


@pytest.fixture(scope="module")
def billed(server_url: str, metering_template: str) -> Iterator[tuple[Connection, Run]]:
    """The Gardener project of the requirement, 223.20 and 297.60 of its tenant, and its finalized bill."""
    with fresh_database(server_url, metering_template) as url, connected(url) as metering:
        platforms = {TEAM: "gardener", TENANT: "openstack", CUSTOMER: "meta", RESELLER: "meta", PLAIN: "openstack"}
        add_projects(metering, platforms | {UNREADABLE: "openstack"}, {RESELLER: "Partner Corp"})
        add_relations(metering, RELATIONS)
        run = begin_run(metering)
        write_usage(metering, run, [
            Usage(TEAM, "gardener", "shoot", "shoot-abc", {"worker_count": 3}),
            Usage(TENANT, "openstack", "instance", "worker-1", M1_XLARGE),
            Usage(PLAIN, "openstack", "instance", "plain", M1_XLARGE),
            Usage(UNREADABLE, "openstack", "instance", "unreadable", M1_XLARGE),
        ])
        bill(metering, run)
        yield metering, run


def documents(metering: Connection, run: Run) -> dict[str, Any]:
    return {f"{bill.cloud}/{bill.project_id}": read_json(select_document(metering, bill))
            for bill in issued_bills(metering, run.id)}


def lines(metering: Connection, run: Run) -> list[str]:
    """What the run itself has written, such as "- 1 discount -52.08"."""
    rows = metering.execute(
        """select sign, relation_id, type, base, amount from ledger.adjustments where run_id = %s
           order by sign, cloud, project_id, relation_id, place""",
        [run.id],
    )
    return [f"{'+' if sign > 0 else '-'} {id_.int} {kind} {base} {amount}" for sign, id_, kind, base, amount in rows]


def test_the_gardener_bill_of_the_requirement_less_two_discounts(billed: tuple[Connection, Run]) -> None:
    """10 % of 520.80, then 20 % of the 267.84 that are left of the instances; 10 % of 415.152 are the partner's."""
    document = documents(*billed)[TEAM]
    keys = ["related_costs", "base_cost_eur", "adjustments", "net_cost_eur", "kickback_eur", "total", "currency"]
    assert list(document)[-7:] == keys
    assert [document[key] for key in ("base_cost_eur", "net_cost_eur", "kickback_eur", "total")] == [
        Decimal("520.80"), Decimal("415.15"), Decimal("41.52"), Decimal("415.15"),
    ]
    assert document["adjustments"][0] == {
        "type": "discount", "relation_type": "managed_by", "relation_target": "Partner Corp",
        "relation_id": str(UUID(int=2)), "description": "End customers", "scope": "all", "rate": Decimal("0.1"),
        "base_eur": Decimal("520.80"), "amount_eur": Decimal("-52.08"),
    }
    assert [line["amount_eur"] for line in document["adjustments"]] == [
        Decimal("-52.08"), Decimal("-53.57"), Decimal("41.52"),
    ]


def test_a_bill_without_adjustments_says_nothing_of_them(billed: tuple[Connection, Run]) -> None:
    document = documents(*billed)[PLAIN]
    assert list(document)[-3:] == ["related_costs", "total", "currency"]


def test_the_ledger_has_the_lines_of_the_documents(billed: tuple[Connection, Run]) -> None:
    metering, run = billed
    assert lines(metering, run) == [
        "+ 2 discount 520.80 -52.08", "+ 4 discount 267.84 -53.57", "+ 4 kickback 415.15 41.52",
    ]
    (kickback,) = select_adjustments(metering, run.id, "kickback")
    agreed = kickback.agreed
    assert (agreed.target_cloud, agreed.target_project_id, agreed.target_name) == ("partner", "corp", "Partner Corp")
    assert (agreed.source_cloud, agreed.source_project_id) == ("meta", "customer")


def test_what_is_not_applied_is_found(billed: tuple[Connection, Run]) -> None:
    """The tenant's own discount, and what cannot be read."""
    metering, run = billed
    rows = metering.execute(
        """select kind, cloud || '/' || project, detail from (
               select kind, cloud, subject as project, detail from ledger.findings where run_id = %s
           ) as found where kind like '%%adjustment%%' order by kind""",
        [run.id],
    ).fetchall()
    assert [row[:2] for row in rows] == [("adjustment_not_applied", TENANT), ("unreadable_adjustment", UNREADABLE)]
    assert rows[0][2] == (
        "it is billed inside garden/team-alpha, where what its relations agree on does not apply: "
        "00000000-0000-0000-0000-000000000005"
    )
    assert "'percent' is not a key of it" in rows[1][2]


def test_the_total_of_a_bill_is_its_lines_and_adjustments_but_for_kickbacks(billed: tuple[Connection, Run]) -> None:
    metering, run = billed
    query = invariant("bills_equal_line_items").query(run).encode()
    assert metering.execute(query).fetchall() == []
    with metering.transaction(force_rollback=True):
        metering.execute("alter table ledger.adjustments disable trigger user")
        metering.execute("update ledger.adjustments set amount = amount + 1 where type = 'discount' and scope = 'all'")
        assert [row[2] for row in metering.execute(query).fetchall()] == ["team-alpha"]


def test_adjustments_of_a_finalized_run_never_change_and_are_part_of_its_hash(billed: tuple[Connection, Run]) -> None:
    metering, run = billed
    for statement in (
        "update ledger.adjustments set amount = 0",
        "delete from ledger.adjustments",
        "truncate ledger.adjustments",
        """insert into ledger.adjustments select (again.line).*
           from (select jsonb_populate_record(a, '{"place": 9}') as line from ledger.adjustments as a
                 where type = 'kickback') as again""",
    ):
        assert refusal(metering, statement) in REFUSED, statement
    before = ledger.fingerprint(metering, run.id)
    with metering.transaction(force_rollback=True):
        metering.execute("alter table ledger.adjustments disable trigger user")
        metering.execute("update ledger.adjustments set rate = 0.11 where type = 'kickback'")
        assert ledger.fingerprint(metering, run.id) != before


def test_the_bills_made_again_are_those_that_were_finalized(billed: tuple[Connection, Run]) -> None:
    """What verify compares."""
    metering, run = billed
    with metering.transaction():
        made = {(row.cloud, row.project_id): row.document_hash for row in rebuilt(metering, run)}
    stored = issued_bills(metering, run.id)
    assert made == {(row.cloud, row.project_id): row.document_hash for row in stored}


def test_corrections_take_back_and_write_adjustments_with_their_bills(billed: tuple[Connection, Run]) -> None:
    """A kickback that was agreed too high; a project that comes late; nothing; and the discounts that never were."""
    metering, run = billed
    lower = discount("0.2", "openstack.instance"), discount("0.05", kind="kickback")
    add_relations(metering, [relation(4, CUSTOMER, RESELLER, "managed_by", *lower, version=2)], load_id=2)
    first = begin_run(metering, 2, run)
    assert bill(metering, first).bills == 2
    assert lines(metering, first) == [
        "- 2 discount -520.80 52.08", "- 4 discount -267.84 53.57", "- 4 kickback -415.15 -41.52",
        "+ 2 discount 520.80 -52.08", "+ 4 discount 267.84 -53.57", "+ 4 kickback 415.15 20.76",
    ]
    assert documents(metering, first)[TEAM]["kickback_eur"] == Decimal("20.76")

    second = begin_run(metering, 3, run)
    write_usage(metering, second, [Usage(TEAM, "gardener", "shoot", "late", {"worker_count": 1})])
    assert bill(metering, second).bills == 2
    assert documents(metering, second)[TEAM]["base_cost_eur"] == Decimal("595.20")
    assert lines(metering, second)[-3:] == [
        "+ 2 discount 595.20 -59.52", "+ 4 discount 267.84 -53.57", "+ 4 kickback 482.11 24.11",
    ]

    third = begin_run(metering, 4, run)
    assert (bill(metering, third).bills, lines(metering, third)) == (0, [])

    never = [replace(one, version=3, valid_to=one.valid_from) for one in RELATIONS if one.id.int in (2, 4)]
    add_relations(metering, never, load_id=5)
    last = begin_run(metering, 5, run)
    bill(metering, last)
    assert [line[0] for line in lines(metering, last)] == ["-"] * 3
    assert list(documents(metering, last)[TEAM])[-2:] == ["total", "currency"]
    assert select_adjustments(metering, last.id) == []
    for corrected in (first, second, third, last):
        assert metering.execute(invariant("bills_equal_line_items").query(corrected).encode()).fetchall() == []
        counting = metering.execute(
            "select count(*) from ledger.effective_adjustments where as_of_run_id = %s", [corrected.id]
        ).fetchone()
        assert counting == (len(select_adjustments(metering, corrected.id)),)


def test_a_run_that_is_repeated_replaces_its_adjustments(billed: tuple[Connection, Run]) -> None:
    metering, run = billed
    with metering.transaction(force_rollback=True):
        again = begin_run(metering, 9, run)
        make_bills(metering, again)
        before = lines(metering, again)
        make_bills(metering, again)
        assert lines(metering, again) == before
