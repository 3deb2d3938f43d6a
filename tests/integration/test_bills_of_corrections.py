"""The proof of bills where a correction of some resources writes a few of them: as strict as the proof of all."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tally.domain.graph import Relation
from tally.domain.run import Run
from tally.services.bills import make_bills
from tally.store.database import Connection, connected
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

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
PAYER, TENANT, QUIET, OTHER = "garden/payer", "os/tenant", "os/quiet", "os/other"
SIZE = {"vcpus": 8, "ram_gb": 16, "disk_gb": 160, "flavor": "m1.xlarge"}
CORRECTION = "(select id from ledger.runs where kind = 'correction')"


def instance(project: str, name: str) -> Usage:
    return Usage(project, "openstack", "instance", name, SIZE)


@pytest.fixture(scope="module")
def corrected(server_url: str, metering_template: str) -> Iterator[tuple[Connection, Run]]:
    """A finalized month of two tenants in one bill and another project, and a correction of one of the tenants."""
    with fresh_database(server_url, metering_template) as url, connected(url) as metering:
        add_projects(metering, {PAYER: "gardener", TENANT: "openstack", QUIET: "openstack", OTHER: "openstack"})
        payer, kind = project_id(PAYER), "infrastructure_tenant"
        tenants = enumerate(map(project_id, (TENANT, QUIET)))
        add_relations(metering, [Relation(UUID(int=no), 1, payer, one, kind, MARCH, None, {}) for no, one in tenants])
        regular = begin_run(metering)
        write_usage(metering, regular, [instance(TENANT, "known"), instance(QUIET, "quiet"), instance(OTHER, "other")])
        bill(metering, regular)
        correction = begin_run(metering, 2, regular, scope="changed")
        write_usage(metering, correction, [instance(TENANT, "late")])
        assert make_bills(metering, correction).bills == 2
        yield metering, correction


def violated(metering: Connection, run: Run) -> set[str]:
    """The projects whose bills are not what is in them."""
    query = invariant("bills_equal_line_items").query(run).encode()
    return {subject for _, _, subject, _ in metering.execute(query).fetchall()}


@pytest.mark.parametrize(
    ("corruption", "subjects"),
    [
        ("select", set()),
        (f"delete from ledger.bills where run_id = {CORRECTION} and sign = 1", {"payer"}),
        (f"delete from ledger.bills where run_id = {CORRECTION} and sign = -1", {"payer"}),
        (f"delete from ledger.bills where run_id = {CORRECTION}", {"payer"}),
        (f"delete from ledger.rated_records where run_id = {CORRECTION}", {"payer"}),
        ("update ledger.rated_records set amount = 0 where resource_id = 'known'", {"payer"}),
        ("update ledger.rated_records set amount = 0 where resource_id = 'quiet'", {"payer"}),
        ("delete from ledger.attributions where project_id = 'tenant'", {"payer", "tenant"}),
        (
            f"""insert into ledger.attributions (run_id, cloud, project_id, billed_cloud, billed_project_id, depth)
                select {CORRECTION}, 'os', 'tenant', 'os', 'other', 1""",
            {"other"},
        ),
        (
            f"""insert into ledger.bills (run_id, cloud, project_id, platform, total, currency, document, document_hash)
                select {CORRECTION}, 'os', 'nobody', 'openstack', 1, 'EUR', '', ''""",
            {"nobody"},
        ),
    ],
)
def test_what_a_correction_of_some_resources_writes_is_proved_like_everything(
    corrected: tuple[Connection, Run], corruption: str, subjects: set[str]
) -> None:
    """Whichever side is wrong, and whichever run has written it."""
    metering, run = corrected
    with metering.transaction(force_rollback=True):
        for table in ("bills", "rated_records", "attributions"):
            metering.execute(f"alter table ledger.{table} disable trigger all".encode())
        metering.execute(corruption.encode())
        assert violated(metering, run) == violated(metering, replace(run, scope="all")) == subjects


def test_a_correction_of_some_resources_reads_no_bill_that_it_has_nothing_to_do_with(
    corrected: tuple[Connection, Run]
) -> None:
    """Its finalized run has proved it, and nothing changes that; whether somebody did is what `tally verify` tells."""
    metering, run = corrected
    with metering.transaction(force_rollback=True):
        metering.execute("alter table ledger.rated_records disable trigger all")
        metering.execute("update ledger.rated_records set amount = 0 where resource_id = 'other'")
        assert violated(metering, run) == set()
        assert violated(metering, replace(run, scope="all")) == {"other"}
