"""The planted bugs fit the engine, each part of it has some, and the runner tells what catches them."""

from __future__ import annotations

import ast
import gc
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

from common.declare import Bronze, Gold, Publish
from orchestration.cli.main import app
from tests.chaos.planted import __main__ as runner
from tests.chaos.planted.catalogue import BUGS, Bug, read_rows, write_rows
from tests.chaos.planted.mutants import MUTANTS, is_there
from tests.chaos.planted.mutate import Mutant, mutants_of
from tests.chaos.planted.trial import FAILED, HANGS, planted, run_tests
from tests.chaos.planted.warm import patched

ROOT = Path(__file__).parents[2]
ALL = read_rows(Bug, BUGS)
LEAST, LEAST_OF_A_PART = 250, 2
UNTRIED = 24
"""Bugs of tests with Spark that no run has tried since they are a table."""


def promises() -> list[str]:
    """The rows of the table of promises."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, table = text.partition("\n## Promises and their tests\n")
    return re.findall(r"^\| (.+?) \| `tests/", table.partition("\n## ")[0], re.MULTILINE)


def parts() -> Iterator[str]:
    """The kinds of gold, sources, sinks and commands."""
    kinds = (*get_args(Gold), *get_args(Bronze), *get_args(get_type_hints(Publish)["to"]))
    yield from (kind.__name__ for kind in kinds)
    yield from commands(typer.main.get_command(app), "medallion")


def commands(command: Any, name: str) -> Iterator[str]:
    """The commands below one, each with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name
    for word, one in (below or {}).items():
        yield from commands(one, f"{name} {word}")


def test_a_planted_bug_replaces_one_text_of_its_file_and_the_test_that_caught_it_is_there() -> None:
    for bug in ALL:
        bug.planted_in((ROOT / bug.file).read_text(encoding="utf-8"))
    untried = [bug for bug in ALL if not is_there(bug.caught_by, ROOT)]
    assert [bug.why for bug in untried if bug.is_unit or bug.caught_by] == [], "run them with --write"
    assert len(untried) <= UNTRIED
    tests = {test.partition("::")[0] for bug in ALL for test in bug.tests.split()}
    assert sorted(test for test in tests if not (ROOT / "tests" / test).exists()) == []


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len({(bug.file, bug.old, bug.new) for bug in ALL}) == len(ALL) >= LEAST
    assert len({bug.why for bug in ALL}) == len(ALL)


def test_each_kind_of_gold_source_sink_and_command_has_two_and_each_promise_one() -> None:
    found, rows = Counter(part for bug in ALL for part in bug.parts), promises()
    assert {part: found[part] for part in parts() if found[part] < LEAST_OF_A_PART} == {}
    begins = found.keys() - set(parts())
    assert [begin for begin in begins if sum(row.startswith(begin) for row in rows) != 1] == []
    assert [row for row in rows if not any(row.startswith(begin) for begin in begins)] == []


def test_each_wing_has_some() -> None:
    found = Counter(re.sub(r"^(orchestration/\w+|\w+)/.*", r"\1", bug.file) for bug in ALL)
    folders = [
        *ROOT.glob("orchestration/*/"),
        *(ROOT / name for name in ("common", "bronze", "silver", "gold")),
    ]
    wings = [path.relative_to(ROOT).as_posix() for path in folders if (path / "__init__.py").exists()]
    assert {wing: found[wing] for wing in wings if found[wing] < LEAST_OF_A_PART} == {}


def test_of_the_bugs_in_a_commits_files_some_are_tried_in_turn_and_of_the_others_a_fourth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unit = [replace(ALL[0], why=f"unit {number}") for number in range(70)]
    spark = [replace(ALL[0], why=f"spark {number}", tests="spark/gold") for number in range(5)]
    far = [replace(one, file="elsewhere.py") for one in (*unit, *spark)]
    touched, turn = [], []
    for count in range(runner.TURNS):
        monkeypatch.setattr(runner, "last_commit", lambda count=count: (count, {ALL[0].file}))
        found = runner.chosen([*unit, *spark, *far], ["touched"])
        assert [sum(one in kind for one in found) for kind in (unit, spark, far)] == [60, 3, 0]
        touched += found
        turn.append(runner.chosen(far, ["turn"]))
        both = runner.chosen([*unit, *spark, *far], ["touched", "turn"])
        assert set(both) == {*found, *runner.chosen([*unit, *far], ["turn"])}
    assert set(touched) == {*unit, *spark}
    assert sorted(one.why for some in turn for one in some) == sorted(one.why for one in unit)
    assert max(map(len, turn)) < len(unit) / 3
    assert runner.chosen([*unit, *spark, *far], ["unit"]) == [*unit, *far[:70]]


