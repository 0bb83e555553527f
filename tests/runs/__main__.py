"""Runs parts of the tests, and says what each part took.

``python -m tests.runs test|ci|shard-1|…|all|weigh|turn [--again] [--limit SECONDS [--leave-rest]] [words…]``

``test`` is each promise once, within a budget of CPU seconds. ``ci`` is what needs a browser or an index, or
a minute for one promise: each run of CI runs it. The long and drawn tests are cut into shards. ``all`` is
everything. ``weigh`` writes what the last runs measured into the tables of costs. ``turn`` prints the shards
whose turn it is, by the number of commits. With ``--again`` the tests that failed run once more without
others beside them; one that fails twice fails the run, one that passes then is listed as flaky. A test that
ends its worker fails the run at once: what was left never ran. With ``--limit`` tests that cannot begin in
time fail; with ``--leave-rest`` too they are listed, and a run fails only if none of its tests has passed.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.runs.shards import DEALT, SHARDS, TEST_CPU, commits, dearer, read_seconds, turn, write_seconds
from tests.support.run_cost import NOT_RUN, OVER_BUDGET, RunTest, read_table

ROOT = Path(__file__).parents[2]
# A worker that dies ends the run with a report: with another one in its place the rest would wait for ever.
_WORKERS = ("--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0")
CPU_BUDGET = 1_900
_TEST = ("-n", "2", *_WORKERS, "-m", "not long and not ci and not check", "--draws", "10", "--timeout", "600")
_BUDGET = ("--budget", str(CPU_BUDGET))
_CI = ("-n", "2", *_WORKERS, "-m", "ci", "--timeout", "600")
# Tests of processes wait a lot: a third worker needs what they leave of two cores.
_SHARD = ("-n", "3", *_WORKERS, "--optimize", "-m", "long or drawn", "--timeout", "900", "--shard")
_TESTS_FAILED = 1
_MOST_AGAIN = 20
"""If more tests fail, none runs again: that many are not flaky."""
_LAST_TEST_SECONDS = 300
_REPORT_SECONDS = 60
_WHOLE_RUN = 1_000
"""A run of `make test` has more tests; one with pytest's words for a few of them is not weighed."""


@dataclass
class Part:
    """One run of pytest, and what became of it."""

    name: str
    words: Sequence[str]
    root: Path = ROOT
    took: float = 0.0
    tests: Sequence[RunTest] = ()
    flaky: Sequence[str] = ()
    failed: Sequence[str] = ()
    left: Sequence[str] = ()
    is_over_budget: bool = False
    is_passed: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path:
        """Where pytest keeps what it knows of the run's tests."""
        return Path(".pytest_cache") if self.name == "test" else Path(".pytest_cache") / self.name

    def run(self, more: Sequence[str], *, again: bool, limit: float | None, leave_rest: bool = False) -> None:
        """Run the tests, and those that failed once more if asked to."""
        self.began = time.monotonic()
        shutil.rmtree(self.root / self.folder / "again", ignore_errors=True)
        code, self.tests = self._pytest(self.folder, [*self.words, *more], limit)
        if code > 0:  # a process that a signal has ended has a negative one
            self.is_over_budget, code = bool(code & OVER_BUDGET), code & ~OVER_BUDGET
        if leave_rest:
            self.left = [each.name for each in self.tests if each.outcome == NOT_RUN]
        ended = {"passed", "skipped"}
        failed = [each.name for each in self.tests if each.outcome not in ended]
        self.failed = [name for name in failed if name not in self.left]
        only_left = self.left and not self.failed and any(each.outcome == "passed" for each in self.tests)
        self.is_passed = code == 0 or (code == _TESTS_FAILED and bool(only_left))
        if again and code == _TESTS_FAILED and self.failed:
            self._run_again(limit)
        self.is_passed = self.is_passed and not self.is_over_budget
        self.took = time.monotonic() - self.began

    def _run_again(self, limit: float | None) -> None:
        once = [each.name for each in self.tests if each.outcome == "failed"]
        if len(once) > _MOST_AGAIN:
            print(f"{len(once)} tests failed: too many to run them once more", flush=True)  # noqa: T201
            return
        print(f"once more, without others: {len(once)} tests of {self.name} that failed", flush=True)  # noqa: T201
        draws = self.words[self.words.index("--draws") :][:2] if "--draws" in self.words else ()
        # One file after another: a module's fixtures are set up once.
        once.sort(key=lambda name: name.partition("::")[0])
        words = ["-n", "0", "--timeout", "900", *draws, *once]
        _, tests = self._pytest(self.folder / "again", words, limit) if once else (0, ())
        self.flaky = [each.name for each in tests if each.outcome == "passed"]
        self.failed = [name for name in self.failed if name not in self.flaky]
        self.is_passed = not self.failed

    def _pytest(
        self, folder: Path, words: Sequence[str], limit: float | None
    ) -> tuple[int, Sequence[RunTest]]:
        """Pytest's exit code, and its tests; it is told to end when the part's time is over."""
        left = None if limit is None else max(0.0, limit - (time.monotonic() - self.began))
        ends = 0 if folder.name == "again" else _LAST_TEST_SECONDS
        stop = [] if left is None else ["--stop-after", f"{max(0.0, left - ends):.0f}"]
        (self.root / folder / "run_cost.tsv").unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}", *stop, *words]
        process = subprocess.Popen(command, cwd=self.root)
        code = _wait(process, left)
        return code, read_table(self.root / folder / "run_cost.tsv")

    def lines(self) -> list[str]:
        """The line of the last report, and the names of what failed or is flaky."""
        result = "passed" if self.is_passed else "FAILED"
        spent = sum(each.seconds for each in self.tests)
        counts = f"{len(self.tests):>6}{len(self.flaky):>7}{len(self.failed):>8}"
        return [
            f"{self.name:10}{self.took / 60:>9.1f}{spent / 60:>11.1f}{counts}  {result}",
            *(["  more CPU seconds than its budget"] if self.is_over_budget else []),
            *(f"  twice as dear as the table says: {each}" for each in self._dearer()),
            *(f"  flaky, it passed when it ran once more: {name}" for name in self.flaky),
            *(f"  failed: {name}" for name in self.failed[:_MOST_AGAIN]),
            *(f"  left, no time to begin it: {name}" for name in self.left),
        ]

    def _dearer(self) -> list[str]:
        return dearer(_by_file(self.tests, "cpu"), read_seconds(TEST_CPU)) if self.name == "test" else []


