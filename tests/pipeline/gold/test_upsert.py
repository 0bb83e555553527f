"""The newest row per key: what is written for a micro-batch, and how its tables are laid.

Its rows stand as cases in tests/spec/gold; tests/spark/gold/test_latest_per_key.py has the order among equal
versions, and test_random.py compares the table after every micro-batch and every replay.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Storage, Topic, Upsert
from common.errors import TableShapeError
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = (
    "k string, version int, country string, amount double, note string, _kafka_topic string,"
    "_kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
LATEST = Upsert("latest", reads="silver.orders", key=["k"], newest_by=["version"])
BY_COUNTRY = Aggregate("by_country", reads="silver.orders", by=["country"], measures={"total": "sum(amount)"})


class Rows:
    """Silver rows; each gets the next offset."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self, k: str, version: int | None, note: str = "") -> tuple[Any, ...]:
        self.offset += 1
        return (k, version, "de", 1.0, note, "t", 0, self.offset, NOON, NOON)


def engine_of(spark: Any, folder: Path, *gold: Any, settings: tuple[str, ...] = ()) -> Engine:
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=gold)
    return Engine(spark, pipeline, make_settings(folder, "none:1", *settings))


def test_a_micro_batch_of_older_rows_rewrites_no_file(spark: Any, tmp_path: Path) -> None:
    """And says so in its commit."""
    engine, row = engine_of(spark, tmp_path, LATEST), Rows()
    commits = [
        [row("a", 5), row("b", None), row("c", 1)],
        [row("a", 4), row("b", 0), row("d", None)],
        [row("a", 3), row("d", None), row("b", None)],
    ]
    # Of equal versions the row that came first by its place among Kafka's records is the older one.
    commits[2][1] = (*commits[2][1][:7], 0, *commits[2][1][8:])
    for commit in commits:
        engine.append("silver.orders", commit, SCHEMA)
        engine.run("gold")
    files = [engine.files("gold.latest", version) for version in (1, 2, 3)]
    assert files[1] != files[0]
    assert files[2] == files[1]
    assert [told["counts"]["written"] for told in engine.commits("gold.latest")] == [3, 2, 0]


def test_a_measure_of_another_type_needs_another_table(spark: Any, tmp_path: Path) -> None:
    engine = engine_of(spark, tmp_path, BY_COUNTRY)
    engine.append("silver.orders", [Rows()("a", 1)], SCHEMA)
    engine.run("gold")
    changed = replace(BY_COUNTRY, measures={"total": "cast(sum(amount) as float)"})
    with pytest.raises(TableShapeError, match=r"gold\.by_country .*total is double, declared float"):
        engine_of(spark, tmp_path, changed).run("gold")


def test_deleted_keys_of_a_clustered_table_fill_several_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their table lacks the columns by which the table of the rows is clustered."""
    monkeypatch.setattr("common.rows.spark_rows._ROWS_PER_FILE", 1)
    latest = replace(LATEST, delete_when="note = 'ends'", storage=Storage(cluster_by=["country"]))
    engine, row = engine_of(spark, tmp_path, latest, settings=("driver.batch_rows=0",)), Rows()
    came = [row("a", 1, "ends"), row("b", 2, "ends"), row("c", 1, "kept"), row("d", 1, "kept")]
    engine.append("silver.orders", came, SCHEMA)
    engine.run("gold")
    deleted = engine.rows("gold.latest__deleted")
    assert sorted((each["k"], each["version"]) for each in deleted) == [("a", 1), ("b", 2)]
    assert sorted(each["k"] for each in engine.rows("gold.latest")) == ["c", "d"]
    assert len(engine.files("gold.latest__deleted")) == len(deleted)
