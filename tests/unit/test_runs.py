"""Every long test is in one shard; what fails runs once more aloud, and fails the run if it fails again."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs.__main__ import _WORKERS, Part, parts, weigh
from tests.runs.shards import (
    DEALT,
    NEW_FILE_SECONDS,
    SHARDS,
    commits,
    dearer,
    in_turn,
    read_seconds,
    shards_of,
    turn,
    write_seconds,
)

ROOT = Path(__file__).parents[2]
_OTHERS = re.compile(r"pytest\.mark\.(long|ci|check)\b")
"""Marks of tests that ``make test`` leaves out."""
MINUTES = 18
WORKERS = 3


def test_each_shard_has_the_same_work_and_less_than_its_time() -> None:
    seconds = read_seconds()
    loads = [0.0] * SHARDS
    for file, shard in shards_of([]).items():
        loads[shard - 1] += seconds[file]
    assert max(loads) - min(loads) <= 0.1 * max(loads)
    assert max(loads) <= MINUTES * 60 * WORKERS


def test_nearly_every_file_with_long_tests_has_a_weight() -> None:
    """A file that the table lacks counts as a minute, and the shards are no longer alike."""
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")}
    long = {file for file, text in texts.items() if re.search(r"\bmark\.long\b|^@given", text, re.MULTILINE)}
    without = {file.relative_to(ROOT).as_posix() for file in long} - read_seconds().keys() - DEALT
    assert len(without) <= 10, f"run the shards and `python -m tests.runs weigh`: {sorted(without)}"


def test_a_new_file_goes_to_the_lightest_shard_and_moves_no_other() -> None:
    seconds = {"a": 50.0, "b": 40.0, "c": 30.0, "d": 1.0}
    before = shards_of([], seconds, shards=2)
    assert before == {"a": 1, "b": 2, "c": 2, "d": 1}
    assert shards_of(["z", "a", "y"], seconds, shards=2) == before | {"y": 1, "z": 2}
    assert seconds["a"] + seconds["d"] + NEW_FILE_SECONDS > seconds["b"] + seconds["c"]


def test_six_commits_in_a_row_run_all_shards() -> None:
    for begin in range(SHARDS):
        assert {shard for commits in range(begin, begin + 6) for shard in turn(commits)} == set(
            range(1, SHARDS + 1)
        )


def test_cases_in_turn_are_all_of_them_after_some_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for number in (0, 6, 12):
        monkeypatch.setattr("tests.runs.shards.commits", lambda number=number: number)
        seen += in_turn(range(10), 3)
    assert sorted(seen) == list(range(10))
    monkeypatch.setenv("TESTS_EVERY", "1")
    assert in_turn(range(10), 3) == range(10)
    assert commits() > 0


def test_a_file_that_costs_twice_what_the_table_says_is_named() -> None:
    known = {"tests/a.py": 10.0, "tests/b.py": 10.0, "tests/c.py": 1.0}
    measured = {"tests/a.py": 19.0, "tests/b.py": 21.0, "tests/c.py": 5.0, "tests/new.py": 30.0}
    assert dearer(measured, known) == ["tests/new.py: 0 -> 30 CPU s", "tests/b.py: 10 -> 21 CPU s"]


def test_each_promise_has_a_test_in_make_test_or_says_why_ci_alone_proves_it() -> None:
    """At most ten of them are CI's alone."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Promises and their tests")[2].partition("\n## ")[0]
    promises = [line for line in table.splitlines() if re.search(r"`tests/[^`]+\.py`", line)]
    assert len(promises) > 70
    of_ci = [line for line in promises if "; CI: " in line]
    assert len(of_ci) <= 10
    without = [line for line in promises if not any(map(is_short, re.findall(r"`(tests/[^`]+\.py)`", line)))]
    assert without == of_ci


def is_short(file: str) -> bool:
    """Whether ``make test`` runs a test of the file, by the marks that stand there."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    of_module = [
        ast.unparse(one.value)
        for one in body
        if isinstance(one, ast.Assign) and "pytestmark" in ast.unparse(one)
    ]
    tests = [one for one in body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
    marks = [[ast.unparse(mark) for mark in test.decorator_list] for test in tests]
    return not any(map(_OTHERS.search, of_module)) and any(
        not any(map(_OTHERS.fullmatch, one)) for one in marks
    )


@pytest.mark.long
def test_every_long_test_is_in_exactly_one_shard() -> None:
    """By what pytest itself collects, of all and of one shard."""

    def collected(*words: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *words, "-m", "long or drawn"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if line.startswith("tests/")]

    every = collected()
    found = shards_of(test.partition("::")[0] for test in every)
    assert set(found.values()) == set(range(1, SHARDS + 1))
    dealt = [test for test in every if test.partition("::")[0] in DEALT]
    assert dealt
    assert not {test.partition("::")[0] for test in dealt} & found.keys()
    of_the_second = [test for test in dealt if 20 <= int(test.rpartition("[")[2][:-1]) < 40]
    assert 0 < len(of_the_second) <= len(dealt) / SHARDS
    assert sorted(collected("--shard", "2")) == sorted(
        [*of_the_second, *(test for test in every if found.get(test.partition("::")[0]) == 2)]
    )


FLAKY = """
from pathlib import Path
import pytest