def _by_file(tests: Sequence[RunTest], of: Literal["cpu", "seconds"]) -> dict[str, float]:
    found: dict[str, float] = {}
    for test in tests:
        file = test.name.partition("::")[0]
        found[file] = found.get(file, 0.0) + getattr(test, of)
    return found


def _wait(process: subprocess.Popen[bytes], left: float | None) -> int:
    """The exit code; after so many seconds the process is interrupted, so that it writes its report."""
    try:
        return process.wait(left)
    except subprocess.TimeoutExpired:
        print("The time of this part is over.", flush=True)  # noqa: T201
    except KeyboardInterrupt:
        process.wait()
        raise
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(_REPORT_SECONDS) or _TESTS_FAILED
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def parts(name: str) -> list[Part]:
    """The parts that a word of the command line means."""
    shards = [Part(f"shard-{number}", (*_SHARD, str(number))) for number in range(1, SHARDS + 1)]
    every = [Part("test", (*_TEST, *_BUDGET)), Part("ci", _CI), *shards]
    return every if name == "all" else [part for part in every if part.name == name]


def weigh(root: Path = ROOT) -> None:
    """Write what the last runs measured into the tables; files that did not run keep what they have."""
    known = {file: seconds for file, seconds in read_seconds().items() if (root / file).exists()}
    for part in parts("all"):
        tests = read_table(root / part.folder / "run_cost.tsv")
        if part.name.startswith("shard-"):
            known |= {file: spent for file, spent in _by_file(tests, "seconds").items() if file not in DEALT}
        elif part.name == "test" and len(tests) > _WHOLE_RUN:
            write_seconds(_by_file(tests, "cpu"), TEST_CPU)
    write_seconds(known)


def main(words: Sequence[str] | None = None) -> int:
    """Run; the exit code is 1 if a part has not passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.runs", allow_abbrev=False)
    names = [part.name for part in parts("all")]
    parser.add_argument("part", choices=(*names, "all", "weigh", "turn"))
    parser.add_argument("--again", action="store_true", help="run tests that failed once more")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="tests that cannot begin in time fail")
    parser.add_argument("--leave-rest", action="store_true", help="they do not fail, but are listed")
    given, more = parser.parse_known_args(words)
    if given.part == "weigh":
        weigh()
        return 0
    if given.part == "turn":
        print(*turn(commits()))  # noqa: T201
        return 0
    chosen = parts(given.part)
    try:
        for part in chosen:
            part.run(more, again=given.again, limit=given.limit, leave_rest=given.leave_rest)
    except KeyboardInterrupt:
        return 130
    print(f"\n{'part':10}{'minutes':>9}{'in tests':>11}{'tests':>6}{'flaky':>7}{'failed':>8}")  # noqa: T201
    print("\n".join(line for part in chosen for line in part.lines()))  # noqa: T201
    return 0 if all(part.is_passed for part in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
