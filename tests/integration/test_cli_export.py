"""tally export on the command line: where files lie, and what it refuses."""

from pathlib import Path

from tests.integration.closing import House
from tests.integration.command_line import Done, environment, run


def export(house: House, home: Path, *arguments: str | Path, **settings: str) -> Done:
    """Export March into ``home``/handed."""
    variables = environment(
        TALLY_HOME=str(home), TALLY_REPORTING_URL=house.reporting_url, TALLY_METERING_URL=house.metering_url, **settings
    )
    return run(variables, "export", "2026-03", "--to", home / "handed", *arguments)


def test_each_bill_is_a_file_and_its_path_is_told(house: House, home: Path) -> None:
    """The same export again replaces the folder; one project is written beside the others."""
    folder = home / "handed/2026-03/html/os-prod-eu1"
    done = export(house, home, "--format", "html")
    assert (done.status, done.out.splitlines()) == (0, [str(folder / "p-1.html"), str(folder / "p-2.html")])
    (folder / "p-1.html").write_text("spoilt", encoding="utf-8")
    (folder / "stale.html").touch()
    one = export(house, home, "--format", "html", "--project", "p-1")
    assert one.out.splitlines() == [str(folder / "p-1.html")]
    assert "Draft." in (folder / "p-1.html").read_text(encoding="utf-8")
    assert (folder / "stale.html").exists()
    export(house, home, "--format", "html")
    assert sorted(path.name for path in folder.iterdir()) == ["p-1.html", "p-2.html"]


def test_focus_needs_the_name_of_a_provider(house: House, home: Path) -> None:
    """Of a month that is not finalized nothing is invoiced; one billed project has a folder of its own."""
    refused = export(house, home, "--format", "focus-csv")
    assert (refused.status, refused.err) == (
        1,
        "tally: FOCUS names who provides the services: set TALLY_PROVIDER_NAME\n",
    )
    done = export(house, home, "--format", "focus-csv", "--project", "p-2", TALLY_PROVIDER_NAME="Example Cloud")
    (path,) = done.out.splitlines()
    assert path == str(home / "handed/2026-03/focus-csv/os-prod-eu1/p-2/focus-2026-03.csv")
    header, *lines = Path(path).read_text(encoding="utf-8").splitlines()
    assert {line.split(",")[header.split(",").index("BillingAccountId")] for line in lines} == {"os-prod-eu1/p-2"}
