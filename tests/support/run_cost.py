"""The cost of a test run: seconds per kind, JVMs, brokers and queries started, the dearest tests, a budget.

Every process that a test starts inherits a mark in its environment, by which ``/proc`` shows it: also a
broker that outlives the process that started it. On systems without ``/proc`` processes are not counted.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

MARK = "TESTS_RUN"
NOT_RUN = "not run"
"""The outcome of a test for which the run had no time; its message begins with it."""
CRASHED = "crashed"
"""The outcome of a test that ended its worker: pytest-xdist then begins none of the tests that are left."""
BROKEN_OFF = "broken off"
"""The outcome of a test that began and did not end: its run was interrupted."""
DEAREST = 20
OVER_BUDGET = 16
"""Added to the exit code of a run that took more CPU seconds than its budget, also where tests failed."""
PIECE_CPU_SECONDS = 0.045
"""CPU seconds of ``piece_of_work`` on the machine for which the budget was set."""
_POLL_SECONDS = 0.5
_LOOKS_PER_PIECE = 60
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


class Processes:
    """The processes of a run by kind, with the CPU seconds of each at the last look."""

    def __init__(self) -> None:
        self.mark = f"{MARK}={uuid4().hex}"
        self.kinds: dict[str, str] = {}
        self.cpu: dict[str, float] = {}
        self.pieces: list[float] = []
        self._strangers: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="run-cost", daemon=True)

    def start(self) -> None:
        """Mark the environment and start to poll."""
        os.environ[MARK] = self.mark.partition("=")[2]
        if _PROC.exists():
            self._thread.start()

    def end(self) -> None:
        """Poll a last time."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
            self.look()

    def seconds(self) -> dict[str, float]:
        """CPU seconds by kind of process; those of this process are Python's."""
        found: dict[str, float] = defaultdict(float)
        for key, kind in self.kinds.items():
            found[kind] += self.cpu[key]
        own = os.times()
        found["Python"] += own.user + own.system
        return dict(found)

    def count(self) -> Counter[str]:
        """Processes by kind."""
        return Counter(self.kinds.values())

    def look(self) -> None:
        """Record the processes that run now."""
        for folder in _PROC.glob("[0-9]*"):
            try:
                self._note(folder)
            except OSError:  # the process has ended meanwhile, or belongs to another user
                continue

    def _note(self, folder: Path) -> None:
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        key = f"{folder.name}@{stat[19]}"  # a pid may be used again, with another start time
        if key in self._strangers:
            return
        command = (folder / "cmdline").read_bytes()
        if key not in self.kinds and self.mark.encode() not in (folder / "environ").read_bytes().split(b"\0"):
            self._strangers.add(key)
            return
        if command:
            self.kinds[key] = _kind(command.split(b"\0"))
            self.cpu[key] = (int(stat[11]) + int(stat[12])) / _TICKS

    def _watch(self) -> None:
        looks = 0
        while not self._end.wait(_POLL_SECONDS):
            if looks % _LOOKS_PER_PIECE == 0:
                self.pieces.append(piece_of_work())
            self.look()
            looks += 1


def piece_of_work() -> float:
    """CPU seconds of a fixed piece of work: a machine that is slow, or busy, takes more of them for all."""
    began, words = thread_time(), [f"{number * 7919 % 100_003:06}" for number in range(60_000)]
    assert len({word: place for place, word in enumerate(sorted(words))}) == len(words)
    return thread_time() - began


def _kind(words: list[bytes]) -> str:
    if Path(os.fsdecode(words[0])).name != "java":
        return "Python" if b"python" in words[0] else "other"
    if any(word.startswith((b"kafka.Kafka", b"kafka.server")) for word in words):
        return "broker"
    if b"org.apache.spark.deploy.SparkSubmit" in words and b"org.apache.spark.launcher.Main" not in words:
        return "Spark JVM"
    return "other JVM"


@dataclass
class _Spent:
    tests: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    outcome: str = BROKEN_OFF


class RunTest(NamedTuple):
    """A test's line in the table of a run: its name is pytest's node id."""

    cpu: float
    seconds: float
    outcome: str
    name: str


def read_table(file: Path) -> list[RunTest]:
    """The tests of the run that wrote the table; none if there is no table."""
    lines = file.read_text(encoding="utf-8").splitlines()[1:] if file.exists() else []
    fields = (line.split("\t", 3) for line in lines)
    return [RunTest(float(cpu), float(seconds), outcome, name) for cpu, seconds, outcome, name in fields]


