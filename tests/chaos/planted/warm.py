"""Mutants of what needs Spark, in one session: their functions get other code while the tests run.

The tests run once without a change, which says who calls what; then for each mutant those run again that call
its function. A file is not changed, so only what stands in a function can be.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.chaos.planted.mutate import Mutant, draw
from tests.chaos.planted.reach import Reach, Recorder, read
from tests.chaos.planted.trial import Outcome, function_of, run_tests

TESTS = ("spark", "pipeline/bronze", "pipeline/silver", "pipeline/gold", "pipeline/records")
_WORDS = ("-m", "not long and not drawn", "--timeout", "300")
_MOST_SECONDS, _MOST_TESTS, _SECONDS = 40.0, 12, 6 * 3_600.0
_GONE = "gone"


def tried(
    tree: Path, known: Sequence[Mutant], number: int, tests: Sequence[str] = TESTS
) -> Iterator[tuple[Mutant, str]]:
    """Each known mutant as it ends with what caught it; with a number new ones, until there are so many.

    Raises:
        ValueError: The run ended by itself; the message has its last lines.
    """
    results = tree.parent / "results"
    results.touch()
    plugin = _Warm(tree, known, number, results)
    with multiprocessing.get_context("fork").Pool(1) as pool, results.open(encoding="utf-8") as lines:
        run = pool.apply_async(_run, [tree, tests, plugin])
        is_over = False
        while not is_over:
            is_over = run.ready()
            for line in lines:
                mutant, verdict = json.loads(line)
                yield Mutant(**mutant), verdict
            sleep(0.2)
    outcome = run.get()
    if not plugin.end.exists():
        raise ValueError(f"the run ended with exit code {outcome.code}: {outcome.output}")


def _run(tree: Path, tests: Sequence[str], plugin: _Warm) -> Outcome:
    return run_tests(tree, tests, _SECONDS, words=_WORDS, plugins=[plugin], keeps_compiled=True)


class _Warm:
    """The plugin of pytest that runs the mutants."""

    def __init__(self, tree: Path, known: Sequence[Mutant], number: int, results: Path) -> None:
        self.tree, self.known, self.number, self.results = tree, known, number, results
        self.end = results.with_name("end")
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the names of tests that fail."""
        if report.failed:
            self.failed.append(function_of(report.nodeid))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests, then the mutants."""
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            items.setdefault(function_of(item.nodeid), []).append(item)
        recorder = Recorder(self.tree, self.results.with_name("reach.json"))
        session.config.pluginmanager.register(recorder)
        began = {}
        for item, after in zip(session.items, [*session.items[1:], session.items[0]], strict=True):
            began[function_of(item.nodeid)] = began.get(function_of(item.nodeid), 0.0) - monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            began[function_of(item.nodeid)] += monotonic()
        session.config.pluginmanager.unregister(recorder)
        recorder.pytest_sessionfinish()
        for name in self.failed:
            items.pop(name, None)
        reach = Reach(began, read(recorder.file).callers)
        for mutant in self._drawn(reach) if self.number else self.known:
            verdict = self._verdict(mutant, reach, items)
            with self.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps([asdict(mutant), verdict]) + "\n")
        self.end.touch()
        return True

    def _drawn(self, reach: Reach) -> Iterator[Mutant]:
        files: dict[str, set[str]] = {}
        for name in reach.callers:
            file, _, function = name.partition("::")
            files.setdefault(file, set()).add(function)
        listed = [(file, frozenset(names)) for file, names in sorted(files.items())]
        taken = {one.seed for one in self.known}
        seeds = (seed for seed in range(1, self.number + 1) if f"s{seed}" not in taken)
        return (draw(f"s{seed}", listed, self.tree) for seed in seeds)

    def _verdict(self, mutant: Mutant, reach: Reach, items: dict[str, list[pytest.Item]]) -> str:
        """The test that catches a mutant; empty if none does."""
        tests = [test for test in reach.tests_of(mutant.file, mutant.function) if test in items]
        tests = [*([mutant.caught_by] if mutant.caught_by in items else []), *tests]
        self.failed.clear()
        began = monotonic()
        try:
            with patched(self.tree, mutant):
                for test in tests[:_MOST_TESTS]:
                    for place, item in enumerate(items[test]):
                        rest = items[test][place + 1 :]
                        after = rest[0] if rest else _elsewhere(item)
                        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                        if self.failed:
                            return self.failed[0]
                    if monotonic() - began > _MOST_SECONDS:
                        break
        except (OSError, ValueError):
            return _GONE
        finally:
            _end_queries()
        return ""


def _elsewhere(item: pytest.Item) -> pytest.Item:
    """A test of another file: what a file has set up is taken down, the session stays."""
    return next(one for one in item.session.items if one.path != item.path)


def _end_queries() -> None:
    """Stop the queries that a failed test has left."""
    from pyspark.sql import SparkSession

    with suppress(Exception):
        for query in SparkSession.getActiveSession().streams.active:  # type: ignore[union-attr]
            query.stop()


@contextmanager
def patched(tree: Path, mutant: Mutant) -> Iterator[None]:
    """The mutant's function has its code in the block, wherever it was imported.

    Raises:
        ValueError: There is no such function, or no such line in it.
    """
    file = tree / mutant.file
    text = mutant.planted_in(file.read_text(encoding="utf-8"))
    (code,) = [one for one in _codes(compile(text, str(file), "exec")) if one.co_qualname == mutant.function]
    gc.unfreeze()  # what is loaded when tests are collected is frozen, and not among the objects
    functions = [
        one
        for one in gc.get_objects()
        if isinstance(one, types.FunctionType)
        and one.__code__.co_filename == str(file)
        and one.__code__.co_qualname == mutant.function
    ]
    if not functions:
        raise ValueError(f"{mutant.file} has no function {mutant.function} that was imported")
    before = [one.__code__ for one in functions]
    for one in functions:
        one.__code__ = code
    try:
        yield
    finally:
        for one, former in zip(functions, before, strict=True):
            one.__code__ = former


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code objects within another one."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes(one)
