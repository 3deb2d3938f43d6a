"""The dbt project is parsed once for all databases, and each is named in what it gets."""

import pytest

from resources.manifest import manifest_for, manifest_path


@pytest.mark.usefixtures("tally_home")
def test_the_project_is_parsed_once_for_all_databases() -> None:
    """Whoever asks for a database gets every relation in it; what was parsed is kept, and names none."""
    kept = manifest_path().with_name("manifest.pickle")
    written_at = kept.stat().st_mtime_ns
    for database in ("one", "another-one"):
        parsed = manifest_for(f"postgresql://somebody:secret@host/{database}")
        relations = [*parsed.nodes.values(), *parsed.sources.values()]
        assert {each.database for each in relations} == {database}
        named = [each.relation_name for each in relations if each.relation_name]
        assert len(named) > 30
        assert [name for name in named if not name.startswith(f'"{database}".')] == []
    assert kept.stat().st_mtime_ns == written_at
    assert b"secret" not in kept.read_bytes()
