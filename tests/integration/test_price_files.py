"""Price files as an operator works with them, on databases: judged, loaded, listed by their use, compared."""

from pathlib import Path

import pytest

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.services.price_files import lint_for, load_files, price_files, version_of, versions_in_use
from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.closing import House
from tests.integration.command_line import environment, run
from tests.integration.test_cli import installed, tally  # noqa: F401 - fixtures
from tests.integration.test_prices import define_cluster, names, write


def test_a_file_is_loaded_once_and_refused_when_it_has_changed(
    reporting: Connection, metering: Connection, tmp_path: Path
) -> None:
    """S41; written differently, it is the same version."""
    define_cluster(reporting)
    (path,) = price_files([write(tmp_path, "2026-06", "2026-06")])
    assert load_files(reporting, metering, [path]) == ["2026-06"]
    assert load_files(reporting, metering, [path]) == []
    write(tmp_path, "2026-06", "2026-06-01T00:00:00Z", price="0.1000")
    assert load_files(reporting, metering, [path]) == []
    write(tmp_path, "2026-06", "2026-06", price="0.11")
    with pytest.raises(Refused, match="version 2026-06 is loaded with other content"):
        load_files(reporting, metering, [path])
    assert lint_for(reporting, metering, path).faults[0].line == 1


def test_the_faults_of_all_files_are_told_and_none_is_loaded(
    reporting: Connection, metering: Connection, tmp_path: Path
) -> None:
    """Form, registry and encoding; collisions are judged on what is in order (S40)."""
    write(tmp_path, "a", "2026-06", price="-1")
    write(tmp_path, "b", "2026-07")
    (tmp_path / "c.yml").write_bytes(b"version: \xff")
    before = names(metering)
    with pytest.raises(InvalidInput, match=r"a\.yaml: line 6: .*line 8: .*b\.yaml: line 6: .*c\.yml: not UTF-8"):
        load_files(reporting, metering, price_files([tmp_path]))
    define_cluster(reporting)
    files = [write(tmp_path, name, "2026-08") / f"{name}.yaml" for name in ("d", "e")]
    with pytest.raises(Refused, match="d and e both begin with 2026-08"):
        load_files(reporting, metering, files)
    assert names(metering) == before


def test_what_is_loaded_is_not_judged_by_a_registry_that_has_moved_on(
    reporting: Connection, metering: Connection, tmp_path: Path
) -> None:
    """Else no command would start after a type was mended."""
    define_cluster(reporting)
    files = price_files([write(tmp_path, "2026-06", "2026-06")])
    load_files(reporting, metering, files)
    define_type(reporting, "cluster", "task", {"counters": ["bytes"]}, "test")
    assert lint_for(reporting, metering, files[0]).faults
    assert load_files(reporting, metering, files) == []


def test_a_file_that_cannot_be_read_is_named(metering: Connection, tmp_path: Path) -> None:
    for path, text in ((tmp_path / "no.yaml", "No such file"), (tmp_path / "x\0.yaml", "null byte")):
        with pytest.raises(InvalidInput, match=text):
            version_of(metering, str(path))
    with pytest.raises(InvalidInput, match="holds no price file"):
        price_files([tmp_path])
    with pytest.raises(NotFound, match="price version 'no' is not loaded; loaded: 2026-03"):
        version_of(metering, "no")
    long = tmp_path / "long.yaml"
    long.write_text("#" * (4 * 1024 * 1024 + 1), encoding="utf-8")
    with pytest.raises(InvalidInput, match="it is no price file"):
        version_of(metering, str(long))


@pytest.fixture
def closed(house: House, home: Path, dagster_url: str) -> dict[str, str]:
    """The environment of an installation in which the small month is closed."""
    return environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=house.reporting_url,
        TALLY_METERING_URL=house.metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )


def test_prices_are_changed_on_the_command_line(closed: dict[str, str], tmp_path: Path) -> None:
    """Shown as a file, edited, judged, compared, loaded, listed with what uses it."""
    draft = tmp_path / "2026-07.yaml"
    shown = run(closed, "pricing", "show", "2026-03")
    text = shown.out.replace("version: 2026-03", "version: 2026-07").replace("from: 2026-03", "from: 2026-07")
    draft.write_text(text.replace("vcpus", "vcpu"), encoding="utf-8")
    refused = run(closed, "pricing", "load", draft)
    assert (refused.status, "vcpu is unknown to the registry" in refused.error) == (2, True)
    judged = run(closed, "pricing", "lint", draft)
    assert judged.status == 1
    assert len(judged.out.splitlines()) == 3, "one for each platform whose processors are called so"
    draft.write_text(text.replace("0.0001\n", "0.0002\n"), encoding="utf-8")
    assert run(closed, "pricing", "lint", "--installed", draft).out == f"{draft}: in order\n"
    compared = run(closed, "pricing", "diff", "2026-03", draft, "--format", "csv")
    assert compared.out.splitlines()[1:] == [
        "changed,openstack.volume.size_gb.price_per_unit_hour,0.0001,0.0002,0.0001,100.00",
        "changed,valid_from,2026-03,2026-07,,",
    ]
    assert run(closed, "pricing", "load", draft).out == "loaded price version: 2026-07\n"
    assert run(closed, "pricing", "load", draft).out == "everything is loaded already\n"
    former, latter = run(closed, "pricing", "list").out.splitlines()[2:]
    assert former.split()[:6] == ["2026-03", "2026-03", "2026-07", "EUR", "1", "2026-03"]
    assert latter.split()[:4] == ["2026-07", "2026-07", "EUR", "0"]


def test_the_months_that_use_a_version_are_listed_with_those_that_are_final(house: House) -> None:
    """A run that was superseded or has failed uses nothing."""
    from tally.store.database import connected

    with connected(house.metering_url) as metering:
        (row,) = versions_in_use(metering)
        assert (row.version, row.runs, row.months, row.finalized) == ("2026-03", 1, ["2026-03"], [])
        metering.execute("update ledger.runs set status = 'finalized', finalized_at = now()")
        assert versions_in_use(metering)[0].finalized == ["2026-03"]
