"""Spark's heap does not grow with the number of micro-batches and restarts that one process has seen."""

from __future__ import annotations

import gc
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Topic
from common.errors import QueryFailedError
from common.rows.collect import collect, max_concurrent_results
from silver.write.writer import Writer
from tests.conftest import make_settings
from tests.pipeline.silver.test_exact import FIRST, LATEST
from tests.pipeline.silver.test_verbs import event, records
from tests.support import heap
from tests.support.engine import Engine

pytestmark = pytest.mark.long

RESTARTS = 5
TOTALS = Aggregate("totals", reads="silver.orders", by=["order_id"], measures={"events": "count(*)"})


def test_a_query_that_has_ended_leaves_nothing_in_the_jvm(spark: Any, tmp_path: Path) -> None:
    """Three queries are, started time after time: no ended query, session or plan stays."""
    settings = make_settings(tmp_path, "none:1")
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[FIRST], gold=[LATEST, TOTALS])
    engine = Engine(spark, pipeline, settings)

    def restart(number: int) -> None:
        engine.append_bronze("bronze.orders", records([event(f"k{number}", minutes=number)], number))
        engine.run("silver", "gold")

    restart(0)
    before = heap.counts_within(spark, {heap.QUERY: 3, heap.SESSION: 9, heap.PLAN: 30})
    for number in range(1, RESTARTS + 1):
        restart(number)
    assert len(engine.rows("gold.totals")) == RESTARTS + 1
    more = {heap.QUERY: 3, heap.SESSION: 3, heap.PLAN: 20}
    bounds = {name: before[name] + most for name, most in more.items()}
    found = heap.counts_within(spark, bounds)
    assert all(found[name] <= most for name, most in bounds.items()), (before, found)


def test_a_query_that_has_died_leaves_nothing_in_the_jvm(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the error, whose traceback refers to the frames of the micro-batch."""
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], silver=[FIRST])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    engine.append_bronze("bronze.orders", records([event("k", minutes=1)], 0))

    def refuse(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(Writer, "__call__", refuse)
    # Each error is logged, and pytest keeps what is logged, traceback included, until the test is over.
    for logger in ("py4j", "medallion.supervisor"):
        monkeypatch.setattr(logging.getLogger(logger), "propagate", False)
    before = heap.live(spark, [heap.QUERY, heap.SESSION])
    bounds = {heap.QUERY: before[heap.QUERY] + 2, heap.SESSION: before[heap.SESSION] + 4}
    for _ in range(2 * RESTARTS):
        with pytest.raises(QueryFailedError, match="the disk is gone"):
            engine.run("silver")
    found = heap.counts_within(spark, bounds)
    assert all(found[name] <= most for name, most in bounds.items()), (before, found)


def test_a_frame_is_released_at_its_last_use(spark: Any) -> None:
    """Without Python's collector: it looks at everything only once hundreds of micro-batches are over."""
    gc.collect()
    gc.disable()
    try:
        before = heap.live(spark, [heap.PLAN])[heap.PLAN]
        for number in range(30):
            spark.range(number).selectExpr("id + 1 as id").where("id > 3").schema  # noqa: B018
        time.sleep(1)  # py4j tells the JVM of it from a thread of its own
        after = heap.live(spark, [heap.PLAN])[heap.PLAN]
    finally:
        gc.enable()
    assert after <= before + 3


def test_results_of_many_queries_come_into_the_heap_a_few_at_a_time(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as fit into half of the heap at their largest: with 2 GB, and 256 MB a result, three."""
    allowed, frames = max_concurrent_results(spark), [spark.range(100_000) for _ in range(12)]
    running: list[int] = []
    most = []
    real = type(frames[0]).toArrow

    def counted(frame: Any) -> Any:
        running.append(1)
        most.append(len(running))
        time.sleep(0.2)
        rows = real(frame)
        running.pop()
        return rows

    monkeypatch.setattr(type(frames[0]), "toArrow", counted)
    with ThreadPoolExecutor(len(frames)) as pool:
        results = list(pool.map(collect, frames))
    assert [len(rows) for rows in results if rows is not None] == [100_000] * len(frames)
    assert 1 <= allowed < len(frames)
    assert max(most) == allowed
