"""A process killed while a query plans its first micro-batch leaves a checkpoint that starts again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from common.declare import (
    Aggregate,
    ConsoleSink,
    Custom,
    History,
    Join,
    Json,
    Pipeline,
    Publish,
    Silver,
    Topic,
    Upsert,
)
from gold.custom import Writer
from tests.conftest import make_settings
from tests.support.crashes import die_before_the_first_batch
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
READS = "silver.orders"


def copy(rows: DataFrame, gold: Writer) -> None:
    """The function of a Custom."""
    gold.append(rows.select("id"), "copied")


PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id int, ms bigint"),
            columns={"id": "id", "ordered_at": "timestamp_millis(ms)"},
            key=["id"],
            event_time="ordered_at",
            watermark="7 days",
        )
    ],
    gold=[
        Upsert("latest", reads=READS, key=["id"], newest_by=["ordered_at"]),
        Aggregate("counts", reads=READS, by=["id"], measures={"rows": "count(*)"}, mode="recompute"),
        Aggregate("totals", reads=READS, by=["id"], measures={"rows": "count(*)"}, mode="update"),
        History("states", reads=READS, key=["id"], valid_by="ordered_at", columns=["ordered_at"]),
        Join("with_latest", reads=READS, joins="gold.latest", on=["id"], columns=["id"], mode="lookup"),
        Custom("copied", reads=READS, tables={"copied": "id int"}, write=copy),
    ],
    publish=[Publish("sent", reads="gold.latest", to=ConsoleSink())],
)


@pytest.mark.long
def test_a_kill_before_the_first_micro_batch_stops_no_query(spark: Any, tmp_path: Path) -> None:
    """Spark's own start check refuses any entry in ``offsets`` where no micro-batch is planned."""
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    values = [json.dumps({"id": n, "ms": n}).encode() for n in range(3)]
    rows = [("orders", 0, n, NOON, 0, NOON, None, value, None) for n, value in enumerate(values)]
    engine.append_bronze("bronze.orders", rows)
    tables = [declared.table for declared in (*PIPELINE.silver, *PIPELINE.gold, *PIPELINE.publish)]
    left = [file for table in tables for file in die_before_the_first_batch(engine.checkpoint(table))]
    engine.run("silver", "gold")
    engine.publish()
    for table in tables:
        assert (engine.checkpoint(table) / "commits" / "0").exists()
    for table in ("silver.orders", "gold.latest", "gold.counts", "gold.states", "gold.copied"):
        assert sorted(row["id"] for row in engine.rows(table)) == [0, 1, 2]
    assert not any(file.exists() for file in left)
