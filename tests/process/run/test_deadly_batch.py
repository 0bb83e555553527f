"""A micro-batch that kills its process is not taken the same way twice: with a real process and SIGKILL."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from common.declare import Message
from common.delta.log import LogReader
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.processes import EXAMPLE, Command, Medallion, await_that, example_on, medallion

BRONZE = "bronze.quakes"

DEADLY = """
import os, signal
from pathlib import Path
import bronze.batch_in_driver as batch_in_driver
collect = batch_in_driver.collect

def deadly(frame):
    if Path({file!r}).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return collect(frame)

batch_in_driver.collect = deadly
"""
"""Text of a pipeline file: as long as a file exists, rows that come to the driver kill the process."""


def events(number: int) -> list[Message]:
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(islice(sample(7), number))


@pytest.fixture(name="deadly")
def _deadly(tmp_path: Path) -> Path:
    return tmp_path / "deadly"


@pytest.fixture(name="commands")
def _commands(broker: str, topic: str, tmp_path: Path, deadly: Path) -> Iterator[Medallion]:
    file = example_on(tmp_path, topic)
    file.write_text(file.read_text() + DEADLY.format(file=str(deadly)))
    with medallion(tmp_path, file, f"kafka.bootstrap_servers={broker}") as commands:
        yield commands


def written_by(commands: Medallion) -> list[str]:
    """Who wrote each commit with rows, oldest first, up to the first blank of its name."""
    commits = LogReader(commands.layout.table_path(BRONZE)).commits()
    return [(commit.engine or "").partition("/")[0].lower() for commit in commits if commit.added]


def rows(commands: Medallion) -> int:
    found = LogReader(commands.layout.table_path(BRONZE)).snapshot()
    return 0 if found is None else found.rows or 0


def started(commands: Medallion, total: int) -> Command:
    """Start bronze's job, and wait until its table has so many rows."""
    job = commands.start("run", "bronze")
    await_that(lambda: rows(commands) == total, f"bronze has {total} rows", job)
    return job


def stopped(job: Command) -> None:
    job.signal(signal.SIGTERM)
    assert job.code() == 0, job.stderr


@pytest.mark.long
def test_a_batch_that_kills_its_process_is_sparks_at_the_next_start(
    commands: Medallion, topic: str, send: Callable[..., None], deadly: Path
) -> None:
    """The first micro-batch after a start takes the driver's way, and dies there; Spark's way follows."""
    mark = Path(commands.layout.checkpoint_path(BRONZE)) / "attempt"
    send(topic, events(100))
    stopped(started(commands, 100))
    assert not mark.exists()

    send(topic, events(50))
    deadly.touch()
    job = commands.start("run", "bronze")
    assert job.code() == -signal.SIGKILL
    assert '"attempts": 1' in mark.read_text()
    assert rows(commands) == 100

    stopped(started(commands, 150))
    assert "spark" in written_by(commands)[-1]
    assert not mark.exists()
