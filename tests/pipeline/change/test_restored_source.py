"""Silver is RESTOREd and put back by another RESTORE: no gold table counts a row twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from common.declare import Aggregate, Custom, Gold, Join, Upsert, Window
from common.errors import ForeignChangeError, HistoryGoneError
from orchestration.change.recover.carry_out import recover_all
from tests.conftest import make_settings
from tests.pipeline.change.test_restore import PIPELINE
from tests.support.engine import Engine

SCHEMA = (
    "k string, version int, at timestamp, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)
READS = "silver.orders"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def copy(rows: Any, writer: Any) -> None:
    """The function of a Custom."""
    writer.append(rows.select("k", "version"), "copied")


APPENDS: tuple[Gold, ...] = (
    Aggregate("updated", reads=READS, by=["k"], measures={"n": "count(*)"}, mode="update"),
    Aggregate("replaced", reads=READS, by=["k"], measures={"n": "count(*)"}, mode="complete"),
    Join("looked_up", reads=READS, joins="gold.latest", on=["k"], columns=["k"], mode="lookup"),
    Custom("copied", reads=READS, tables={"copied": "k string, version int"}, write=copy),
)
"""Kinds that read what is added to silver."""
IN_ORDER = Aggregate(
    "windows",
    reads=READS,
    by=["k"],
    measures={"n": "count(*)"},
    window=Window("at", "1 hour"),
    watermark="1 day",
    mode="update",
)
"""A kind that reads silver's commits from the first on."""
FEED: tuple[Gold, ...] = (
    Upsert("latest", reads=READS, key=["k"], newest_by=["version"]),
    Aggregate("recomputed", reads=READS, by=["k"], measures={"n": "count(*)"}, mode="recompute"),
)
"""Kinds that follow removed rows."""


def content(engine: Engine, tables: tuple[Gold, ...]) -> dict[str, Counter[str]]:
    """Rows of gold tables."""
    return {one.table: Counter(map(repr, engine.rows(one.table))) for one in tables}


@pytest.mark.long
def test_rows_that_a_restore_brings_back_are_counted_once(spark: Any, tmp_path: Any) -> None:
    pipeline = replace(PIPELINE, gold=[*FEED, *APPENDS, IN_ORDER])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    for number in range(3):
        rows = [(k, number, NOON, "t", 0, 10 * number + place, NOON, NOON) for place, k in enumerate("abc")]
        engine.append(READS, rows, SCHEMA)
        if number == 0:
            table = f"delta.`{engine.path(READS)}`"
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    engine.run("gold")
    before = content(engine, (*FEED, *APPENDS, IN_ORDER))
    newest = engine.version(READS)
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest - 1}")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {newest}")
    for gold in (*APPENDS, IN_ORDER):
        alone = Engine(spark, replace(pipeline, gold=[*FEED, gold]), engine.settings)
        with pytest.raises(ForeignChangeError, match=f"RESTORE.* medallion recover {gold.table}"):
            alone.run("gold")
        recovered = recover_all(
            alone.pipeline, engine.settings, engine.layout, only=gold.table, spark=lambda: spark
        )
        assert [step.query for step in recovered.steps] == [gold.table]
        if gold is IN_ORDER:
            with pytest.raises(HistoryGoneError, match=r'is a RESTORE.*mode="recompute"'):
                alone.run("gold")
            again = replace(gold, mode="recompute", watermark=None)
            Engine(spark, replace(pipeline, gold=[*FEED, again]), engine.settings).run("gold")
        else:
            alone.run("gold")
    assert content(engine, (*FEED, *APPENDS, IN_ORDER)) == before
    Engine(spark, replace(pipeline, gold=[*FEED, *APPENDS]), engine.settings).run("gold")
    assert content(engine, (*FEED, *APPENDS, IN_ORDER)) == before
