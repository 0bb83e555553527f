"""The planted bugs fit the engine's sources, so that each is a bug of the engine as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.planted.bugs import BUGS, Bug

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.why)
def test_a_planted_bug_replaces_one_text_of_its_file(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text(encoding="utf-8").count(bug.old) == 1
    assert bug.old != bug.new
    for test in bug.tests.split():
        file, _, name = test.partition("::")
        assert (ROOT / file).exists()
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len({(bug.file, bug.old, bug.new) for bug in BUGS}) == len(BUGS) >= 60
    assert len({bug.why for bug in BUGS}) == len(BUGS)
