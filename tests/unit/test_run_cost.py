"""What a run of the tests says that it cost."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import run_cost
from tests.support.run_cost import MARK, NOT_RUN, Processes, RunCost


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are counted in /proc")
def test_a_process_of_the_run_is_counted_also_when_its_parent_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own CPU seconds; one that was started before the run is not."""
    monkeypatch.setenv(MARK, "another run")
    sleeps = "input()"
    stranger = subprocess.Popen([sys.executable, "-c", sleeps], stdin=subprocess.PIPE)
    found = Processes()
    found.start()
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleeps!r}])"
    parent = subprocess.Popen([sys.executable, "-c", orphan], stdin=subprocess.PIPE)
    try:
        assert parent.wait(30) == 0
        deadline = time.monotonic() + 30
        while not found.count()["Python"] and time.monotonic() < deadline:
            time.sleep(0.1)
        found.end()
        pids = {int(key.partition("@")[0]) for key in found.kinds}
        assert pids - {parent.pid}
        assert stranger.pid not in pids
        assert found.seconds()["Python"] > 0
    finally:
        stranger.communicate(b"\n")
        assert parent.stdin is not None
        parent.stdin.close()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("/jdk/bin/java -cp x org.apache.spark.deploy.SparkSubmit pyspark-shell", "Spark JVM"),
        ("java -cp x org.apache.spark.launcher.Main org.apache.spark.deploy.SparkSubmit", "other JVM"),
        ("java -Xmx256m kafka.Kafka /data/kafka.properties", "broker"),
        ("java -version", "other JVM"),
        ("/venv/bin/python3 -m orchestration up", "Python"),
        ("sleep 1", "other"),
    ],
)
def test_a_process_is_told_by_its_command_line(words: str, kind: str) -> None:
    assert run_cost._kind(words.encode().split()) == kind


class _Report:
    """What a phase of a test left."""

    failed = skipped = False

    def __init__(self, nodeid: str, when: str, duration: float) -> None:
        self.nodeid, self.when, self.duration, self.cpu = nodeid, when, duration, duration / 2


@pytest.mark.parametrize(("budget", "is_over"), [(None, False), ("600", False), ("240", True)])
def test_the_summary_has_the_kinds_the_dearest_and_a_budget_that_fails_the_run(
    budget: str | None, *, is_over: bool, tmp_path: Path
) -> None:
    """The seconds are those of a machine that takes twice as many for the same piece of work."""
    errors = [SimpleNamespace(longrepr=text) for text in (f"{NOT_RUN}: the 5 s are over", "E  no broker")]
    printed = SimpleNamespace(stats={"error": errors})
    config: Any = SimpleNamespace(
        getoption=lambda *_: budget,
        getini=lambda _: ".pytest_cache",
        pluginmanager=SimpleNamespace(hasplugin=lambda _: True, get_plugin=lambda _: printed),
        rootpath=tmp_path,
    )
    cost = RunCost(config)
    for number in range(run_cost.DEAREST + 5):
        for when, seconds in (("setup", 1.0), ("call", float(number))):
            cost.pytest_runtest_logreport(
                _Report(f"tests/{'unit' if number % 2 else 'spark'}/test_{number}.py::test@x", when, seconds)
            )
    cost.pytest_runtest_logreport(_Report("tests/unit/test_broken_off.py::test@x", "setup", 0.5))
    cost.queries = 7
    processes = cost._processes
    processes.pieces = [2 * run_cost.PIECE_CPU_SECONDS]
    processes.seconds = lambda: {"Spark JVM": 400.0, "Python": 100.0}  # type: ignore[method-assign]
    lines: list[str] = []
    terminal: Any = SimpleNamespace(write_line=lambda line, **_: lines.append(line), section=lines.append)
    cost.pytest_terminal_summary(terminal)
    assert [line.split()[:2] for line in lines[2:4]] == [["spark", "13"], ["unit", "12"]]
    assert "7 queries" in lines[4]
    dearest = [line.split()[-1] for line in lines if "::" in line]
    assert dearest[0] == "tests/spark/test_24.py::test"
    assert len(dearest) == run_cost.DEAREST
    said = f"CPU s in all: 500, on the machine of the budget 250; the budget is {budget}"
    assert (said in lines) == (budget is not None)
    table = (tmp_path / ".pytest_cache" / "run_cost.tsv").read_text().splitlines()
    assert table[:2] == [
        "cpu_s\tseconds\toutcome\ttest",
        "12.50\t25.00\tpassed\ttests/spark/test_24.py::test",
    ]
    assert len(table) == 1 + run_cost.DEAREST + 5 + 1
    assert table[-1].split("\t")[1:3] == ["0.50", run_cost.BROKEN_OFF]
    for before, after in ((0, run_cost.OVER_BUDGET), (1, run_cost.OVER_BUDGET + 1)):
        session: Any = SimpleNamespace(exitstatus=before)
        cost.pytest_sessionfinish(session)
        assert session.exitstatus == (after if is_over else before)
    assert [report.longrepr for report in errors] == ["E  no broker"]
    processes.pieces = [run_cost.PIECE_CPU_SECONDS / 2]
    assert cost.scaled_cpu() == 500


def test_a_piece_of_work_is_measured_while_a_run_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "another run")
    found = Processes()
    monkeypatch.setattr(found, "look", found._end.set)
    found._watch()
    assert len(found.pieces) == 1
    assert found.pieces[0] > 0
