"""Which platforms can be reconciled: those whose provider has an adapter."""

from importlib import import_module
from pathlib import Path

import pytest

from tally.services.adapters import adapters


def test_a_provider_with_a_module_reconciliation_has_an_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have none, and nothing has to be registered."""
    for name in ("nimbus", "stratus"):
        (tmp_path / "made_up_providers" / name).mkdir(parents=True)
        (tmp_path / "made_up_providers" / name / "__init__.py").touch()
    (tmp_path / "made_up_providers" / "__init__.py").touch()
    module = tmp_path / "made_up_providers" / "nimbus" / "reconciliation.py"
    module.write_text("def adapter(cloud):\n    return f'the adapter of {cloud}'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = adapters(import_module("made_up_providers"))
    assert {platform: factory("c") for platform, factory in found.items()} == {"nimbus": "the adapter of c"}


def test_the_adapters_of_tally_are_found() -> None:
    """Each is a function from the name of a cloud."""
    assert all(callable(factory) for factory in adapters().values())
