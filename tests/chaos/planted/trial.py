"""A copy of the project, and pytest in a process of its own for each trial: libraries are imported once."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import confluent_kafka  # noqa: F401  # as the next ones: imported once, before each trial's process is forked
import deltalake  # noqa: F401
import duckdb  # noqa: F401
import hypothesis  # noqa: F401
import jsonschema  # noqa: F401  # its grammars take longer than many a trial
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet  # noqa: F401
import pydantic_settings  # noqa: F401
import pyspark.sql.streaming  # noqa: F401
import pytest
import rich.table  # noqa: F401
import sqlglot  # noqa: F401
import typer  # noqa: F401

ROOT = Path(__file__).parents[3]
FAILED, HANGS = 1, -1
OURS = frozenset(
    {"common", "bronze", "silver", "gold", "orchestration", "distribution", "medallion", "tests"}
)
_WORDS = (
    *("-q", "-p", "no:xdist", "-p", "no:cacheprovider"),
    # Hypothesis is imported already: its own assertions are not rewritten.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
_FIRST, _OUTPUT = "first", "output"


class Change(Protocol):
    """Something that is planted in a file."""

    @property
    def file(self) -> str:
        """The file."""

    def planted_in(self, text: str) -> str:
        """The file's text with it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended.

    Attributes:
        code: Pytest's exit code; ``HANGS`` if it did not end in its time.
        first: The first test that failed, as ``function_of`` writes it; empty if none did.
        seconds: What it took of the processors.
        output: Its last lines.
    """

    code: int
    first: str
    seconds: float
    output: str


class _FirstFailure:
    """Writes down the first test that fails."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(function_of(report.nodeid), encoding="utf-8")


def function_of(test: str) -> str:
    """A test's name from the folder of the tests on, without its parameters."""
    return test.partition("[")[0].removeprefix("tests/")


def copy_tree(folder: Path) -> Path:
    """A copy of the project's files as they are now, without those that git ignores."""
    tree = folder / "tree"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    return tree


@contextmanager
def planted(tree: Path, change: Change) -> Iterator[None]:
    """The copy has the change in the block."""
    file = tree / change.file
    text, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(change.planted_in(text), encoding="utf-8")
    # Compiled code is found by the file's size and second: not both may be those of the unchanged file.
    os.utime(file, (0, 0))
    try:
        yield
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def run_tests(
    tree: Path,
    tests: Sequence[str],
    seconds: float,
    *,
    words: Sequence[str] = ("-x",),
    plugins: Sequence[object] = (),
    keeps_compiled: bool = False,
) -> Outcome:
    """Run tests of a copy, in a child that has the libraries imported and none of the project's modules.

    Args:
        tree: The copy.
        tests: The tests, from the folder of the tests on.
        seconds: After these its processes are killed.
        words: Options of pytest.
        plugins: Plugins of pytest.
        keeps_compiled: Write compiled modules into the copy: only where it has no bug.
    """
    first, output = tree.parent / _FIRST, tree.parent / _OUTPUT
    first.unlink(missing_ok=True)
    end = time.monotonic() + seconds
    gc.freeze()
    child = os.fork()
    if not child:
        code = 70
        try:
            _enter(tree, output)
            sys.dont_write_bytecode = not keeps_compiled
            given = [*_WORDS, *words, *(f"tests/{test}" for test in tests)]
            code = int(pytest.main(given, [_FirstFailure(first), *plugins]))
        except BaseException:  # noqa: BLE001  # whatever it is, it must not go on as the parent
            traceback.print_exc()
        finally:
            os._exit(code)
    ended = os.wait4(child, os.WNOHANG)
    while not ended[0] and time.monotonic() < end:
        time.sleep(0.02)
        ended = os.wait4(child, os.WNOHANG)
    with suppress(ProcessLookupError):  # also what is left of its processes
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(ended[1]) if ended[0] else HANGS
    usage = (ended if ended[0] else os.wait4(child, 0))[2]
    failed = first.read_text(encoding="utf-8") if first.exists() else ""
    text = output.read_text(encoding="utf-8", errors="replace")
    return Outcome(code, failed, usage.ru_utime + usage.ru_stime, text[-3000:])


_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_own: list[Path] = []
"""The copy of a process of ``in_copies``."""


def in_copies(
    tree: Path, tasks: Sequence[_Task], workers: int, attempt: Callable[[_Task], _Result]
) -> Iterator[_Result]:
    """The results of trials as they end; several run at the same time, each in a copy of its own."""
    if tasks:
        fork = multiprocessing.get_context("fork")
        with fork.Pool(min(workers, len(tasks)), _open_copy, [tree]) as pool:
            yield from pool.imap_unordered(attempt, tasks)


def own_copy() -> Path:
    """The copy of the process that makes a trial of ``in_copies``."""
    return _own[0]


def _open_copy(tree: Path) -> None:
    _own[:] = [Path(tempfile.mkdtemp(dir=tree.parent)) / "tree"]
    shutil.copytree(tree, _own[0])


def _enter(tree: Path, output: Path) -> None:
    """Make this process, a child, one of the copy."""
    os.setsid()
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(tree)
    os.environ |= {"PYTHONPATH": str(tree)}
    sys.path[:] = [str(tree), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [each for each in sys.modules if each.partition(".")[0] in OURS]:
        del sys.modules[name]
