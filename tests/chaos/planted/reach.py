"""Which tests call which functions of the product, by one run of all of them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from types import CodeType, FrameType

import pytest

from tests.chaos.planted.trial import function_of, run_tests

PRODUCT = ("common", "bronze", "silver", "gold", "orchestration")


@dataclass(frozen=True, slots=True)
class Reach:
    """Who calls what.

    Attributes:
        seconds: Of the processors, by test, as ``function_of`` writes it.
        callers: The tests that call a function, by ``file::function``; its nested ones count as it.
    """

    seconds: dict[str, float]
    callers: dict[str, list[str]]

    def tests_of(self, file: str, function: str) -> list[str]:
        """The tests that call a function, those of its file first, then those beside it, then quick ones.

        ``function`` is empty for what runs when a module is imported: those that call anything of the module,
        and those beside its file.
        """
        place = Path(file).parts
        if function:
            found = set(self.callers.get(f"{file}::{function}", ()))
        else:
            of_file = (tests for name, tests in self.callers.items() if name.startswith(f"{file}::"))
            found = {test for tests in of_file for test in tests}
            found |= {test for test in self.seconds if _folders(test) == place[:-1]}

        def is_far(test: str) -> tuple[bool, int]:
            near = sum(1 for one, other in zip(_folders(test), place, strict=False) if one == other)
            return f"/test_{place[-1]}::" not in test, -near

        return sorted(found, key=lambda test: (is_far(test), self.seconds[test], test))


def _folders(test: str) -> tuple[str, ...]:
    """The folders of a test below those of its kind, which are those of what it tests."""
    return Path(test.partition("::")[0]).parts[1:-1]


class Recorder:
    """A plugin of pytest that writes into a file which functions each test calls."""

    def __init__(self, tree: Path, file: Path) -> None:
        self.file = file
        self.folders = tuple(f"{tree}/{name}/" for name in PRODUCT)
        self.start = len(f"{tree}/")
        self.called: dict[int, CodeType] = {}
        self.seconds: dict[str, float] = {}
        self.callers: dict[str, set[str]] = {}

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        self.called[id(frame.f_code)] = frame.f_code

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record what a test calls, its fixtures too, in all threads."""
        before = process_time()
        self.called.clear()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]  # as its documentation has it
            test = function_of(item.nodeid)
            self.seconds[test] = self.seconds.get(test, 0) + process_time() - before
            for code in [*self.called.values()]:
                if code.co_filename.startswith(self.folders):
                    outer = code.co_qualname.partition(".<locals>")[0]
                    name = f"{code.co_filename[self.start :]}::{outer}"
                    self.callers.setdefault(name, set()).add(test)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        number = {test: place for place, test in enumerate(self.seconds)}
        found = {name: sorted(number[test] for test in tests) for name, tests in sorted(self.callers.items())}
        self.file.write_text(json.dumps({"seconds": self.seconds, "callers": found}), encoding="utf-8")


def measure(tree: Path, tests: Sequence[str], file: Path, *, words: Sequence[str] = ()) -> Reach:
    """Run tests of a copy and read who called what; they may fail.

    Raises:
        ValueError: The run wrote nothing; the message has its last lines.
    """
    file.unlink(missing_ok=True)
    outcome = run_tests(tree, tests, 7_200, words=words, plugins=[Recorder(tree, file)], keeps_compiled=True)
    if not file.exists():
        raise ValueError(f"the run ended with exit code {outcome.code}: {outcome.output}")
    return read(file)


def read(file: Path) -> Reach:
    """What an earlier run has written."""
    content = json.loads(file.read_text(encoding="utf-8"))
    tests = list(content["seconds"])
    callers = {name: [tests[number] for number in found] for name, found in content["callers"].items()}
    return Reach(content["seconds"], callers)
