"""Spark's heap does not grow with the number of micro-batches and restarts that one process has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common.declare import Aggregate, Pipeline, Topic
from tests.conftest import make_settings
from tests.pipeline.silver.test_exact import FIRST, LATEST
from tests.pipeline.silver.test_verbs import event, records
from tests.support import heap
from tests.support.engine import Engine

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
    before = heap.settled(spark, {heap.QUERY: 3, heap.SESSION: 9, heap.PLAN: 30})
    for number in range(1, RESTARTS + 1):
        restart(number)
    assert len(engine.rows("gold.totals")) == RESTARTS + 1
    bounds = {heap.QUERY: 3, heap.SESSION: before[heap.SESSION] + 3, heap.PLAN: before[heap.PLAN] + 20}
    found = heap.settled(spark, bounds)
    assert all(found[name] <= most for name, most in bounds.items()), (before, found)
