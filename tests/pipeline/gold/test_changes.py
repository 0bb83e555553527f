"""Change feeds: values that a change leaves as they were, columns that come, files that are not read.

Keys that are deleted and come back, and rows that silver takes back: test_random.py, beside DuckDB; and,
with each write cut off at every point, tests/spark/gold/test_outcome_in_spark.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from common.declare import ChangeFeed, Pipeline, Storage, Topic, Upsert
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.errors import ChangeRefusedError
from silver.write.table_columns import properties
from tests.conftest import make_settings
from tests.support.engine import Engine

UNAVAILABLE = "__debezium_unavailable_value"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COORDINATES = ("_kafka_timestamp", "_kafka_topic", "_kafka_partition", "_kafka_offset")
SCHEMA = (
    "k string, part int, version int, op string, note string, _kafka_topic string,"
    "_kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
LATEST = Upsert("latest", reads="silver.changes", key=["k", "part"], newest_by=["version"])
LIVING = Upsert(
    "living",
    reads="silver.changes",
    key=["id"],
    newest_by=["newness"],
    columns={"id": "upper(k)", "newness": "version", "told": "note"},
    delete_when="op = 'd' or note = 'void'",
    unchanged=UNAVAILABLE,
)
COPY = ChangeFeed("copy", reads="silver.changes", key=["k", "part"], sequence_by=["version"])
TABLES = (LIVING, COPY)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=TABLES)


class Source:
    """A silver table that keeps a change data feed; each call is one commit in it."""

    def __init__(self, engine: Engine, table: str = "silver.changes") -> None:
        self.engine, self.table, self.offset = engine, table, 0
        schema = engine.spark.createDataFrame([], SCHEMA).schema
        delta_table.ensure(engine.spark, table, engine.path(table), schema, properties())

    def row(
        self, k: str | None, version: int | None, op: str = "u", note: str = "", part: int | None = 0
    ) -> tuple[Any, ...]:
        """A row at the next offset."""
        self.offset += 1
        at = NOON + timedelta(seconds=self.offset % 3)
        return (k, part, version, op, note or f"n{self.offset}", "t", 0, self.offset, at, NOON)

    def insert(self, *rows: tuple[Any, ...]) -> None:
        self.engine.append(self.table, rows, SCHEMA)

    def delete(self, condition: str) -> None:
        self._table().delete(condition)

    def update(self, condition: str, **values: str) -> None:
        self._table().update(condition, values)

    def _table(self) -> Any:
        from delta.tables import DeltaTable as Written

        return Written.forPath(self.engine.spark, self.engine.path(self.table))


def notes(engine: Engine, table: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Version and note of gold's own commits, newest first."""
    for one in engine.history(table):
        if "batch_id" in (told := json.loads(one.get("userMetadata", "{}"))):
            yield one["version"], told


@pytest.mark.long
def test_a_value_that_a_change_leaves_as_it_was_stays(spark: Any, tmp_path: Path) -> None:
    """In one micro-batch and over several, also where it comes late; after a delete it is unknown."""
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    source = Source(engine)
    left = {"note": UNAVAILABLE}

    def notes_after(*rows: tuple[Any, ...]) -> dict[str, Any]:
        source.insert(*rows)
        engine.run("gold")
        copied = {row["k"]: (row["version"], row["note"]) for row in engine.rows(COPY.table)}
        living = {row["id"].lower(): (row["newness"], row["told"]) for row in engine.rows(LIVING.table)}
        assert living == copied
        return copied

    first = [source.row("a", 1, "c", "long"), source.row("b", 1, "c", "long"), source.row("b", 2, **left)]
    assert notes_after(*first, source.row("c", 5, **left)) == {
        "a": (1, "long"),
        "b": (2, "long"),
        "c": (5, None),
    }
    # A change alone; two of one key; one after a delete; the value of c comes late, and an older one of it.
    second = [source.row("a", 2, **left), source.row("b", 3, "u", "new"), source.row("b", 4, **left)]
    assert notes_after(*second, source.row("c", 4, "u", "late"), source.row("d", 9, **left)) == {
        "a": (2, "long"),
        "b": (4, "new"),
        "c": (5, "late"),
        "d": (9, None),
    }
    third = [source.row("a", 3, "d"), source.row("a", 5, **left), source.row("c", 3, "u", "later")]
    assert notes_after(*third, source.row("b", 6, **left), source.row("b", 5, "u", "between")) == {
        "a": (5, None),
        "b": (6, "between"),
        "c": (5, "late"),
        "d": (9, None),
    }
    assert notes_after(source.row("a", 4, "c", "again"), source.row("b", 1, "u", "old")) == {
        "a": (5, "again"),
        "b": (6, "between"),
        "c": (5, "late"),
        "d": (9, None),
    }
    counts = next(notes(engine, COPY.table))[1]["counts"]
    # What is older than what the table has may change it, and is looked for in silver; b is not written.
    assert counts == {"keys": 2, "written": 1, "deleted": 0, "recomputed": 2}


