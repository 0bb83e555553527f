"""Starts of silver that are refused: another type, a function that filters, a log that lost its begin.

What becomes of every row: test_accounts.py, beside an oracle, and the cases of tests/spec.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from common.declare import Json, Pipeline, Rule, Silver, Topic
from common.errors import HistoryGoneError, PipelineError, QueryFailedError, TableShapeError
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAR = datetime(3000, 1, 1, tzinfo=UTC)
DDL = "id string, ms bigint, amount double"
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json(DDL),
    columns={"order_id": "id", "ordered_at": "timestamp_millis(ms)", "amount": "amount"},
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[Rule("amount_positive", "amount > 0"), Rule("amount_small", "amount < 100")],
)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], silver=[ORDERS])


def value(key: str | None, at: datetime | None, amount: float | None = 5.0) -> bytes:
    """An event's bytes."""
    ms = None if at is None else round(at.timestamp() * 1000)
    return json.dumps({"id": key, "ms": ms, "amount": amount}).encode()


def records(values: Sequence[bytes | None], first: int = 0) -> list[tuple[Any, ...]]:
    """Bronze rows at offsets from ``first`` on, all of Kafka's time NOON + 10 hours."""
    time = NOON + timedelta(hours=10)
    return [("t", 0, first + n, time, 0, time, b"k", each, None) for n, each in enumerate(values)]


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Five micro-batches of one file each."""
    settings = make_settings(tmp_path_factory.mktemp("silver"), "none:1", "silver.max_files_per_trigger=1")
    engine = Engine(spark, PIPELINE, settings)
    for offset in range(5):
        engine.append_bronze("bronze.orders", records([value(f"k{offset}", NOON)], offset))
    engine.run("silver")
    return engine


def test_a_columns_function_that_fails_on_a_value_ends_the_query_in_one_line_that_names_it(
    spark: Any, ran: Engine
) -> None:
    """Nothing of the micro-batch is written; the function is the pipeline's to mend."""

    def columns(frame: Any) -> Any:
        at, amount = F.timestamp_millis("ms").alias("ordered_at"), F.expr("cast(9e9 * amount as int) amount")
        return frame.select("_kafka", F.col("id").alias("order_id"), at, amount)

    poisoned = replace(ORDERS, name="poisoned", columns=columns, rules=[])
    engine = Engine(spark, replace(PIPELINE, silver=[poisoned]), ran.settings)
    with pytest.raises(QueryFailedError) as died:
        engine.run("silver")
    assert died.value.query == "silver.poisoned"
    assert "CAST_OVERFLOW" in str(died.value)
    assert str(died.value).startswith("silver.poisoned failed: [CAST_OVERFLOW]")
    assert "\n" not in str(died.value)
    assert engine.rows("silver.poisoned") == []


def test_a_column_of_another_type_needs_another_table(spark: Any, ran: Engine) -> None:
    changed = replace(ORDERS, columns={**dict(ORDERS.columns), "amount": "cast(amount as decimal(9,2))"})
    before = ran.version("silver.orders")
    with pytest.raises(TableShapeError, match=r"silver\.orders .*amount is double, declared decimal\(9,2\)"):
        Engine(spark, replace(PIPELINE, silver=[changed]), ran.settings).run("silver")
    assert ran.version("silver.orders") == before


def test_a_function_that_filters_stops_the_start_before_any_table_is_made(spark: Any, ran: Engine) -> None:
    odd = replace(ORDERS, name="odd", columns=lambda frame: frame.where("amount > 0"))
    engine = Engine(spark, replace(PIPELINE, silver=[odd]), ran.settings)
    with pytest.raises(PipelineError, match=r"silver\.odd.*Filter"):
        engine.run("silver")
    assert not Path(engine.path("silver.odd")).exists()


def test_without_bronzes_first_commit_a_started_table_goes_on_and_a_new_one_is_refused(
    spark: Any, ran: Engine
) -> None:
    """The last test here: it takes bronze's log apart."""
    ran.append_bronze("bronze.orders", records([value("more", NOON + timedelta(hours=10))], 5))
    DeltaTable(ran.path("bronze.orders")).create_checkpoint()
    for version in range(5):
        (Path(ran.path("bronze.orders")) / "_delta_log" / f"{version:020}.json").unlink()
    new = replace(ORDERS, name="new")
    by_log = ran.settings.silver.model_copy(update={"first_load": "log"})
    settings = ran.settings.model_copy(update={"silver": by_log})
    with pytest.raises(HistoryGoneError, match=r"bronze\.orders.*no longer begins at commit 0"):
        Engine(spark, replace(PIPELINE, silver=[new]), settings).run("silver")
    ran.run("silver")
    keys = {row["order_id"] for row in ran.rows("silver.orders")}
    assert keys == {*(f"k{offset}" for offset in range(5)), "more"}
