"""Logs as JSON and Spark's own metrics, of a job whose queries run."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.declare import Message
from tests.support.processes import await_that, medallion

pytestmark = pytest.mark.long

_PIPELINE = """
from medallion import Json, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=[{topic!r}])],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id int, at timestamp"),
            columns={{"id": "id", "at": "at"}},
            key=["id"],
            event_time="at",
            watermark="1 day",
            rules=[Rule("known", "id <> 13", on_fail="fail")],
        )
    ],
)
"""


def order(number: int) -> Message:
    return Message(None, json.dumps({"id": number, "at": "2026-01-01T00:00:00Z"}).encode())


def events(file: Path) -> list[dict[str, Any]]:
    """The events of a log; every line is one JSON object."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_embedded_broker_and_a_page_alone_write_json_too(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(_PIPELINE.format(topic="orders"))
    with medallion(tmp_path, file, "log.format=json") as commands:
        page = commands.start("page", "--http", "127.0.0.1:0")
        up = commands.start("up")
        page.await_stderr("page at http://")
        up.await_stderr("broker ready after")
        up.signal(signal.SIGTERM)
        up.code()
        lines = [line for one in (page, up) for line in one.stderr.splitlines() if line.strip()]
    assert {json.loads(line)["pipeline"] for line in lines} == {"shop"}


def test_each_line_is_json_with_query_and_micro_batch_and_spark_metrics_are_served(
    broker: str, new_topic: Callable[[], str], send: Callable[..., None], tmp_path: Path
) -> None:
    topic = new_topic()
    file = tmp_path / "shop.py"
    file.write_text(_PIPELINE.format(topic=topic))
    send(topic, [order(number) for number in range(10)])
    given = (f"kafka.bootstrap_servers={broker}", "log.format=json", "http.spark_metrics=true")
    with medallion(tmp_path, file, *given) as commands:
        up = commands.start("up", "--fail-fast", "--http", "127.0.0.1:0")
        up.await_stderr("page at http://")
        found = re.search(r"page at (http://[^\s\"]+)", up.stderr)
        assert found is not None
        address = found[1].rstrip("/")

        def has_metrics() -> bool:
            with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:  # noqa: S310  # its own address
                text = answer.read().decode()
            return all(
                f'medallion_spark_streaming_input_rate_total{{query="{query}"}}' in text
                for query in ("bronze.orders", "silver.orders")
            )

        await_that(has_metrics, "Spark's metrics of both queries are served", up)
        send(topic, [order(13)])
        await_that(lambda: not up.is_running, "the rule has stopped the job")
        stderr = [json.loads(line) for line in up.stderr.splitlines() if line.strip()]
    log = tmp_path / "data" / "shop" / "log"
    assert {event["pipeline"] for event in stderr} == {"shop"}
    from_jvm = events(log / "up.log")
    ended = [event for event in from_jvm if "terminated with error" in event["event"]]
    assert [(event["query"], event["level"]) for event in ended] == [("silver.orders", "error")]
    assert int(ended[0]["batch_id"]) >= 1
    assert {(event["pipeline"], event["job"]) for event in from_jvm} == {("shop", "up")}
    (run,) = {event["run_id"] for event in (*from_jvm, *stderr)}
    batches = [event for event in events(log / "up.python.log") if event["event"] == "micro-batch"]
    assert {event["query"] for event in batches} >= {"bronze.orders"}
    assert {event["run_id"] for event in batches} == {run}
