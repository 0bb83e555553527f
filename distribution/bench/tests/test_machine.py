"""CPU seconds of real processes: of children, of those that ended, and never twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distribution.bench.measure.machine import MOST_FOREIGN, Meter, Reading, Stat, Tree, Usage, parsed

SPIN = "import time\nwhile time.process_time() < 0.4: pass\n"
CHILDREN = f"""
import subprocess, sys
for _ in range(2):
    subprocess.run([sys.executable, "-c", {SPIN!r}])
"""
STAYS = "import pathlib, sys\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(60)\n"
ORPHAN = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {SPIN + STAYS!r}, sys.argv[1]])
"""


def spent(script: str, done: Path | None = None) -> float:
    """CPU seconds that a meter finds for a script, from its start to its end, or until a file is there."""
    words = [sys.executable, "-c", script, str(done)]
    began = time.monotonic()
    process = subprocess.Popen(words, start_new_session=True)
    time.sleep(0.2)  # what it uses meanwhile counts
    with Meter({"it": process.pid}) as meter:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        while done is not None and not done.exists():
            time.sleep(0.05)
        usage = meter.read().since(meter.at_birth("it", began), "it")
    assert usage.seconds >= 0.2
    if done is not None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return usage.cpu


def test_a_process_that_has_ended_is_counted_whole() -> None:
    assert 0.38 <= spent(SPIN) < 0.75


def test_children_that_were_waited_for_are_counted_once() -> None:
    """Each would be there twice: seen alive, and in what its parent knows of it."""
    assert 0.76 <= spent(CHILDREN) < 1.5


def test_a_child_whose_parent_has_ended_still_belongs(tmp_path: Path) -> None:
    assert 0.38 <= spent(ORPHAN, tmp_path / "done") < 0.75


def stat(
    pid: int, parent: int, own: int, of_children: int = 0, *, started: int = 1, virtual: int = 0
) -> tuple[tuple[int, int], Stat]:
    return (pid, started), Stat(pid, parent, 1, started, own, of_children, virtual or pid, 100)


def test_a_child_too_short_to_be_seen_is_in_what_its_parent_knows() -> None:
    tree = Tree()
    tree.look(dict([stat(1, 0, 10)]))
    tree.look(dict([stat(1, 0, 12, of_children=30)]))
    assert tree.ticks == 42


def test_what_was_seen_of_a_child_is_not_added_to_what_its_parent_knows() -> None:
    tree = Tree()
    tree.look(dict([stat(1, 0, 10), stat(2, 1, 25)]))
    tree.look(dict([stat(1, 0, 12, of_children=30)]))
    assert tree.ticks == 42


def test_a_pid_that_is_given_out_again_is_another_process() -> None:
    tree = Tree()
    tree.look(dict([stat(1, 0, 10), stat(2, 1, 25, started=5)]))
    tree.look(dict([stat(1, 0, 10), stat(2, 1, 5, started=9)]))
    assert tree.ticks == 40


def test_peak_memory_is_that_of_the_whole_tree_at_once() -> None:
    tree = Tree()
    tree.look(dict([stat(1, 0, 1), stat(2, 1, 1)]))
    tree.look(dict([stat(1, 0, 1)]))
    assert tree.peak_bytes == 200


def test_memory_that_a_fork_shares_with_its_parent_is_counted_once() -> None:
    tree = Tree()
    tree.look(dict([stat(1, 0, 1, virtual=5_000), stat(2, 1, 0, virtual=5_000)]))
    assert tree.peak_bytes == 100


def test_a_name_with_brackets_and_blanks_is_read_over() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parsed(f"77 (a) b (c)) S {fields}".encode())[:3] == (77, 4, 6)


def reading(at: float, busy: float, **cpu: float) -> Reading:
    return Reading(at, cpu, dict.fromkeys(cpu, 7), busy, at / 10)


def test_what_nobody_metered_is_foreign() -> None:
    usage = reading(20, 50, it=30, broker=4, harness=1).since(
        reading(10, 20, it=12, broker=2, harness=1), "it"
    )
    assert (usage.cpu, usage.cores, usage.others) == (18, 1.8, {"broker": 2, "harness": 0})
    assert usage.foreign_cores == pytest.approx(1.0)
    assert usage.stolen_cores == pytest.approx(0.1)
    assert usage.refusal == "others used 1.0 cores"


def test_the_clock_is_believed_on_a_quiet_machine() -> None:
    assert Usage(1, 1, 1, {}, MOST_FOREIGN, 0).refusal is None
