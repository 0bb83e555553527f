"""A closed terminal ends ``medallion up`` as Ctrl-C does; a dead embedded broker ends it within seconds."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from common.machine import processes
from orchestration.access.embedded_broker import lifecycle as embedded
from tests.support.processes import DEADLINE_SECONDS, await_that, medallion

pytestmark = pytest.mark.long


@pytest.mark.usefixtures("heeds_hangup")
def test_sighup_to_all_processes_of_a_terminal_drains_and_stops_the_broker(tmp_path: Path) -> None:
    """The JVM gets the signal too, as from a closed terminal, and is needed until the job has stopped."""
    with medallion(tmp_path) as commands:
        running = commands.start("up")
        running.await_stderr("Ctrl-C stops")
        broker = embedded.describe(commands.settings)
        assert broker is not None
        os.killpg(running.pid, signal.SIGHUP)
        assert running.code() == 0, running.stderr
        assert "stopped at a micro-batch boundary" in running.stderr
        assert "Traceback" not in running.stderr
        await_that(lambda: not processes.is_running(int(broker["pid"]), None), "the broker has ended")


def test_a_dead_embedded_broker_is_named_with_its_log(tmp_path: Path) -> None:
    with medallion(tmp_path) as commands:
        running = commands.start("up")
        running.await_stderr("Ctrl-C stops")
        broker = embedded.describe(commands.settings)
        assert broker is not None
        killed = time.monotonic()
        os.kill(int(broker["pid"]), signal.SIGKILL)
        assert running.code() == 1
        assert time.monotonic() - killed < DEADLINE_SECONDS / 2
        assert (
            f"The embedded broker at {broker['bootstrap_servers']} (pid {broker['pid']}) has ended"
            in running.stderr
        )
        assert "the same command starts it again" in running.stderr.replace("\n", " ")
        assert "Traceback" not in running.stderr