@dataclass(eq=False)
class RunCost:
    """Collects the cost in every pytest process, and prints it in the process that the user started."""

    config: pytest.Config
    began: float = field(default_factory=monotonic)
    queries: int = 0
    spent: dict[str, _Spent] = field(default_factory=dict)
    _processes: Processes = field(default_factory=Processes)
    _before: float = 0.0

    @property
    def _is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    def pytest_sessionstart(self) -> None:
        """Count queries in every pytest process, and processes in the first one."""
        self._count_queries()
        if not self._is_worker:
            self._processes.start()

    def _count_queries(self) -> None:
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        start = DataStreamWriter.start

        def counted(writer: Any, *words: Any, **named: Any) -> Any:
            self.queries += 1
            return start(writer, *words, **named)

        DataStreamWriter.start = counted  # type: ignore[method-assign]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Remember the CPU seconds before a test's set-up."""
        self._before = _cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[Any]:
        """Add the CPU seconds of a phase to the phase's report."""
        report = yield
        now = _cpu_seconds()
        report.cpu, self._before = now - self._before, now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up the reports; the first process also gets those of the workers."""
        spent = self.spent.setdefault(report.nodeid, _Spent())
        spent.tests += report.when == "call"
        spent.seconds += report.duration
        spent.cpu += getattr(report, "cpu", 0.0)
        if report.failed:
            spent.outcome = _failure(str(report.longrepr))
        elif spent.outcome == BROKEN_OFF and (report.skipped or report.when == "call"):
            spent.outcome = "skipped" if report.skipped else "passed"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker sends its count of queries to the first process, which fails a run that cost too much."""
        if self._is_worker:
            self.config.workeroutput["queries"] = self.queries  # type: ignore[attr-defined]
            return
        self._processes.end()
        self._leave_out_not_run()
        budget = self._budget()
        if budget and self.spent and self.scaled_cpu() > budget:
            session.exitstatus = int(session.exitstatus) | OVER_BUDGET

    def _leave_out_not_run(self) -> None:
        """Print no report of a test for which there was no time: hundreds would hide those that failed."""
        printed = self.config.pluginmanager.get_plugin("terminalreporter")
        errors = printed.stats.get("error", []) if printed else []
        errors[:] = [report for report in errors if _failure(str(report.longrepr)) != NOT_RUN]

    def scaled_cpu(self) -> float:
        """CPU seconds of all processes of the run, as the machine of the budget would have taken them.

        A machine that does the piece of work faster than that one has no smaller budget: the piece is Python,
        the run is mostly JVMs, and the two differ by a fifth from machine to machine.
        """
        pieces = self._processes.pieces
        slower = max(1.0, statistics.median(pieces) / PIECE_CPU_SECONDS) if pieces else 1.0
        return sum(self._processes.seconds().values()) / slower

    def _budget(self) -> float:
        return float(self.config.getoption("--budget", None) or 0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Add the count of a worker that has ended."""
        self.queries += getattr(node, "workeroutput", {}).get("queries", 0)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the cost at the end of a run."""
        if self._is_worker or not self.spent:
            return
        write = terminalreporter.write_line
        terminalreporter.section("cost of the run")
        write(f"{'kind':10}{'tests':>7}{'seconds':>10}{'CPU s':>9}")
        for kind, total in sorted(self._by_kind().items(), key=lambda one: -one[1].cpu):
            write(f"{kind:10}{total.tests:>7}{total.seconds:>10.1f}{total.cpu:>9.1f}")
        count, cpu = self._processes.count(), self._processes.seconds()
        write(
            f"started: {count['Spark JVM']} Spark JVMs, {count['other JVM']} other JVMs, "
            f"{count['broker']} brokers, {self.queries} queries in the tests' own sessions"
        )
        by_cpu = sorted(cpu, key=cpu.__getitem__, reverse=True)
        write("CPU s: " + ", ".join(f"{kind} {cpu[kind]:.0f}" for kind in by_cpu))
        write(f"the {DEAREST} dearest (CPU s, seconds):")
        dearest = sorted(self.spent.items(), key=lambda one: -one[1].cpu)[:DEAREST]
        for test, spent in dearest:
            write(f"{spent.cpu:>8.1f}{spent.seconds:>8.1f}  {test.partition('@')[0]}")
        write(f"all tests: {self._write_table()}")
        self._say_budget(write)

    def _write_table(self) -> Path:
        """Write a line of tab-separated values for each test, the greatest CPU seconds first."""
        has_cache = self.config.pluginmanager.hasplugin("cacheprovider")
        folder = self.config.getini("cache_dir") if has_cache else ".pytest_cache"
        file = Path(self.config.rootpath) / folder / "run_cost.tsv"
        file.parent.mkdir(exist_ok=True, parents=True)
        lines = [
            f"{spent.cpu:.2f}\t{spent.seconds:.2f}\t{spent.outcome}\t{test.partition('@')[0]}\n"
            for test, spent in sorted(self.spent.items(), key=lambda one: -one[1].cpu)
        ]
        file.write_text("".join(["cpu_s\tseconds\toutcome\ttest\n", *lines]), encoding="utf-8")
        return file

    def _by_kind(self) -> dict[str, _Spent]:
        found: dict[str, _Spent] = defaultdict(_Spent)
        for test, spent in self.spent.items():
            total = found[test.split("/")[1]]
            total.tests += spent.tests
            total.seconds += spent.seconds
            total.cpu += spent.cpu
        return found

    def _say_budget(self, write: Any) -> None:
        if budget := self._budget():
            cpu, own = self.scaled_cpu(), sum(self._processes.seconds().values())
            text = f"CPU s in all: {own:.0f}, on the machine of the budget {cpu:.0f}"
            write(f"{text}; the budget is {budget:.0f}", red=cpu > budget)


def _failure(text: str) -> str:
    """The outcome of a test that failed, by the text of its report."""
    if text.startswith("worker ") and "crashed while running" in text:
        return CRASHED
    return NOT_RUN if text.startswith(NOT_RUN) else "failed"


def _cpu_seconds() -> float:
    """CPU seconds of this process, of its ended children, and of its Spark JVM."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + _jvm_seconds()


def _jvm_seconds() -> float:
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    process = getattr(gateway, "proc", None)
    try:
        stat = (_PROC / str(process.pid) / "stat").read_text() if process else ""
    except OSError:
        return 0.0
    words = stat.rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS if words else 0.0
