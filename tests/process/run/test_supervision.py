"""A signal to all processes of a job, and a broker that goes and comes back, with real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.declare import Message
from common.delta.log import LogReader
from common.machine import processes
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.access.kafka import client as kafka
from orchestration.access.progress.query_states import read_state
from tests.support.processes import EXAMPLE, Command, Medallion, await_that, example_on, medallion

BOUNDARY = "stopped at a micro-batch boundary"


def events(number: int) -> list[Message]:
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(islice(sample(7), number))


def rows(commands: Medallion, table: str) -> int:
    found = LogReader(commands.layout.table_path(table)).snapshot()
    return 0 if found is None else found.rows or 0


@pytest.fixture(name="commands")
def _commands(broker: str, topic: str, tmp_path: Path) -> Iterator[Medallion]:
    with medallion(tmp_path, example_on(tmp_path, topic), f"kafka.bootstrap_servers={broker}") as commands:
        yield commands


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_to_all_processes_of_a_job_is_a_stop(
    commands: Medallion, topic: str, send: Callable[..., None], number: signal.Signals
) -> None:
    """As systemd sends it by default, and a terminal: the JVM gets it as well, inside a micro-batch."""
    send(topic, events(3_000))
    job = commands.start("run", "bronze", more=["bronze.max_offsets_per_trigger=20"])
    await_that(lambda: rows(commands, "bronze.quakes") >= 100, "bronze has rows", job)
    jvm = job.jvm
    assert jvm is not None
    assert os.getpgid(jvm) == job.pid
    os.killpg(job.pid, number)
    assert job.code() == 0, job.stderr
    assert job.stderr.rstrip().endswith(BOUNDARY)
    assert "error" not in job.stderr
    assert rows(commands, "bronze.quakes") < 3_000
    await_that(lambda: not processes.is_running(jvm, None), "the JVM has ended")


@pytest.mark.long
def test_a_jvm_ends_with_its_killed_parent(commands: Medallion) -> None:
    job = commands.start("run", "bronze")
    job.await_stderr("running bronze.quakes")
    jvm = job.jvm
    assert jvm is not None
    mark = processes.start_mark(jvm)
    job.signal(signal.SIGKILL)
    job.code()
    await_that(lambda: not processes.is_running(jvm, mark), "the JVM has ended")


QUICK = (
    "kafka.options.default.api.timeout.ms=4000",
    "kafka.options.request.timeout.ms=3000",
    "supervision.longest_pause=2 seconds",
)
"""The defaults of Kafka's clients take minutes until a call fails."""


def is_waiting(commands: Medallion, query: str) -> bool:
    state = read_state(commands.layout.query_states, query)
    return state is not None and state.state in {"waits", "restarted"} and state.subject == "the Kafka broker"


@pytest.mark.long
def test_a_job_survives_a_broker_that_is_away(tmp_path: Path) -> None:
    """Killed by its pid, and started again on its port: no row is lost or read twice."""
    own = load_settings(overrides=[f"data_dir={tmp_path / 'broker'}"])
    with embedded.start(own) as first:
        address = first.bootstrap_servers
        kafka.ensure_topics(address, ["quakes"], 2, {})
    # A named broker: a job ends with an embedded one.
    named = f"kafka.bootstrap_servers={address}"
    with medallion(tmp_path, EXAMPLE, named) as commands, ExitStack() as broker:
        broker.enter_context(embedded.start(own))
        job = commands.start("run", "bronze", more=QUICK)
        job.await_stderr("running bronze.quakes")
        produced(commands, 200)
        await_that(lambda: rows(commands, "bronze.quakes") == 200, "bronze has all rows", job)
        facts = embedded.describe(own)
        assert facts is not None
        os.kill(int(facts["pid"]), signal.SIGKILL)
        await_that(lambda: is_waiting(commands, "bronze.quakes"), "bronze waits for its broker", job)
        status = commands.run("status", "--json")
        assert '"subject": "the Kafka broker"' in status.stdout
        broker.close()  # else this process would remain a user of the next broker, which nobody would stop
        with embedded.start(own) as again:
            assert again.bootstrap_servers == address
            produced(commands, 100)
            await_that(lambda: rows(commands, "bronze.quakes") == 300, "bronze has the new rows", job)
            await_that(lambda: "works again" in job.stderr, "bronze says so", job)
            stopped(job)


def produced(commands: Medallion, number: int) -> None:
    command = commands.run("produce", "--count", str(number))
    assert command.code() == 0, command.stderr


def stopped(job: Command) -> None:
    job.signal(signal.SIGTERM)
    assert job.code() == 0, job.stderr
    assert BOUNDARY in job.stderr
