"""The terms of bills: whose relations apply, and what is found where some do not (rule 29)."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from tally.domain.graph import Relation, attribute, relations_of_period
from tally.services.adjustments import Terms, terms_of
from tally.store.metering.bills import ProjectRow

MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
NAMES = ("payer", "tenant", "team", "customer", "partner")
IDS = {name: UUID(int=number) for number, name in enumerate(NAMES, 1)}
PROJECTS = {id_: ProjectRow(id_, "cloud", name, "openstack", None) for name, id_ in IDS.items()}


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def relation(
    number: int, source: str, target: str, rate: str | None = "0.1", kind: str = "managed_by",
    start: datetime = MARCH, end: datetime | None = None,
) -> Relation:
    agreed = {} if rate is None else {"pricing_adjustments": [{"type": "discount", "rate": Decimal(rate)}]}
    return Relation(UUID(int=100 + number), 1, IDS[source], IDS[target], kind, start, end, agreed)


def terms(*relations: Relation, used: tuple[str, ...] = ("payer", "tenant")) -> Terms:
    counting = relations_of_period(relations, MARCH, APRIL)
    forest = attribute(PROJECTS.keys(), counting)
    return terms_of(PROJECTS, counting, forest, [("cloud", name) for name in used])


def rates(found: Terms, project: str) -> list[str]:
    return [str(term.adjustment.rate) for term in found.of(("cloud", project))]


TENANT = relation(50, "payer", "tenant", None, "infrastructure_tenant")


def test_a_relation_that_was_closed_within_the_month_applies_to_the_whole_of_it() -> None:
    assert rates(terms(relation(1, "payer", "partner", end=day(2))), "payer") == ["0.1"]


def test_one_that_ended_before_it_or_was_annulled_does_not() -> None:
    before = relation(1, "payer", "partner", start=datetime(2026, 1, 1, tzinfo=UTC), end=MARCH)
    annulled = relation(2, "payer", "team", start=day(5), end=day(5))
    assert rates(terms(before, annulled), "payer") == []


def test_of_two_relations_with_the_same_partner_the_later_one_applies_and_with_two_partners_both_do() -> None:
    changed = relation(1, "payer", "partner", "0.1", end=day(10)), relation(2, "payer", "partner", "0.2", start=day(10))
    assert rates(terms(*changed), "payer") == ["0.2"]
    assert rates(terms(*changed, relation(3, "payer", "team", "0.3")), "payer") == ["0.2", "0.3"]


def test_groups_of_groups_apply_to_their_members_with_the_names_of_both_ends() -> None:
    found = terms(
        relation(1, "payer", "team", "0.1", "member_of"),
        relation(2, "team", "customer", "0.2", "member_of"),
        relation(3, "customer", "partner", "0.3"),
    )
    assert [(str(term.adjustment.rate), term.source[1], term.target[1]) for term in found.of(("cloud", "payer"))] == [
        ("0.1", "payer", "team"), ("0.2", "team", "customer"), ("0.3", "customer", "partner"),
    ]
    assert rates(found, "tenant") == []
    assert found.findings == ()


def test_what_an_attributed_project_has_agreed_on_is_found_with_its_groups() -> None:
    found = terms(TENANT, relation(1, "tenant", "team", None, "member_of"), relation(2, "team", "partner"))
    assert (rates(found, "payer"), rates(found, "tenant")) == ([], [])
    (finding,) = found.findings
    assert (finding.kind, finding.subject, finding.count) == ("adjustment_not_applied", "tenant", 1)
    assert str(UUID(int=102)) in finding.detail


def test_what_applies_to_the_payer_as_well_is_not_lost() -> None:
    """Both belong to one group."""
    groups = [relation(n, member, "team", None, "member_of") for n, member in enumerate(("payer", "tenant"))]
    found = terms(TENANT, *groups, relation(9, "team", "partner"))
    assert rates(found, "payer") == ["0.1"]
    assert found.findings == ()


def test_a_project_without_usage_has_no_bill_and_loses_nothing() -> None:
    found = terms(TENANT, relation(1, "tenant", "partner"), used=("payer",))
    assert found.findings == ()
