"""Relations between projects: idempotent, versioned, without cycles, audited (rule 28)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.graph import Relation
from tally.domain.instants import MICROSECOND
from tally.services.relations import (
    Direction,
    RelationPatch,
    close_relation,
    get_relation,
    list_relations,
    patch_relation,
    relate,
)
from tally.store.database import Connection, connected
from tests.integration.registering import TENANT, change, connect, create, day
from tests.integration.sending import count


@pytest.fixture
def projects(reporting: Connection) -> dict[str, UUID]:
    """Four registered projects."""
    return {name: create(reporting, name).id for name in ("a", "b", "c", "d")}


def patch(reporting: Connection, relation: Relation, **values: Any) -> Relation:
    """Patch a relation; ``since`` and ``until`` are days, or None."""
    fields: RelationPatch = {}
    if "since" in values:
        fields["valid_from"] = day(values["since"])
    if "until" in values:
        fields["valid_to"] = None if values["until"] is None else day(values["until"])
    if "metadata" in values:
        fields["metadata"] = values["metadata"]
    return patch_relation(reporting, relation.id, fields, values.get("by", change())).relation


def audited(reporting: Connection) -> list[tuple[Any, ...]]:
    """The audit log of relations: action, subject, detail."""
    return reporting.execute(
        "select action, subject, detail from reporting.audit_log where action like 'relation.%' order by id"
    ).fetchall()


class TestRelating:
    """Creating a relation."""

    def test_a_relation_is_kept_with_its_metadata(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """Rule 28: the same again changes nothing."""
        metadata = {"pricing_adjustments": [{"type": "discount", "rate": Decimal("0.15")}]}
        relation = connect(reporting, "a", "b", relation_type="managed_by", metadata=metadata)
        assert (relation.source, relation.target, relation.version) == (projects["a"], projects["b"], 1)
        assert connect(reporting, "a", "b", relation_type="managed_by", metadata=metadata) == relation
        assert list_relations(reporting) == [relation]
        [(action, subject, detail)] = audited(reporting)
        assert (action, subject) == ("relation.create", "os/a managed_by os/b")
        assert detail["new"] == {"valid_from": "2026-01-01T00:00:00Z", "valid_to": None, "metadata": metadata}

    def test_adjustments_that_make_no_sense_are_refused(self, reporting: Connection, projects: dict[str, UUID]) -> None:  # noqa: ARG002
        """Rule 29: at creation and by a patch, naming what is wrong; a relation that has such can still be closed."""

        def agreeing(**changes: Any) -> dict[str, Any]:
            return {"pricing_adjustments": [{"type": "discount", "rate": Decimal("0.1")} | changes]}

        with pytest.raises(InvalidInput, match=r"pricing_adjustments\[0\]: rate 10 is not between 0 and 1"):
            connect(reporting, "a", "b", relation_type="managed_by", metadata=agreeing(rate=10))
        with pytest.raises(InvalidInput, match="a relation infrastructure_tenant adjusts no prices"):
            connect(reporting, "a", "b", metadata=agreeing())
        with pytest.raises(InvalidInput, match=r"scope 'openstack\.intsance' is not a registered resource type"):
            connect(reporting, "a", "b", relation_type="managed_by", metadata=agreeing(scope="openstack.intsance"))
        relation = connect(reporting, "a", "b", relation_type="managed_by", metadata=agreeing(scope="openstack.volume"))
        with pytest.raises(InvalidInput, match="'rebate' is none of surcharge, discount"):
            patch(reporting, relation, metadata=agreeing(type="rebate"))
        assert get_relation(reporting, relation.id) == relation
        unreadable = "'{\"pricing_adjustments\": 5}'"
        reporting.execute(
            f"""insert into reporting.project_relations (id, version, source_id, target_id, relation_type, metadata,
                    valid_from)
                select id, 2, source_id, target_id, relation_type, {unreadable}, valid_from
                from reporting.project_relations""".encode()
        )
        assert close_relation(reporting, relation.id, day("2026-02-01"), change()).changed

    def test_projects_are_named_by_address_or_by_id(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """Both mean the same relation."""
        relation = connect(reporting, "a", "b")
        by_id = relate(reporting, projects["a"], projects["b"], TENANT, day("2026-01-01"), None, None, change())
        assert (by_id.relation, by_id.changed) == (relation, False)
        with pytest.raises(NotFound, match="does not exist"):
            relate(reporting, projects["a"], uuid4(), TENANT, day("2026-01-01"), None, None, change())

    def test_without_a_beginning_it_begins_now_once(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """A client that repeats its request does not know the instant of the first one."""
        ends = projects["a"], projects["b"], TENANT
        first = relate(reporting, *ends, None, None, {"n": 1}, change("2026-06-01"))
        assert (first.changed, first.relation.valid_from) == (True, day("2026-06-01"))
        again = relate(reporting, *ends, None, None, {"n": 1}, change("2026-06-02"))
        assert (again.relation, again.changed) == (first.relation, False)
        with pytest.raises(Refused, match="overlaps"):
            relate(reporting, *ends, None, None, {"n": 2}, change("2026-06-02"))
        with pytest.raises(Refused, match="overlaps"):
            relate(reporting, *ends, None, day("2026-07-01"), {"n": 1}, change("2026-06-02"))

    @pytest.mark.usefixtures("projects")
    def test_what_makes_no_sense_is_refused(self, reporting: Connection) -> None:
        """Unknown type, itself, unknown project, empty validity, no zone."""
        with pytest.raises(InvalidInput, match="cousin_of"):
            connect(reporting, "a", "b", relation_type="cousin_of")
        with pytest.raises(InvalidInput, match="itself"):
            connect(reporting, "a", "a")
        with pytest.raises(NotFound, match="os/nobody"):
            connect(reporting, "a", "nobody")
        with pytest.raises(InvalidInput, match="not after"):
            connect(reporting, "a", "b", "2026-01-01", "2026-01-01")
        naive = day("2026-01-01").replace(tzinfo=None)
        with pytest.raises(InvalidInput, match="zone"):
            relate(reporting, "os/a", "os/b", TENANT, naive, None, {}, change())
        assert list_relations(reporting) == []

    @pytest.mark.usefixtures("projects")
    def test_a_relation_that_overlaps_its_like_is_refused(self, reporting: Connection) -> None:
        """Rule 28: per (source, target, type) one at a time; one may follow the other."""
        connect(reporting, "a", "b", "2026-01-01", "2026-03-10")
        with pytest.raises(Refused, match="overlaps"):
            connect(reporting, "a", "b", "2026-03-09")
        connect(reporting, "a", "b", "2026-03-10")
        with pytest.raises(Refused, match="overlaps"):
            connect(reporting, "a", "b", "2027-01-01", "2027-02-01")
        connect(reporting, "a", "b", relation_type="same_owner")
        assert len(list_relations(reporting)) == 3

    @pytest.mark.usefixtures("projects")
    def test_a_second_parent_is_accepted(self, reporting: Connection) -> None:
        """Rule 28: which one counts is decided when billing."""
        connect(reporting, "a", "c")
        connect(reporting, "b", "c")
        assert len(list_relations(reporting)) == 2


@pytest.mark.usefixtures("projects")
class TestCycles:
    """A cycle of attribution is refused with its path, through every door."""

    def test_by_a_new_relation(self, reporting: Connection) -> None:
        """Rule 28: among relations that share any period, and only among those that attribute."""
        connect(reporting, "a", "b", "2026-01-01", "2026-03-10")
        connect(reporting, "b", "c")
        with pytest.raises(Refused, match="os/c -> os/a -> os/b -> os/c"):
            connect(reporting, "c", "a", "2026-03-20")
        connect(reporting, "c", "a", "2026-04-01")
        connect(reporting, "c", "b", relation_type="same_owner")

    def test_by_the_zone_of_the_periods(self, reporting: Connection) -> None:
        """The last hour of March in UTC is April in Berlin, which then sees both relations."""
        connect(reporting, "a", "b", "2026-04-01")
        end = day("2026-04-01")
        begin = end - timedelta(minutes=30)
        relate(reporting, "os/b", "os/a", TENANT, begin, end, None, change())
        connect(reporting, "c", "d", "2026-04-01")
        with pytest.raises(Refused, match="os/d -> os/c -> os/d"):
            relate(reporting, "os/d", "os/c", TENANT, begin, end, None, change(zone="Europe/Berlin"))

    def test_by_an_earlier_beginning(self, reporting: Connection) -> None:
        """A patch is judged as a new relation is."""
        connect(reporting, "a", "b", "2026-01-01", "2026-03-10")
        later = connect(reporting, "b", "a", "2026-04-01")
        with pytest.raises(Refused, match="os/b -> os/a -> os/b"):
            patch(reporting, later, since="2026-03-20")
        assert get_relation(reporting, later.id) == later

    def test_by_opening_again(self, reporting: Connection) -> None:
        """A closed relation that is opened by a null meets what has come since."""
        closed = connect(reporting, "a", "b", "2026-01-01", "2026-03-10")
        connect(reporting, "b", "a", "2026-04-01")
        with pytest.raises(Refused, match="os/a -> os/b -> os/a"):
            patch(reporting, closed, until=None)
        with pytest.raises(Refused, match="os/a -> os/b -> os/a"):
            patch(reporting, closed, until="2026-04-02")
        assert patch(reporting, closed, until="2026-03-20").version == 2

    def test_by_two_at_once(self, reporting: Connection, reporting_url: str) -> None:
        """Whoever comes second sees what the first one wrote."""

        def attempt(ends: tuple[str, str]) -> bool:
            with connected(reporting_url) as connection:
                try:
                    connect(connection, *ends)
                except Refused:
                    return False
            return True

        with ThreadPoolExecutor(3) as pool:
            done = list(pool.map(attempt, [("a", "b"), ("b", "c"), ("c", "a")]))
        assert sorted(done) == [False, True, True]
        assert len(list_relations(reporting)) == 2

    def test_a_relation_does_not_stand_in_its_own_way(self, reporting: Connection) -> None:
        """Its former version no longer holds."""
        relation = connect(reporting, "a", "b")
        assert patch(reporting, relation, since="2025-12-01").valid_from == day("2025-12-01")


@pytest.mark.usefixtures("projects")
class TestPatching:
    """Changing a relation appends a version."""

    def test_what_is_named_changes_and_the_rest_stays(self, reporting: Connection) -> None:
        """RFC 7396 for the metadata; the version before stays readable."""
        relation = connect(reporting, "a", "b", metadata={"a": 1, "b": {"c": 2, "d": 3}})
        patched = patch(reporting, relation, metadata={"a": None, "b": {"c": 4}}, until="2026-09-01")
        assert (patched.id, patched.version) == (relation.id, 2)
        assert (patched.valid_from, patched.valid_to) == (relation.valid_from, day("2026-09-01"))
        assert patched.metadata == {"b": {"c": 4, "d": 3}}
        assert patch(reporting, patched, until=None).valid_to is None
        assert patch(reporting, patched, metadata=None).metadata == {}
        rows = reporting.execute(
            "select version, valid_to, metadata from reporting.project_relations order by version"
        ).fetchall()
        assert rows[0] == (1, None, {"a": 1, "b": {"c": 2, "d": 3}})
        assert len(rows) == 4

    def test_what_is_said_already_changes_nothing(self, reporting: Connection) -> None:
        """No version, no audit."""
        relation = connect(reporting, "a", "b", metadata={"a": 1})
        assert patch(reporting, relation, since="2026-01-01", until=None, metadata={"a": 1, "b": None}) == relation
        assert [action for action, *_ in audited(reporting)] == ["relation.create"]

    def test_it_is_audited_with_old_and_new(self, reporting: Connection) -> None:
        """And with its reason, if there is one."""
        relation = connect(reporting, "a", "b")
        patch(reporting, relation, until="2026-09-01", by=change(reason=" the contract ends "))
        *_, (action, subject, detail) = audited(reporting)
        assert (action, subject) == ("relation.update", "os/a infrastructure_tenant os/b")
        said = {"valid_from": "2026-01-01T00:00:00Z", "metadata": {}}
        assert detail == {
            "id": str(relation.id),
            "version": 2,
            "reason": "the contract ends",
            "old": said | {"valid_to": None},
            "new": said | {"valid_to": "2026-09-01T00:00:00Z"},
        }
        assert get_relation(reporting, relation.id).reason == "the contract ends"

    def test_what_makes_no_sense_is_refused(self, reporting: Connection) -> None:
        """An end before the beginning, metadata that cannot be stored, no such relation, an overlap."""
        relation = connect(reporting, "a", "b", "2026-01-01", "2026-02-01")
        connect(reporting, "a", "b", "2026-03-01")
        with pytest.raises(InvalidInput, match="not after"):
            patch(reporting, relation, until="2025-12-31")
        with pytest.raises(InvalidInput, match="not after"):
            patch(reporting, relation, since="2026-02-02")
        with pytest.raises(InvalidInput, match="NUL"):
            patch(reporting, relation, metadata={"\0": 1})
        with pytest.raises(Refused, match="overlaps"):
            patch(reporting, relation, until="2026-03-02")
        with pytest.raises(NotFound):
            patch_relation(reporting, uuid4(), {}, change())
        assert count(reporting, "project_relations") == 2

    def test_a_relation_that_ends_where_it_begins_is_annulled(self, reporting: Connection) -> None:
        """What was wrong from the beginning never counts, and makes room for what is right."""
        wrong = connect(reporting, "a", "b")
        annulled = patch(reporting, wrong, until="2026-01-01")
        assert annulled.valid_to == annulled.valid_from
        assert not annulled.intersects(day("2000-01-01"), day("2100-01-01"))
        connect(reporting, "b", "a")
        assert len(list_relations(reporting)) == 2


@pytest.mark.usefixtures("projects")
class TestClosing:
    """Ending a relation."""

    def test_closing_appends_a_version(self, reporting: Connection) -> None:
        """Rule 28: nothing is overwritten or deleted; the database refuses it, too."""
        relation = connect(reporting, "a", "b")
        closed = close_relation(reporting, relation.id, day("2026-04-01"), change())
        assert (closed.relation.version, closed.relation.valid_to, closed.changed) == (2, day("2026-04-01"), True)
        assert list_relations(reporting) == [closed.relation]
        versions = reporting.execute(
            "select version, valid_to from reporting.project_relations order by version"
        ).fetchall()
        assert versions == [(1, None), (2, day("2026-04-01"))]
        for statement in (
            "update reporting.project_relations set valid_to = now()",
            "delete from reporting.project_relations",
        ):
            with pytest.raises(psycopg.Error) as refusal:
                reporting.execute(statement.encode())
            assert refusal.value.sqlstate == "TA001"
        assert [action for action, *_ in audited(reporting)] == ["relation.create", "relation.close"]

    def test_it_ends_now_unless_an_instant_is_given(self, reporting: Connection) -> None:
        """An end in the future is brought forward."""
        relation = connect(reporting, "a", "b", "2026-01-01", "2027-01-01")
        assert close_relation(reporting, relation.id, None, change("2026-06-01")).relation.valid_to == day("2026-06-01")

    @pytest.mark.parametrize("end", [None, "2026-04-01", "2026-05-01"])
    def test_what_has_ended_by_then_stays_as_it_is(self, reporting: Connection, end: str | None) -> None:
        """Closing never makes a relation longer; a patch does."""
        relation = connect(reporting, "a", "b", "2026-01-01", "2026-04-01")
        closed = close_relation(reporting, relation.id, day(end) if end else None, change("2026-06-01"))
        assert (closed.relation, closed.changed) == (relation, False)

    def test_what_has_not_begun_never_does(self, reporting: Connection) -> None:
        """Closed before its beginning, it is annulled; so it is by naming its beginning."""
        planned = connect(reporting, "a", "b", "2026-09-01")
        closed = close_relation(reporting, planned.id, None, change("2026-06-01")).relation
        assert closed.valid_to == closed.valid_from == day("2026-09-01")
        running = connect(reporting, "c", "d")
        assert close_relation(reporting, running.id, day("2026-01-01"), change()).relation.valid_to == day("2026-01-01")

    def test_an_end_that_makes_no_sense_is_refused(self, reporting: Connection) -> None:
        """Before the beginning, or of nothing."""
        relation = connect(reporting, "a", "b", "2026-01-01", "2026-02-01")
        with pytest.raises(InvalidInput, match="not after"):
            close_relation(reporting, relation.id, relation.valid_from - MICROSECOND, change())
        with pytest.raises(NotFound):
            close_relation(reporting, uuid4(), relation.valid_from, change())
        assert count(reporting, "project_relations") == 1


@pytest.mark.usefixtures("projects")
class TestFinalizedPeriods:
    """What touches a finalized period needs a reason."""

    def test_a_new_relation_into_a_finalized_period(self, reporting: Connection) -> None:
        """Refused with the periods; with a reason it is written, and says for which periods it is late."""
        closed = ("2026-01", "2026-02", "2026-03")
        for reason in (None, "", "  "):
            with pytest.raises(Refused, match="what holds in 2026-02, 2026-03, which is finalized; give a reason"):
                connect(reporting, "a", "b", "2026-02-28", by=change(finalized=closed, reason=reason))
        assert list_relations(reporting) == []
        by = change(finalized=closed, reason="forgotten")
        written = relate(reporting, "os/a", "os/b", TENANT, day("2026-02-28"), None, None, by)
        assert (written.late_for, written.relation.reason) == (("2026-02", "2026-03"), "forgotten")
        assert connect(reporting, "a", "b", "2026-02-28", by=change(finalized=closed)) == written.relation

    def test_a_change_that_leaves_it_as_it_was_needs_none(self, reporting: Connection) -> None:
        """A relation counts for the whole of a period, whenever it ends in it; later periods are open."""
        relation = connect(reporting, "a", "b", "2026-03-10")
        by = change(finalized=["2026-03"])
        assert connect(reporting, "c", "d", "2026-04-01", by=by).version == 1
        assert patch(reporting, relation, until="2026-04-10", by=by).version == 2
        written = close_relation(reporting, relation.id, day("2026-03-20"), by)
        assert (written.changed, written.late_for) == (True, ())

    @pytest.mark.parametrize(
        "fields",
        [{"metadata": {"percent": 10}}, {"since": "2026-02-10"}, {"since": "2026-04-01"}, {"until": "2026-03-10"}],
        ids=["metadata", "earlier", "later", "annulled"],
    )
    def test_a_change_of_what_it_says_needs_one(self, reporting: Connection, fields: dict[str, Any]) -> None:
        """Whether the period is seen by the version before, by the one after, or by both."""
        relation = connect(reporting, "a", "b", "2026-03-10")
        with pytest.raises(Refused, match="2026-03, which is finalized"):
            patch(reporting, relation, **fields, by=change(finalized=["2026-03"]))
        assert patch(reporting, relation, **fields, by=change(finalized=["2026-03"], reason="said late")).version == 2

    def test_closing_in_the_past_needs_one(self, reporting: Connection) -> None:
        """March would no longer see the relation."""
        relation = connect(reporting, "a", "b", "2026-01-10")
        with pytest.raises(Refused, match="2026-03, which is finalized"):
            close_relation(reporting, relation.id, day("2026-03-01"), change(finalized=["2026-02", "2026-03"]))
        by = change(finalized=["2026-02", "2026-03"], reason="the shoot was gone")
        assert close_relation(reporting, relation.id, day("2026-03-01"), by).late_for == ("2026-03",)

    def test_a_reason_is_a_text(self, reporting: Connection) -> None:
        """It is stored with the version."""
        with pytest.raises(InvalidInput, match="reason"):
            connect(reporting, "a", "b", by=change(reason="\0"))


class TestListing:
    """Reading relations."""

    def test_by_direction_and_type(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """Outgoing: the project is the source; incoming: the target."""
        out = connect(reporting, "a", "b", "2026-01-01")
        into = connect(reporting, "c", "a", "2026-01-02")
        connect(reporting, "c", "d", "2026-01-03")
        owner = connect(reporting, "a", "d", "2026-01-04", relation_type="same_owner")
        a = projects["a"]
        assert list_relations(reporting, project=a) == [out, into, owner]
        assert list_relations(reporting, project=a, direction=Direction.OUTGOING) == [out, owner]
        assert list_relations(reporting, project=a, direction=Direction.INCOMING) == [into]
        assert list_relations(reporting, project=a, relation_type=TENANT) == [out, into]
        assert list_relations(reporting, project=a, direction=Direction.INCOMING, relation_type="same_owner") == []
        with pytest.raises(InvalidInput, match="cousin_of"):
            list_relations(reporting, project=a, relation_type="cousin_of")

    def test_the_version_that_holds(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """Once for each relation, wherever it was before."""
        relation = connect(reporting, "a", "b", "2026-01-01")
        later = connect(reporting, "a", "c", "2026-01-02")
        moved = patch(reporting, relation, since="2026-01-03")
        assert list_relations(reporting, project=projects["a"]) == [later, moved]

    @pytest.mark.usefixtures("projects")
    def test_page_by_page(self, reporting: Connection) -> None:
        """In the order of (valid_from, id): each comes once, also where several begin together."""
        rows = [connect(reporting, "a", target) for target in ("b", "c", "d")]
        rows += [connect(reporting, "b", "c", "2026-02-01")]
        seen = page = list_relations(reporting, limit=2)
        while page:
            page = list_relations(reporting, after=(page[-1].valid_from, page[-1].id), limit=2)
            seen = seen + page
        assert seen == sorted(rows, key=lambda relation: (relation.valid_from, relation.id))

    def test_both_ends_must_be_visible(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """A relation would tell of a foreign project."""
        seen = connect(reporting, "a", "b")
        connect(reporting, "a", "c")
        connect(reporting, "c", "a", relation_type="same_owner")
        assert list_relations(reporting, project=projects["a"], visible=[("os", "a"), ("os", "b")]) == [seen]
        assert list_relations(reporting, project=projects["a"], visible={("os", "a"), ("other", "b")}) == []
        assert list_relations(reporting, visible=frozenset()) == []

    def test_one_by_its_id(self, reporting: Connection, projects: dict[str, UUID]) -> None:
        """Under one of its projects, not under another one."""
        relation = connect(reporting, "a", "b")
        for name in ("a", "b"):
            assert get_relation(reporting, relation.id, projects[name]) == relation
        with pytest.raises(NotFound):
            get_relation(reporting, relation.id, projects["c"])
        with pytest.raises(NotFound):
            get_relation(reporting, uuid4())
