"""Commands beside ``medallion up``: the running job does their work, and no second JVM is started."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from common.declare import Message
from common.delta.lease.lease_holder import find_holder
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.processes import EXAMPLE, await_that, example_on, is_caught_up, medallion

pytestmark = pytest.mark.long


def events(number: int) -> list[Message]:
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(islice(sample(7), number))


def test_commands_beside_a_running_job_are_done_by_the_job(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    send(topic, events(2_000))
    with medallion(tmp_path, example_on(tmp_path, topic), f"kafka.bootstrap_servers={broker}") as commands:
        job = commands.start("up")
        await_that(lambda: is_caught_up(commands), "all is caught up", job)
        took: dict[str, float] = {}

        def done(*words: str) -> str:
            began = time.monotonic()
            command = commands.start(*words)
            assert command.code() == 0, command.stderr
            took[words[0]] = time.monotonic() - began
            return command.stdout

        (account,) = json.loads(done("audit", "--json"))["tables"]
        assert account["balanced"]
        assert account["offsets"] == 2_000
        maintained = json.loads(done("maintain", "--json"))["tables"]
        assert {one["table"] for one in maintained} >= {
            "bronze.quakes",
            "silver.quakes",
            "gold.quakes_latest",
        }
        assert (
            "__before_" in json.loads(done("rebuild", "gold.quakes_latest", "--json"))["checkpoint_moved_to"]
        )
        await_that(lambda: is_caught_up(commands), "gold is filled again", job)
        logs = {file.name for file in commands.layout.log.iterdir()}
        assert not {name for name in logs if name.startswith(("audit.jvm", "maintain.jvm"))}
        # A changed pipeline file: the command does the work itself, and what writes is refused.
        commands.pipeline.write_text(commands.pipeline.read_text() + "\n# changed\n")
        refused = commands.run("maintain", "silver.quakes")
        assert refused.code() == 4
        assert "another content of the pipeline file" in refused.stderr
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
        # A job that still starts: the command waits for it.
        job = commands.start("up")
        leases = commands.layout.leases
        await_that(lambda: find_holder(leases, "silver.quakes") is not None, "the job has its leases", job)
        waiting = commands.start("erase", "silver.quakes", "--where", "quake_id is null", "--plan")
        assert waiting.code() == 0, waiting.stderr
        assert "the job is starting; it does this once its queries run" in waiting.stderr
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
        print({name: round(seconds, 1) for name, seconds in took.items()})  # noqa: T201  # for the log of a run


def test_one_query_of_a_running_job_is_stopped_stays_stopped_over_a_restart_and_goes_on(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    stopped = "gold.quakes_latest"
    with medallion(tmp_path, example_on(tmp_path, topic), f"kafka.bootstrap_servers={broker}") as commands:

        def status() -> dict[str, dict[str, Any]]:
            found = json.loads(commands.run("status", "--json").stdout)
            return {table["table"]: table for table in found["tables"]}

        def is_read_by_others() -> bool:
            return all(one["lag"]["count"] == 0 for name, one in status().items() if name != stopped)

        send(topic, events(500))
        job = commands.start("up")
        await_that(lambda: is_caught_up(commands), "all is caught up", job)
        done = commands.run("stop", stopped)
        assert done.code() == 0, done.stderr
        before = status()[stopped]
        assert before["query"]["state"] == "stopped"
        assert f"medallion start {stopped}" in before["query"]["phase"]
        send(topic, events(700)[500:])
        await_that(lambda: is_read_by_others() and status()[stopped]["lag"]["count"], "the others go on", job)
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
        job = commands.start("up")
        job.await_stderr(f"{stopped} stays stopped")
        send(topic, events(900)[700:])
        await_that(lambda: is_read_by_others() and status()[stopped]["lag"]["count"], "the others go on", job)
        after = status()[stopped]
        assert (after["version"], after["query"]["state"]) == (before["version"], "stopped")
        done = commands.run("start", stopped, "--json")
        answer = json.loads(done.stdout)
        assert (answer["was_stopped"], answer["by_running_job"]) == (True, True)
        await_that(lambda: is_caught_up(commands), "the query has read what waited", job)
        assert status()[stopped]["query"]["state"] in {"waiting", "working"}
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
