"""A JVM whose heap is full ends its job at once, with one line that names the settings to change."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from common.declare import Message
from tests.process.run.test_commands import assert_told_in_words
from tests.support.heavy_value import HEAVY
from tests.support.processes import await_that, medallion


@pytest.mark.long
def test_a_job_without_memory_ends_at_once_and_says_what_to_set(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """A value of silver is larger than the heap: exit code 1 and one line within seconds, and no stack."""
    (tmp_path / "numbers.py").write_text(HEAVY.format(topic=topic))
    send(topic, [Message(b"k", b'{"id": 1}')])
    with medallion(tmp_path, tmp_path / "numbers.py", f"kafka.bootstrap_servers={broker}") as commands:
        command = commands.start("up")
        command.await_stderr("running ")
        send(topic, [Message(b"k", b'{"id": 400000000}')])
        output = commands.layout.log / "up.jvm.log"
        await_that(lambda: "OutOfMemoryError" in output.read_text(), "its heap is full")
        began = time.monotonic()
        assert command.code() == 1
        assert time.monotonic() - began < 20
        error = assert_told_in_words(command)
        assert error.startswith("error: Spark's JVM failed: its heap of 1g was full, so it ended. ")
        assert "Set spark.driver_memory higher" in error
