"""Ctrl-C at any moment of a command's start: exit code 130, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.processes import DEADLINE_SECONDS, ROOT, await_that, children, medallion

_INTERRUPTED_AT_IMPORT = """
import os, runpy, signal, sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv[1]
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("orchestration", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["orchestration.cli.main", "pydantic_settings", "confluent_kafka"])
def test_ctrl_c_while_a_command_loads_ends_it_without_a_traceback(module: str) -> None:
    """Loading takes a second, and on a busy machine several."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_AT_IMPORT, module],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.fixture(name="interruptible")
def _interruptible() -> Iterator[None]:
    """A process in the background ignores SIGINT, and so would those that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_spark_starts_ends_it_with_its_jvm(tmp_path: Path) -> None:
    """The job has its leases then, and no session."""
    with medallion(tmp_path) as commands:
        running = commands.start("run", "gold")
        await_that(lambda: bool(children(running.pid)), "a JVM is started", running)
        (jvm, *_) = children(running.pid)
        running.signal(signal.SIGINT)
        assert running.code() == 130
        assert running.stderr == "interrupted\n"
        await_that(lambda: not Path(f"/proc/{jvm}").exists(), "the JVM has ended")


@pytest.fixture(name="in_background")
def _in_background() -> Iterator[None]:
    """A shell starts a process in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.usefixtures("in_background")
def test_sigint_while_spark_answers_ends_an_audit_with_one_line(tmp_path: Path) -> None:
    """The interrupted thread waits for an answer of the JVM; one connection has one answer at a time."""
    with medallion(tmp_path) as commands:
        rows, now = 200_000, datetime.now(UTC)
        columns = {
            "topic": pa.array(["quakes"] * rows),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "kafka_timestamp": pa.array([now] * rows),
            "kafka_timestamp_type": pa.array([0] * rows, pa.int32()),
            "ingested_at": pa.array([now] * rows),
            "key": pa.array([None] * rows, pa.binary()),
            "value": pa.array([b"{}"] * rows, pa.binary()),
        }
        write_deltalake(commands.layout.table_path("bronze.quakes"), pa.table(columns))
        running = commands.start("audit")
        running.await_stderr("reading the logs")
        time.sleep(1)
        running.signal(signal.SIGINT)
        assert running.code() == 130
        *before, last = running.stderr.splitlines()
        assert last == "interrupted"
        assert all(line.startswith("silver.quakes: ") for line in before), running.stderr


@pytest.mark.long
def test_sigterm_while_cases_run_ends_them_with_one_line(tmp_path: Path) -> None:
    """Some of them are streaming queries, which fail when their JVM ends."""
    with medallion(tmp_path) as commands:
        running = commands.start("test")
        await_that(lambda: "  ok  " in running.stdout, "a case has passed", running)
        jvm = running.jvm
        running.signal(signal.SIGTERM)
        assert running.code() == 130
        assert running.stderr == "interrupted\n"
        await_that(lambda: not Path(f"/proc/{jvm}").exists(), "the JVM has ended")
