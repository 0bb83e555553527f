"""A job whose process a record ends finds the record, sets it aside, and goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from common.declare import Message
from common.delta.checkpoint import Checkpoint
from silver.write.poison_search import DEATHS
from tests.support.heavy_value import HEAVY
from tests.support.processes import Command, Medallion, await_that, is_caught_up, medallion


def dies_or_is_done(commands: Medallion, command: Command) -> bool:
    """Whether a job has ended, or has nothing left to do."""
    return not command.is_running or is_caught_up(commands)


@pytest.mark.long
def test_a_job_that_dies_of_a_record_finds_it_and_goes_on(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """A value needs more memory than the heap has: real processes end until the record is set aside."""
    (tmp_path / "numbers.py").write_text(HEAVY.format(topic=topic))
    numbers = [*range(1, 30), 400_000_000, *range(30, 60)]
    send(topic, [Message(b"k", json.dumps({"id": number}).encode()) for number in numbers])
    with medallion(tmp_path, tmp_path / "numbers.py", f"kafka.bootstrap_servers={broker}") as commands:
        deaths = 0
        while deaths < 12:
            command = commands.start("up")
            await_that(partial(dies_or_is_done, commands, command), "it ends or has caught up")
            if command.is_running:
                break
            deaths += 1
            assert "its heap of 1g was full" in command.stderr, command.stderr
        assert command.is_running, "the record was not found"
        command.signal(signal.SIGTERM)
        assert command.code() == 0, command.stderr
        # Three or four deaths of the micro-batch; one of its partition; two of ranges; two of the record.
        assert DEATHS <= deaths <= DEATHS + 1 + 5
        checkpoint = Checkpoint(commands.layout.checkpoint_path("silver.numbers"))
        assert checkpoint.last_committed() == checkpoint.last_planned()
        audit = commands.start("audit", "--json")
        assert audit.code() == 0, audit.stderr
        totals = json.loads(audit.stdout)["tables"][0]["totals"]
        assert (totals["silver"], totals["quarantine"]) == (len(numbers) - 1, 1)