def test_passes(): pass

def test_is_flaky():
    mark = Path("mark")
    failed_before, _ = mark.exists(), mark.touch()
    assert failed_before

@pytest.mark.skipif(Path("mend").exists(), reason="mended")
def test_fails_twice(): assert False
"""


def project(folder: Path) -> Path:
    """A project with three tests that is run with the cost and the options of this one's."""
    (folder / "tests" / "unit").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["long: long", "drawn: drawn"]\n'
    )
    (folder / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.run_cost import RunCost\n"
        "from tests.runs.time_left import add_stop_after as pytest_addoption, fail_without_time\n"
        "def pytest_runtest_setup(item): fail_without_time(item)\n"
        "def pytest_configure(config): config.pluginmanager.register(RunCost(config), 'run_cost')\n"
    )
    (folder / "tests" / "unit" / "test_some.py").write_text(FLAKY)
    return folder


def run(folder: Path, *, limit: float | None = None, leave_rest: bool = False) -> Part:
    part = Part("shard-1", ("-p", "no:hypothesispytest"), folder)
    part.run([], again=True, limit=limit, leave_rest=leave_rest)
    return part


@pytest.mark.long
def test_what_fails_twice_fails_the_run_and_what_passes_then_is_listed(tmp_path: Path) -> None:
    folder = project(tmp_path)
    part = run(folder)
    assert not part.is_passed
    assert part.failed == ["tests/unit/test_some.py::test_fails_twice"]
    assert part.flaky == ["tests/unit/test_some.py::test_is_flaky"]
    assert part.lines()[0].split()[3:] == ["3", "1", "1", "FAILED"]
    assert "flaky, it passed when it ran once more: tests/unit/test_some.py::test_is_flaky" in part.lines()[1]

    (folder / "mend").touch()
    (folder / "mark").unlink()
    part = run(folder)
    assert (part.is_passed, part.failed, len(part.flaky)) == (True, [], 1)


@pytest.mark.long
def test_tests_without_time_fail_the_run(tmp_path: Path) -> None:
    part = run(project(tmp_path), limit=30)
    assert not part.is_passed
    assert (len(part.failed), part.flaky) == (3, [])


SLOW = """
from pathlib import Path
import time

def test_is_flaky():
    mark = Path("mark")
    failed_before, _ = mark.exists(), mark.touch()
    assert failed_before

def test_takes_all_the_time(): time.sleep(6)

def test_has_no_time_left(): assert False
"""


@pytest.mark.long
def test_tests_without_time_are_listed_where_the_rest_may_be_left(tmp_path: Path) -> None:
    """What has failed runs once more, though no further test would begin in what is left of the time."""
    folder = project(tmp_path)
    (folder / "tests" / "unit" / "test_some.py").write_text(SLOW)
    left = ["tests/unit/test_some.py::test_has_no_time_left"]
    part = run(folder, limit=305, leave_rest=True)
    assert (part.is_passed, part.failed, part.left) == (True, [], left)
    assert part.flaky == ["tests/unit/test_some.py::test_is_flaky"]
    assert part.lines()[2:] == [f"  left, no time to begin it: {left[0]}"]

    assert run(folder, limit=305).failed == left

    (folder / "tests" / "unit" / "test_some.py").write_text(FLAKY)
    (folder / "mark").unlink()
    part = run(folder, limit=30, leave_rest=True)
    assert (part.is_passed, part.failed, len(part.left)) == (False, [], 3), "nothing has passed"


@pytest.mark.long
def test_a_test_that_ends_its_worker_fails_the_run_whatever_it_does_alone(tmp_path: Path) -> None:
    """The tests that were left never ran, so passing the second time proves nothing."""
    folder = project(tmp_path)
    ends = "import os\nfrom pathlib import Path\n\ndef test_ends():\n    mark = Path('ended')\n"
    ends += "    if not mark.exists():\n        mark.touch()\n        os._exit(1)\n"
    (folder / "tests" / "unit" / "test_some.py").write_text(ends)
    part = Part("shard-1", ("-p", "no:hypothesispytest", "-n", "2", *_WORKERS), folder)
    part.run([], again=True, limit=None)
    assert not part.is_passed
    assert part.failed == ["tests/unit/test_some.py::test_ends"]


def test_what_was_measured_replaces_the_weight_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "seconds.tsv"
    table.write_text("# a comment\n10\ttests/a.py\n20\ttests/b.py\n30\ttests/gone.py\n")
    monkeypatch.setattr(read_seconds, "__defaults__", (table,))
    monkeypatch.setattr(write_seconds, "__defaults__", (table,))
    (tmp_path / "tests").mkdir()
    for name in "ab":
        (tmp_path / "tests" / f"{name}.py").touch()
    cost = tmp_path / parts("shard-2")[0].folder / "run_cost.tsv"
    cost.parent.mkdir(parents=True)
    cost.write_text(
        "cpu_s\tseconds\toutcome\ttest\n1\t4\tpassed\ttests/b.py::x\n1\t3\tpassed\ttests/b.py::y[1]\n"
    )
    weigh(tmp_path)
    assert table.read_text() == "# a comment\n10\ttests/a.py\n7\ttests/b.py\n"