@pytest.mark.long
def test_of_a_table_laid_by_key_a_micro_batch_reads_the_files_of_its_keys_alone(
    spark: Any, tmp_path: Path
) -> None:
    """All other files of both tables are taken away: what looked into one would fail."""
    settings = make_settings(tmp_path, "none:1", "gold.max_files_per_trigger=1")
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=[COPY]), settings)
    source = Source(engine)
    source.insert(source.row("a0", 0))
    engine.run("gold")
    for letter in "abcd":
        source.insert(*(source.row(f"{letter}{n}", 5) for n in range(1, 9)), source.row(f"{letter}9", 5, "d"))
    engine.run("gold")
    assert min(len(engine.files(table)) for table in (COPY.table, COPY.deleted)) >= 4
    kept = {}
    for table in (COPY.table, COPY.deleted):
        for uri in engine.files(table):
            file = Path(urlparse(uri).path)
            keys = {row["k"] for row in spark.read.parquet(str(file)).select("k").collect()}
            if keys & {"c1", "c9"}:
                kept[table] = uri
            elif keys:
                file.unlink()
    assert set(kept) == {COPY.table, COPY.deleted}
    source.insert(source.row("c1", 6), source.row("c2", 6, "d"), source.row("c9", 4), source.row("c9", 7))
    engine.run("gold")
    for table in (COPY.table, COPY.deleted):
        assert kept[table] not in engine.files(table)
        merge = LogReader(engine.path(table)).commit(engine.version(table))
        assert merge is not None
        assert merge.operation == "MERGE"
        assert merge.removed_files == 1
    is_of_c = {row["k"]: row["version"] for row in spark_rows(engine, COPY.table, "k between 'c' and 'cz'")}
    assert is_of_c == {**{f"c{n}": 5 for n in range(3, 9)}, "c1": 6, "c9": 7}


def spark_rows(engine: Engine, table: str, condition: str) -> list[Any]:
    rows: list[Any] = engine.spark.read.format("delta").load(engine.path(table)).where(condition).collect()
    return rows


@pytest.mark.long
def test_a_row_that_a_newer_one_replaces_in_silver_asks_silver_for_nothing(
    spark: Any, tmp_path: Path
) -> None:
    """As a table with keep="newest" replaces its rows."""
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    source = Source(engine)
    source.insert(*(source.row(k, 1) for k in "abc"))
    engine.run("gold")
    source.update("k <> 'c'", version="2", note="'newer'", _kafka_offset="_kafka_offset + 100")
    engine.run("gold")
    assert {row["k"]: row["version"] for row in engine.rows(COPY.table)} == {"a": 2, "b": 2, "c": 1}
    assert {row["id"]: row["told"] for row in engine.rows(LIVING.table) if row["newness"] == 2} == {
        "A": "newer",
        "B": "newer",
    }
    for gold in TABLES:
        counts = next(notes(engine, gold.table))[1]["counts"]
        assert counts == {"keys": 2, "written": 2, "deleted": 0, "recomputed": 0}


@pytest.mark.long
def test_a_change_feed_gets_the_columns_that_silver_gets(spark: Any, tmp_path: Path) -> None:
    """Rows from then on have values in them; the columns' order is silver's."""
    clustered = replace(COPY, storage=Storage(cluster_by=["k"], change_feed=True))
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders")],
        gold=[clustered, replace(LATEST, storage=Storage(partition_by=["part"]))],
    )
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    source = Source(engine)
    source.insert(source.row("a", 1), source.row("b", 1), source.row("c", 1, "d"))
    engine.run("gold")
    field = engine.spark.createDataFrame([], "city string").schema[0]
    delta_table.add_columns(engine.spark, "shop", "silver.changes", engine.path("silver.changes"), [field])
    rows = [(*source.row(k, 2, op), city) for k, op, city in (("a", "u", "Bern"), ("c", "c", "Ulm"))]
    engine.append("silver.changes", rows, f"{SCHEMA}, city string")
    engine.run("gold")
    found = {row["k"]: row["city"] for row in engine.rows(clustered.table)}
    assert found == {"a": "Bern", "b": None, "c": "Ulm"}
    assert engine.rows(clustered.deleted) == []
    latest = engine.rows(LATEST.table)
    assert {row["k"]: row["version"] for row in latest} == {"a": 2, "b": 1, "c": 2}
    assert "city" not in latest[0]


@pytest.mark.long
def test_a_change_of_no_known_kind_stops_the_query_until_it_is_declared(spark: Any, tmp_path: Path) -> None:
    """A message is passed over, a truncation is not; what was before it leaves as silver's rows do."""
    engine = Engine(spark, replace(PIPELINE, gold=[COPY]), make_settings(tmp_path, "none:1"))
    source = Source(engine)
    source.insert(source.row("a", 1), source.row("b", 1), source.row("m", 1, "m"))
    engine.run("gold")
    assert {row["k"] for row in engine.rows(COPY.table)} == {"a", "b"}
    source.insert(source.row("x", 5, "t"), source.row("b", 9))
    with pytest.raises(ChangeRefusedError, match=r"gold\.copy.* 1 keys .* t/0/4\. .*truncation") as refused:
        engine.run("gold")
    assert "x" not in str(refused.value).split("truncation")[0].split()
    assert "declare truncates=\"op = 't'\", and then: medallion rebuild gold.copy" in str(refused.value)
    assert {row["k"]: row["version"] for row in engine.rows(COPY.table)} == {"a": 1, "b": 1}
    source.delete("version < 5")
    going_on = Engine(spark, replace(PIPELINE, gold=[replace(COPY, ignores=("m", "t"))]), engine.settings)
    going_on.run("gold")
    assert {row["k"]: row["version"] for row in engine.rows(COPY.table)} == {"b": 9}
