"""A deferred module is executed at its first use; modules of other names are imported at once."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

import pytest

from common.machine.deferred_imports import deferred

NAMES = ("heavy_one", "heavy_two", "plain_one")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules that note their execution in a file; one imports the others."""
    executed = tmp_path / "executed"
    note = f"open({str(executed)!r}, 'a').write(__name__ + ' ')\nANSWER = 42\n"
    (tmp_path / "heavy_one.py").write_text(note)
    (tmp_path / "heavy_two.py").write_text(note)
    (tmp_path / "plain_one.py").write_text(f"import heavy_one\nimport heavy_two\n{note}")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return executed


def test_only_what_is_used_is_executed(modules: Path) -> None:
    finders = list(sys.meta_path)
    with deferred("heavy_one", "heavy_two"):
        assert not gc.isenabled()
        plain = importlib.import_module("plain_one")
    assert gc.isenabled()
    assert sys.meta_path == finders
    assert modules.read_text() == "plain_one "
    assert plain.heavy_one.ANSWER == 42
    assert modules.read_text() == "plain_one heavy_one "


def test_a_module_that_is_missing_is_missing_at_once(modules: Path) -> None:
    """Libraries look whether an optional module can be imported."""
    with deferred("heavy_absent"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("heavy_absent")
    assert not modules.exists()
