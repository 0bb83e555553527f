"""A closed terminal: the job stops in order, its JVM does not notice, and no line to nowhere is an error."""

from __future__ import annotations

import inspect
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from common.machine import stop_signals
from common.machine.stop_signals import hangup_ignored
from common.spark.jvm import own_interrupt

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.usefixtures("heeds_hangup")

_JOB = """
import os, signal, sys, time
from common.machine.stop_signals import handled
ended = []
with handled((signal.SIGHUP,), ended.append):
    print("ready", flush=True)
    while not ended:
        time.sleep(0.01)
    print("stopping", flush=True)
    print("stopping", file=sys.stderr, flush=True)
open(sys.argv[1], "w").write("drained")
"""


def test_a_job_whose_terminal_is_closed_ends_in_order(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    job = subprocess.Popen(
        [sys.executable, "-c", _JOB, str(tmp_path / "end")],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # noqa: PLW1509  # its terminal
    )
    os.close(theirs)
    assert b"ready" in os.read(ours, 100)
    os.close(ours)  # the kernel sends SIGHUP
    assert job.wait(30) == 0
    assert (tmp_path / "end").read_text() == "drained"


def test_a_program_that_is_started_meanwhile_ignores_the_signal() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with hangup_ignored():
        child = subprocess.Popen(["/bin/sleep", "60"])
    assert signal.getsignal(signal.SIGHUP) is before
    child.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    child.kill()
    child.wait()


def test_a_terminal_that_is_closed_meanwhile_is_noticed_at_the_end() -> None:
    ours, theirs = pty.openpty()
    caught: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: caught.append(number))
    kept = os.dup(0)
    os.dup2(theirs, 0)
    try:
        with hangup_ignored():
            os.close(ours)
            assert caught == []
        assert caught == [signal.SIGHUP]
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(theirs)
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_cancels_the_work_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted thread may wait for an answer of the JVM, on a connection that has one at a time."""
    cancelled: list[threading.Thread] = []
    done = threading.Event()

    def cancel() -> None:
        cancelled.append(threading.current_thread())
        done.set()
        raise ConnectionError("the JVM has ended")

    monkeypatch.setattr(stop_signals, "_interrupted", threading.Event())
    before = signal.getsignal(signal.SIGINT)
    try:
        stop_signals.interrupt_with(cancel)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.wait(10)
    assert cancelled[0] is not threading.current_thread()
    assert stop_signals.was_interrupted()


def test_an_interrupt_while_spark_starts_is_none_of_pysparks() -> None:
    """PySpark's handler, set before the session is there, failed by a call to the busy JVM: exit code 1."""
    from pyspark.core import context

    assert "signal.signal(signal.SIGINT, signal_handler)" in inspect.getsource(context.SparkContext._do_init)

    def of_pyspark(number: int, frame: object) -> None:
        raise RuntimeError("the JVM does not answer")

    before, own = signal.signal(signal.SIGINT, stop_signals.interrupt), context.signal  # type: ignore[attr-defined]
    try:
        with own_interrupt() as wanted:
            context.signal.signal(context.signal.SIGINT, of_pyspark)  # type: ignore[attr-defined]
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert (wanted, context.signal) == ([of_pyspark], own)  # type: ignore[attr-defined]
        assert stop_signals.was_interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
        stop_signals._interrupted.clear()
