"""What PySpark launches as its JVM ignores the signals that a terminal or a service manager sends to all."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
from pyspark import java_gateway
from pyspark.sql import SparkSession

from common.spark import jvm

_HELD = "import signal, sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture(name="child")
def _child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that PySpark would launch: it ends at the end of the pipe to its parent."""
    with jvm.ignoring_stop_signals():
        popen = java_gateway.Popen  # type: ignore[attr-defined]
        # As PySpark calls it, with a function of its own that ignores SIGINT alone.
        launched = popen(
            [sys.executable, "-c", _HELD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
    assert launched.stdout.readline() == b"ready\n"
    yield launched
    launched.kill()
    launched.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_stop_signal_is_ignored(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    child.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)


def test_it_is_in_the_group_of_its_parent_and_ends_with_the_pipe(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the group ends both; SIGKILL for the parent closes the pipe."""
    assert psutil.Process(child.pid).ppid() == psutil.Process().pid
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) == 0


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_jvm_that_ends_while_spark_is_stopped_is_no_warning(
    child: subprocess.Popen[bytes], *, has_ended: bool
) -> None:
    """An interrupt ends the JVM of a command; pyspark meets it alive, dying or dead."""
    calls: list[str] = []

    def stop() -> None:
        calls.append("stop")
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=1)

    session = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=child)), stop=stop)
    if has_ended:
        child.kill()
        child.wait()
    with warnings.catch_warnings(record=True) as told:
        jvm.stop(cast("SparkSession", session))
    assert (calls, told) == ([] if has_ended else ["stop"], [])


def test_pyspark_is_as_it_was_afterwards() -> None:
    assert java_gateway.Popen is subprocess.Popen  # type: ignore[attr-defined]
    before = signal.getsignal(signal.SIGTERM)
    with jvm.ignoring_stop_signals():
        pass
    assert java_gateway.Popen is subprocess.Popen  # type: ignore[attr-defined]
    assert signal.getsignal(signal.SIGTERM) is before
