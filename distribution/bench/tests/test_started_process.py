"""A contender's process: its end, its failure, what it says, and that nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.machine import processes
from distribution.bench.contenders.started_process import ContenderError, Started

SAYS = """
import sys
print("Spark 4 on local[2], started in 3.2 s")
print("silver.events: 20 of 20 offsets, 4,618 rows/s, 0 s left")
print("[Stage 8:>  (0 + 0) / 50] gold: nothing in 9 s")
print("silver: 20 rows in 4.3 s (5 rows/s)")
sys.exit({code})
"""
WAITS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""
OBEYS = """
import time
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("bye")
"""


def started(folder: Path, script: str) -> Started:
    (folder / "scripted.py").write_text(script)
    return Started("scripted", (), folder / "log", {"PYTHONPATH": str(folder)})


def test_it_says_where_its_time_went(tmp_path: Path) -> None:
    with started(tmp_path, SAYS.format(code=0)) as running:
        running.await_end(30)
        assert running.phases() == {"Spark": 3.2, "silver": 4.3}


def test_a_failure_is_told_with_its_last_words(tmp_path: Path) -> None:
    with (
        started(tmp_path, SAYS.format(code=3)) as running,
        pytest.raises(ContenderError, match=r"(?s)status 3.*silver: 20 rows"),
    ):
        running.await_end(30)


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    with started(tmp_path, WAITS) as running:
        while not (said := running.said()).strip():
            running.check()
        child = int(said)
        with pytest.raises(ContenderError, match="did not end"):
            running.await_end(0.2)
    assert processes.start_mark(child) is None
    assert processes.start_mark(running.pid) is None
    with pytest.raises(ContenderError):
        running.check()


def test_it_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    with started(tmp_path, OBEYS) as running:
        while "up" not in running.said():
            running.check()
        running.stop(30)
        running.await_end(0)
        assert "bye" in running.said()
        assert os.getpgid(running.pid) == running.pid  # not reaped: its counters can still be read