def test_a_table_keeps_the_ends_of_lines_and_blanks_of_its_texts(tmp_path: Path) -> None:
    bug = Bug(
        "does it", "", "a.py", "    if x:\n        y()\n", "    pass\n", "unit", "unit/test_a.py::test_b"
    )
    write_rows(Bug, [bug, bug], tmp_path / "bugs.tsv")
    assert read_rows(Bug, tmp_path / "bugs.tsv") == [bug, bug]


SOURCE = """
SIZE = 3

class Shop:
    def is_open(self, hour: int = 8) -> bool:
        try:
            self.look()
        except KeyError:
            return not self.closed
        return hour >= SIZE and hour not in self.breaks
"""


def test_each_kind_of_change_is_drawn_and_found_again_where_lines_have_moved() -> None:
    found = mutants_of("shop.py", SOURCE, "1")
    assert {(one.kind, one.function, one.new) for one in found} == {
        ("constant", "", "SIZE = 4"),
        ("constant", "", "def is_open(self, hour: int = 9) -> bool:"),
        ("call", "Shop.is_open", "pass"),
        ("except", "Shop.is_open", "except Exception:"),
        ("connective", "Shop.is_open", "return self.closed"),
        ("comparison", "Shop.is_open", "return hour > SIZE and hour not in self.breaks"),
        ("comparison", "Shop.is_open", "return hour >= SIZE and hour in self.breaks"),
        ("connective", "Shop.is_open", "return hour >= SIZE or hour not in self.breaks"),
    }
    for one in found:
        moved = one.planted_in(f"import os\n{SOURCE}")
        assert ast.parse(moved)
        assert [line.strip() for line in moved.split("\n")].count(one.new) == 1
    with pytest.raises(ValueError, match="no such line any more"):
        found[0].planted_in(SOURCE.replace(found[0].old, "SIZE = 5"))


def test_a_function_that_was_loaded_before_the_tests_gets_a_mutants_code_too(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def is_open(hour):\n    return hour >= 8\n")
    is_open = runpy.run_path(str(tmp_path / "shop.py"))["is_open"]
    gc.freeze()
    mutants = mutants_of("shop.py", (tmp_path / "shop.py").read_text(), "1")
    (mutant,) = [one for one in mutants if one.kind == "comparison"]
    with patched(tmp_path, mutant):
        assert not is_open(8)
    assert is_open(8)


def test_the_mutants_are_drawn_once_each() -> None:
    drawn = read_rows(Mutant, MUTANTS)
    assert [one.seed for one in drawn] == [one.seed for one in sorted(drawn, key=lambda one: one.place)]
    assert len({one.seed for one in drawn}) == len(drawn) >= 177


@pytest.mark.parametrize(
    ("new", "code", "first"),
    [("1", 0, ""), ("2", FAILED, "unit/test_shop.py::test_it"), ("1\nwhile True: pass", HANGS, "")],
)
def test_a_trial_tells_which_test_fails_or_that_it_hangs(
    tmp_path: Path, new: str, code: int, first: str
) -> None:
    tree = tmp_path / "tree"
    (tree / "tests" / "unit").mkdir(parents=True)
    (tree / "shop.py").write_text("price = 0\n")
    (tree / "tests" / "unit" / "test_shop.py").write_text(
        "def test_it():\n    import shop\n    assert shop.price < 2\n"
    )
    bug = Bug("costs more", "", "shop.py", "price = 0", f"price = {new}", "unit")
    with planted(tree, bug):
        outcome = run_tests(tree, bug.tests.split(), 3)
    assert (outcome.code, outcome.first) == (code, first)
    assert (tree / "shop.py").read_text() == "price = 0\n"
