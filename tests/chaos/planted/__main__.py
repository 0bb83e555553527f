"""Plants the bugs of ``bugs.py``, one at a time, and says which of them the tests catch.

``python -m tests.chaos.planted [unit|spark|all] [--only PATTERN]``: a copy of the project gets one bug,
the bug's tests run there, and the copy gets its text back. A bug is caught if a test fails (pytest's exit
code 1). Before that, all these tests must pass without a bug.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import deltalake  # noqa: F401  # as the next ones: imported once, before each bug's process is forked
import duckdb  # noqa: F401
import pyarrow.fs
import pyarrow.parquet  # noqa: F401
import pydantic_settings  # noqa: F401
import pyspark.sql.streaming  # noqa: F401
import pytest

from tests.chaos.planted.bugs import BUGS, Bug

ROOT = Path(__file__).parents[3]
_OURS = {"common", "bronze", "silver", "gold", "orchestration", "tests"}
_SECONDS = {"unit": 300, "spark": 600}
_FAILED = 1


def planted(copy: Path, bug: Bug) -> str:
    """Plant a bug; returns the file's former text.

    Raises:
        ValueError: The text occurs not once in the file.
    """
    file = copy / bug.file
    text = file.read_text(encoding="utf-8")
    if text.count(bug.old) != 1 or bug.old == bug.new:
        raise ValueError(f"{bug.why}: {bug.file} has the text {text.count(bug.old)} times: {bug.old}")
    file.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
    return text


def main(words: Sequence[str] | None = None) -> int:
    """Run; the exit code is 1 if a bug is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.planted")
    parser.add_argument("kind", nargs="?", default="all", choices=("unit", "spark", "all"))
    parser.add_argument("--only", default="", help="only bugs in whose description this pattern is found")
    given = parser.parse_args(words)
    bugs = [bug for bug in BUGS if given.kind in {bug.kind, "all"} and re.search(given.only, bug.why)]
    if not bugs:
        parser.error(f"no bug of this kind has {given.only!r} in its description")
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder) / "tree"
        _copy_tree(copy)
        if (code := _run(copy, sorted({test for bug in bugs for test in bug.tests.split()}), bugs)) != 0:
            print(f"without a bug the tests end with exit code {code}")  # noqa: T201
            return 2
        missed = list(_missed(copy, bugs))
    caught = len(bugs) - len(missed)
    print(f"{caught} of {len(bugs)} planted bugs caught ({100 * caught / max(1, len(bugs)):.1f} %)")  # noqa: T201
    return 1 if missed else 0


def _missed(copy: Path, bugs: Sequence[Bug]) -> Iterator[Bug]:
    for number, bug in enumerate(bugs, 1):
        began = time.monotonic()
        before = planted(copy, bug)
        try:
            code = _run(copy, bug.tests.split(), [bug])
        finally:
            (copy / bug.file).write_text(before, encoding="utf-8")
        verdict = "caught" if code == _FAILED else f"NOT CAUGHT (exit code {code})"
        line = f"{number:3} {verdict:12} {time.monotonic() - began:5.1f} s  {bug.file}: {bug.why}"
        print(line, flush=True)  # noqa: T201
        if not verdict.startswith("caught"):
            yield bug


def _run(copy: Path, tests: Sequence[str], bugs: Sequence[Bug]) -> int | None:
    """Pytest's exit code; None if it does not end."""
    # A child has the libraries imported, and none of the engine's modules.
    child = os.fork()
    if not child:
        code = 70
        try:
            code = _run_pytest(copy, tests, copy.parent / "output")
        finally:
            os._exit(code)
    limit = time.monotonic() + sum(_SECONDS[bug.kind] for bug in bugs)
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > limit:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(ended[1])
    if len(bugs) != 1 and code:
        print((copy.parent / "output").read_text()[-3000:])  # noqa: T201
    return code


def _run_pytest(copy: Path, tests: Sequence[str], output: Path) -> int:
    """Run tests of the copy in this process."""
    os.setsid()
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy)}
    sys.path[:] = [str(copy), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [each for each in sys.modules if each.partition(".")[0] in _OURS]:
        del sys.modules[name]
    sys.dont_write_bytecode = True
    return int(pytest.main(["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]))


def _copy_tree(copy: Path) -> None:
    """The project's files as they are now, without those that git ignores."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)


if __name__ == "__main__":
    sys.exit(main())
