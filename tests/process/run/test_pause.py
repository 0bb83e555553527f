"""A machine that is suspended for two minutes: its job goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from common.declare import Message
from tests.support.pages import address, of_tables, seen, unready
from tests.support.processes import await_that, medallion

PAUSED_SECONDS = 125
FAILING_SECONDS = 75
"""Sixty heartbeats that fail, one a second, ended the driver."""

PIPELINE = """
from medallion import Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="paused",
    bronze=[Topic("{topic}")],
    silver=[
        Silver(
            "numbers", reads="bronze.{topic}", value=Json("id int, at timestamp"), columns=["id", "at"],
            key=["id"], event_time="at", watermark="1 day",
        )
    ],
)
"""


def message(number: int) -> Message:
    return Message(b"k", b'{"id": %d, "at": "2026-01-05T12:00:00Z"}' % number)


@pytest.mark.long
def test_a_job_goes_on_after_a_pause_of_two_minutes(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """The driver was removed for lack of heartbeats, and ended with exit code 56 minutes later."""
    (tmp_path / "paused.py").write_text(PIPELINE.format(topic=topic))
    send(topic, [message(1)])
    with medallion(tmp_path, tmp_path / "paused.py", f"kafka.bootstrap_servers={broker}") as commands:
        beats = (
            """spark.conf={"spark.executor.heartbeatInterval": "1s", "spark.network.timeoutInterval": "1s"}"""
        )
        command = commands.start("up", more=(beats, "http.address=127.0.0.1:0"))

        def ids() -> list[int]:
            path = commands.layout.table_path("silver.numbers")
            if not DeltaTable.is_deltatable(path):
                return []
            return sorted(DeltaTable(path).to_pyarrow_table(columns=["id"])["id"].to_pylist())

        await_that(lambda: ids() == [1], "silver has the first record", command)
        page = address(command)
        os.killpg(command.pid, signal.SIGSTOP)
        time.sleep(PAUSED_SECONDS)
        asked = commands.run("status", "--json")
        assert asked.code() == 1
        beside = json.loads(asked.stdout)
        assert {one["query"]["state"] for one in beside["tables"]} == {"dead"}
        os.killpg(command.pid, signal.SIGCONT)
        await_that(lambda: unready(page) == set(), "the job is ready again", command)
        send(topic, [message(2)])
        await_that(lambda: ids() == [1, 2], "silver has what came after the pause", command)
        time.sleep(FAILING_SECONDS)
        send(topic, [message(3)])
        await_that(lambda: ids() == [1, 2, 3], "the job lives", command)
        assert (unready(page), seen(page)) == (set(), {})
        assert set(of_tables(page, "medallion_query_restarts_total").values()) == {0}
        command.signal(signal.SIGINT)
        assert command.code() == 0
