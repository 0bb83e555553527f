"""Functions of the user that are told of micro-batches and failures, beside real queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming import StreamingQueryListener

from common.declare import BatchSink, MemorySink, Pipeline, Publish, Topic
from common.errors import QueryFailedError
from orchestration.run.recorder import Recorder, recording
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine

SCHEMA = (
    "k string, _kafka_topic string, _kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp,"
    "_ingested_at timestamp"
)


class Listener(StreamingQueryListener):
    """Keeps the names of queries that made progress with rows, and raises each time."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        if event.progress.numInputRows:
            self.seen.append(event.progress.name)
        raise RuntimeError("of the listener")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        pass


def refuse(rows: Any, batch_id: int, token: str) -> None:
    raise ValueError("the other system is out of order")


def ended_by_failure(supervisor: Supervisor) -> None:
    with pytest.raises(QueryFailedError, match="out of order"):
        supervisor.run()


def await_that(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_functions_and_listeners_are_told_and_what_they_raise_harms_no_query(
    spark: Any, tmp_path: Path
) -> None:
    batches, failures, kept, listener = [], [], MemorySink(), Listener()

    def on_batch(record: Any) -> None:
        batches.append(record)
        raise RuntimeError("of the function")

    pipeline = Pipeline(
        "shop",
        bronze=[Topic("orders")],
        publish=[
            Publish("good", reads="silver.orders", to=kept, columns=["k"]),
            Publish("bad", reads="silver.orders", to=BatchSink(refuse)),
        ],
        on_batch=on_batch,
        on_failure=failures.append,
        listeners=[listener],
    )
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "history.interval_seconds=0"))
    engine.append("silver.orders", [("a", "t", 0, 0, None, None)], SCHEMA)
    wiring = Wiring(spark, pipeline, engine.settings, engine.layout, "")
    supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
    spark.streams.addListener(listener)
    recorder = Recorder(pipeline, engine.settings, engine.layout, "gold", supervisor)
    with recording(recorder):
        supervisor.start(wiring.publications(), when=wiring.has_begun)
        running = threading.Thread(target=ended_by_failure, args=[supervisor])
        running.start()
        try:
            await_that(lambda: batches and failures and listener.seen)
            engine.append("silver.orders", [("b", "t", 0, 1, None, None)], SCHEMA)
            await_that(lambda: len(batches) == 2)
        finally:
            supervisor.end()
            running.join()
            spark.streams.removeListener(listener)
    assert kept.rows == [{"k": "a"}, {"k": "b"}]
    assert [(one.query, one.batch_id, one.rows, one.job) for one in batches] == [
        ("publish.good", 0, 1, "gold"),
        ("publish.good", 1, 1, "gold"),
    ]
    (failure,) = failures
    assert (failure.query, failure.is_restarted, failure.job) == ("publish.bad", False, "gold")
    assert failure.error == "publish.bad failed: the other system is out of order"
    assert set(listener.seen) >= {"publish.good"}
