"""Tries the mutants of ``mutants.tsv`` and says which of them the tests no longer catch.

``python -m tests.chaos.planted mutants [unit|spark] [--draw NUMBER] [--only PATTERN]``: each mutant is
planted in a copy of the project, and those tests run there that call its function, those beside its file
first; the test that caught it before is the first of all. A mutant that was caught before and is not now is
lost: the exit code is 1. One whose line is gone is told, and left.

``--draw`` tries no known one but adds mutants until there are so many, each by its number, and writes each
into the table as it ends: a run that was cut off goes on. ``--write`` writes what has changed of known ones.
``spark``: see ``warm.py``.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.chaos.planted import warm
from tests.chaos.planted.catalogue import read_rows, write_rows
from tests.chaos.planted.mutate import Mutant, draw
from tests.chaos.planted.reach import Reach, measure, read
from tests.chaos.planted.trial import (
    FAILED,
    HANGS,
    ROOT,
    Outcome,
    copy_tree,
    in_copies,
    own_copy,
    planted,
    run_tests,
)

MUTANTS = Path(__file__).with_name("mutants.tsv")
REACH = ROOT / ".pytest_cache" / "reach.json"
"""Who calls what, as the last run with ``--measure`` has found it."""
_WORDS = ("-x", "-m", "not long", "--draws", "25")
_GONE = "gone"
_MOST_TESTS, _MOST_SECONDS, _PATIENCE = 60, 10.0, 120.0
_Task = tuple[Mutant, tuple[str, ...]]


def main(words: Sequence[str]) -> int:
    """Run; the exit code is 1 if a mutant is lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.planted mutants")
    parser.add_argument("kind", nargs="?", default="unit", choices=("unit", "spark"))
    parser.add_argument("--draw", type=int, default=0, help="how many there are to be")
    parser.add_argument("--only", default="", help="only mutants in whose file this pattern is found")
    parser.add_argument(
        "--workers", type=int, default=2, help="copies in which they are tried at the same time"
    )
    parser.add_argument(
        "--measure", action="store_true", help="find out again which test calls what: minutes"
    )
    parser.add_argument("--write", action="store_true", help="write changed results into the table")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = copy_tree(Path(folder))
        known = [each for each in read_rows(Mutant, MUTANTS) if each.is_of_spark == (given.kind == "spark")]
        if given.kind == "spark":
            found = warm.tried(tree, [one for one in known if re.search(given.only, one.file)], given.draw)
        else:
            reach = read(REACH) if REACH.exists() and not given.measure else _measured(tree)
            new = drawn(reach, {one.seed for one in known}, given.draw)
            chosen = [one for one in (new if given.draw else known) if re.search(given.only, one.file)]
            tasks = [(one, tests_of(one, reach)) for one in chosen]
            # Compiles the modules, which each copy has then.
            run_tests(
                tree, sorted({test for _, found in tasks for test in found[:1]}), 3_600, keeps_compiled=True
            )
            found = in_copies(tree, tasks, given.workers, _tried)
        return told(found, is_written=given.write)


def _measured(tree: Path) -> Reach:
    REACH.parent.mkdir(exist_ok=True)
    return measure(tree, ["unit"], REACH, words=("-m", "not long", "--draws", "25"))


def drawn(reach: Reach, taken: set[str], number: int) -> Iterator[Mutant]:
    """The mutants of the numbers that are not taken, up to a number."""
    files: dict[str, set[str]] = {}
    for name in reach.callers:
        file, _, function = name.partition("::")
        if file.endswith(".py") and not function.startswith("<"):  # a template calls, too
            files.setdefault(file, {""}).add(function)
    listed = [(file, frozenset(names)) for file, names in sorted(files.items()) if (ROOT / file).exists()]
    return (draw(seed, listed, ROOT) for seed in map(str, range(1, number + 1)) if seed not in taken)


def tests_of(mutant: Mutant, reach: Reach) -> tuple[str, ...]:
    """The tests that may catch a mutant: as many as a trial has time for."""
    found, seconds = [], 0.0
    for test in reach.tests_of(mutant.file, mutant.function):
        seconds += reach.seconds[test]
        if found and (seconds > _MOST_SECONDS or len(found) == _MOST_TESTS):
            break
        found.append(test)
    return tuple(found)


def _tried(task: _Task) -> tuple[Mutant, str]:
    mutant, tests = task
    tree = own_copy()
    try:
        mutant.planted_in((tree / mutant.file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return mutant, _GONE
    with planted(tree, mutant):
        if is_there(mutant.caught_by, tree):
            verdict = _verdict(run_tests(tree, [mutant.caught_by], _PATIENCE, words=_WORDS))
            if verdict:
                return mutant, verdict
        return mutant, _verdict(run_tests(tree, tests, _PATIENCE, words=_WORDS)) if tests else ""


def is_there(test: str, tree: Path) -> bool:
    """Whether there is such a test."""
    file, _, name = test.partition("::")
    place = tree / "tests" / file
    return bool(name) and place.exists() and f"def {name}(" in place.read_text(encoding="utf-8")


def _verdict(outcome: Outcome) -> str:
    """What caught a mutant: a test, ``import`` or ``hangs``; empty if nothing did."""
    if outcome.code == FAILED and outcome.first:
        return outcome.first
    return "" if outcome.code in {0, 5} else "hangs" if outcome.code == HANGS else "import"


def told(found: Iterator[tuple[Mutant, str]], *, is_written: bool) -> int:
    """Print and write results as they come; 1 if a mutant is lost."""
    counts = Counter({"caught": 0, "survived": 0, "lost": 0, _GONE: 0})
    for mutant, verdict in found:
        rows = {each.seed: each for each in read_rows(Mutant, MUTANTS)}
        former = rows[mutant.seed].caught_by if mutant.seed in rows else None
        state = _GONE if verdict == _GONE else "caught" if verdict else "lost" if former else "survived"
        counts[state] += 1
        if former is None or state in {"lost", _GONE} or bool(former) != bool(verdict):
            by = verdict or former or "no test"
            place = f"{mutant.file}:{mutant.line} {mutant.function}"
            print(f"{state:9} {mutant.seed:>5} {place}: {mutant.why} ({by})", flush=True)  # noqa: T201
        if former is None or (is_written and state != _GONE):
            rows[mutant.seed] = replace(mutant, caught_by=verdict)
            write_rows(Mutant, sorted(rows.values(), key=lambda one: one.place), MUTANTS)
    print(", ".join(f"{count} {name}" for name, count in counts.items()))  # noqa: T201
    return 1 if counts["lost"] else 0
