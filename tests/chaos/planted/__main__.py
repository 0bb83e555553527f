"""Plants the bugs of ``bugs.tsv``, one at a time, and says which of them the tests catch.

``python -m tests.chaos.planted [unit|spark|touched|turn|all …] [--only PATTERN]``: a copy of the project gets
one bug. The test that caught it before runs there, then its other tests, and the copy gets its text back. A
bug is caught if a test fails (pytest's exit code 1). Before that, all these tests must pass without a bug.

``touched``: bugs in files that the last commit changed, at most sixty that unit tests catch and three others.
``turn``: a fourth of those that unit tests catch, so that four commits in a row try all. CI runs these two.
``python -m tests.chaos.planted mutants``: see ``mutants.py``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.planted import mutants
from tests.chaos.planted.catalogue import BUGS, Bug, read_rows, write_rows
from tests.chaos.planted.trial import (
    FAILED,
    ROOT,
    Outcome,
    copy_tree,
    in_copies,
    own_copy,
    planted,
    run_tests,
)

KINDS = ("unit", "spark", "touched", "turn", "all")
MOST_OF_UNIT, MOST_OF_SPARK = 60, 3
"""Bugs of a commit's files, two minutes of each kind: those that need Spark start a session each."""
TURNS = 4
"""Commits in a row that try all bugs that unit tests catch."""
_SECONDS = {True: 300.0, False: 900.0}
_Task = Bug | tuple[str, ...]
"""A bug, or tests that must pass without one."""


def main(words: Sequence[str] | None = None) -> int:
    """Run; the exit code is 1 if a bug is not caught."""
    given_words = list(sys.argv[1:] if words is None else words)
    if given_words[:1] == ["mutants"]:
        return mutants.main(given_words[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.planted")
    parser.add_argument("kinds", nargs="*", default=["all"], metavar="|".join(KINDS))
    parser.add_argument("--only", default="", help="only bugs in whose description this pattern is found")
    parser.add_argument(
        "--workers", type=int, default=2, help="copies in which bugs are tried at the same time"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the tests that caught them into the table"
    )
    given = parser.parse_args(given_words)
    if wrong := set(given.kinds) - set(KINDS):
        parser.error(f"{min(wrong)!r} is none of {', '.join(KINDS)}")
    bugs = [bug for bug in chosen(read_rows(Bug, BUGS), given.kinds) if re.search(given.only, bug.why)]
    if not bugs and given.only:
        parser.error(f"no bug of this kind has {given.only!r} in its description")
    return _tried_all(bugs, workers=given.workers, is_written=given.write)


def _tried_all(bugs: Sequence[Bug], *, workers: int, is_written: bool) -> int:
    """Try bugs, and in a copy beside them their tests without a bug."""
    whole = tuple(sorted({test for bug in bugs for test in first_tests(bug)}))
    tasks: list[_Task] = [whole, *bugs] if bugs else []
    seconds, wrong, caught = 0.0, "", 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = copy_tree(Path(folder))
        run_tests(tree, [*whole[:1]], _SECONDS[False], keeps_compiled=True)  # what most trials import
        for task, outcome in in_copies(tree, tasks, workers, _tried):
            seconds += outcome.seconds
            if isinstance(task, Bug):
                caught += _told(task, outcome, is_written=is_written)
            elif outcome.code:
                wrong = f"{outcome.output}\nwithout a bug the tests end with exit code {outcome.code}"
    print(f"{caught} of {len(bugs)} planted bugs caught, in {seconds:.0f} CPU s")  # noqa: T201
    if wrong:
        print(wrong)  # noqa: T201
        return 2
    return 0 if caught == len(bugs) else 1


def chosen(bugs: Sequence[Bug], kinds: Sequence[str]) -> list[Bug]:
    """The bugs of some of ``KINDS``."""
    count, files = last_commit() if {"touched", "turn"}.intersection(kinds) else (0, set[str]())
    unit = [bug for bug in bugs if bug.is_unit]
    some = unit[count % TURNS :: TURNS] if "turn" in kinds else []
    if "touched" in kinds:
        touched = [bug for bug in bugs if bug.file in files]
        some += _in_turn([bug for bug in touched if bug.is_unit], MOST_OF_UNIT, count)
        some += _in_turn([bug for bug in touched if not bug.is_unit], MOST_OF_SPARK, count)
    return [bug for bug in bugs if "all" in kinds or _kind(bug) in kinds or bug in some]


def _in_turn(bugs: Sequence[Bug], most: int, count: int) -> list[Bug]:
    """At most so many; where there are more, the next commit has the next ones."""
    first = count * most % max(1, len(bugs))
    return [*bugs[first:], *bugs[:first]][:most]


def _kind(bug: Bug) -> str:
    return "unit" if bug.is_unit else "spark"


def last_commit() -> tuple[int, set[str]]:
    """How many commits there are, and the files that the last one changed."""
    count = _git("rev-list", "--count", "HEAD")
    return int(count[0]) if count else 0, set(
        _git("show", "-m", "--first-parent", "--format=", "--name-only")
    )


def _git(*words: str) -> list[str]:
    git = ["git", *words]
    return subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def first_tests(bug: Bug) -> list[str]:
    """The test that caught a bug the last time; where there is none, all of its tests."""
    return [bug.caught_by] if bug.caught_by else bug.tests.split()


def _tried(task: _Task) -> tuple[_Task, Outcome]:
    tree = own_copy()
    if not isinstance(task, Bug):
        return task, run_tests(tree, task, 4 * _SECONDS[False])
    seconds = _SECONDS[task.is_unit]
    with planted(tree, task):
        outcome = run_tests(tree, first_tests(task), seconds)
        if outcome.code != FAILED and task.caught_by:
            outcome = run_tests(tree, task.tests.split(), seconds)
    return task, outcome


def _told(bug: Bug, outcome: Outcome, *, is_written: bool) -> bool:
    """Print a bug's line; whether it was caught."""
    is_caught = outcome.code == FAILED
    verdict = "caught" if is_caught else f"NOT CAUGHT (exit code {outcome.code})"
    by = f" ({outcome.first})" if is_caught else ""
    print(f"{verdict:12} {outcome.seconds:5.1f} CPU s  {bug.file}: {bug.why}{by}", flush=True)  # noqa: T201
    if is_written:
        rows = read_rows(Bug, BUGS)
        write_rows(Bug, [replace(row, caught_by=outcome.first) if row == bug else row for row in rows], BUGS)
    return is_caught


if __name__ == "__main__":
    sys.exit(main())
