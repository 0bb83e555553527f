"""Rows sent to files, to a function and to memory: each once, through failures between the writes."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

from common.declare import BatchSink, FileSink, Json, MemorySink, Pipeline, Publish, Rule, Silver, Topic
from common.errors import CheckpointMismatchError, PipelineError, QueryFailedError
from common.machine.storage_folder import StorageFolder
from tests.conftest import make_settings
from tests.support.engine import Engine

SCHEMA = (
    "k string, n int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)
COLUMNS = ["k", "n"]
FIRST, SECOND = [("a", 1), (None, 2), ("", 3)], [('a,b\n"c"', 4), ("a", 1)]


class Store:
    """A database that keeps the token of each micro-batch with its rows, in one transaction."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.calls: list[tuple[int, str]] = []
        self.dies = ""
        with sqlite3.connect(file) as database:
            database.execute("create table rows (k text, n int)")
            database.execute("create table tokens (token text primary key)")

    def write(self, rows: Any, batch_id: int, token: str) -> None:
        self.calls.append((batch_id, token))
        found = [tuple(row) for row in rows.collect()]
        if self.dies == "before":
            raise OSError("before the write")
        with sqlite3.connect(self.file) as database:
            if database.execute("select 1 from tokens where token = ?", [token]).fetchone() is None:
                database.executemany("insert into rows values (?, ?)", found)
                database.execute("insert into tokens values (?)", [token])
        if self.dies == "after":
            raise OSError("after the write")

    def rows(self) -> Counter[tuple[Any, ...]]:
        with sqlite3.connect(self.file) as database:
            return Counter(database.execute("select k, n from rows").fetchall())


class Sent:
    """Three publications to files, one to a function, one to memory."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder, self.store, self.memory = folder, Store(folder / "store.db"), MemorySink()
        sinks = {
            "parquet": FileSink(str(folder / "parquet")),
            "jsonl": FileSink(str(folder / "jsonl"), format="jsonl"),
            "csv": FileSink(str(folder / "csv"), format="csv"),
            "store": BatchSink(self.store.write),
            "memory": self.memory,
        }
        publish = [
            Publish(name, reads="silver.orders", to=sink, columns=COLUMNS, where="n > 0")
            for name, sink in sinks.items()
        ]
        pipeline = Pipeline("shop", bronze=[Topic("orders")], publish=publish)
        self.engine = Engine(spark, pipeline, make_settings(folder, "none:1"))

    def bring(self, pairs: list[tuple[str | None, int]]) -> None:
        rows = [(k, n, "t", 0, n, None, None) for k, n in pairs]
        self.engine.append("silver.orders", rows, SCHEMA)

    def whole(self, name: str) -> list[Path]:
        """The files that manifests name."""
        manifests = sorted((self.folder / name / "_manifest").glob("0*.json"))
        return [
            self.folder / name / file for one in manifests for file in json.loads(one.read_text())["files"]
        ]

    def rows(self, name: str) -> Counter[tuple[Any, ...]]:
        """Rows of all files in the folder, which are those that manifests name."""
        files = self.whole(name)
        found = {
            file for file in (self.folder / name).glob("batch=*/*") if not file.name.startswith(("_", "."))
        }
        assert set(files) == found
        if name == "parquet":
            tables = [pq.read_table(file, partitioning=None) for file in files]
            return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())
        if name == "jsonl":
            lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
            return Counter((line["k"], line["n"]) for line in lines)
        readers = (csv.DictReader(file.read_text().splitlines()) for file in files)
        return Counter((row["k"], int(row["n"])) for reader in readers for row in reader)

    def everywhere(self) -> dict[str, Counter[tuple[Any, ...]]]:
        found = {name: self.rows(name) for name in ("parquet", "jsonl")}
        found["memory"] = Counter((row["k"], row["n"]) for row in self.memory.rows)
        return found | {"store": self.store.rows()}


def everywhere(rows: list[tuple[str | None, int]]) -> dict[str, Counter[tuple[Any, ...]]]:
    return {name: Counter(rows) for name in ("parquet", "jsonl", "memory", "store")}


@contextmanager
def no_manifest() -> Iterator[None]:
    """The process dies after the files of a micro-batch and before its manifest."""
    write = StorageFolder.write

    def dying(self: StorageFolder, name: str, content: bytes) -> None:
        if self.path.endswith("_manifest") and name.startswith("0"):
            raise OSError("no space for the manifest")
        write(self, name, content)

    with mock.patch.object(StorageFolder, "write", dying):
        yield


@pytest.fixture(scope="module")
def sent(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Sent:
    return Sent(spark, tmp_path_factory.mktemp("sinks"))


def test_rows_are_sent_once_through_failures_before_and_after_each_write(sent: Sent) -> None:
    sent.bring(FIRST)
    sent.engine.publish()
    assert sent.everywhere() == everywhere(FIRST)
    assert sent.rows("csv") == Counter([("a", 1), ("", 2), ("", 3)])  # a CSV reader tells no null from ""
    sent.bring(SECOND)
    for dies in ("before", "after"):
        sent.store.dies = dies
        with no_manifest(), pytest.raises((QueryFailedError, OSError)):
            sent.engine.publish()
    sent.store.dies = ""
    sent.engine.publish()
    assert sent.everywhere() == everywhere(FIRST + SECOND)
    second = {token for batch_id, token in sent.store.calls if batch_id == 1}
    assert len(second) == 1
    # Files, database and memory have the micro-batch, and the checkpoint does not know it.
    for name in ("parquet", "jsonl", "csv", "store", "memory"):
        sent.engine.undo_last_commit(f"publish.{name}")
    before = sent.whole("parquet")
    sent.engine.publish()
    assert sent.everywhere() == everywhere(FIRST + SECOND)
    assert sent.whole("parquet") == before


def test_a_micro_batch_without_rows_leaves_no_file(sent: Sent) -> None:
    before = sent.whole("parquet")
    sent.bring([("not sent", -1)])
    sent.engine.publish()
    assert sent.whole("parquet") == before
    assert len(list((sent.folder / "parquet" / "_manifest").glob("0*.json"))) == 3


def test_spark_reads_the_folder_as_one_table(sent: Sent) -> None:
    rows = sent.engine.spark.read.parquet(str(sent.folder / "parquet"))
    assert Counter((row["k"], row["n"]) for row in rows.collect()) == sent.rows("parquet")
    assert {row["batch"] for row in rows.collect()} == {0, 1}


def test_a_folder_of_another_checkpoint_is_refused_and_kept(sent: Sent) -> None:
    before = sent.rows("parquet")
    sent.engine.remove(sent.engine.checkpoint("publish.parquet"))
    with pytest.raises(CheckpointMismatchError, match=r"another checkpoint.*new path"):
        sent.engine.publish()
    assert sent.rows("parquet") == before


def test_csv_without_a_place_for_a_value_is_refused(spark: Any, sent: Sent) -> None:
    publish = Publish(
        "nested",
        reads="silver.orders",
        to=FileSink(str(sent.folder / "nested"), format="csv"),
        columns={"all": "struct(k, n)"},
    )
    pipeline = Pipeline("shop", bronze=[Topic("orders")], publish=[publish])
    with pytest.raises(PipelineError, match=r"a CSV file cannot hold all: write to_json"):
        Engine(spark, pipeline, sent.engine.settings).publish()


def came(partition: int, offset: int, value: bytes | None) -> tuple[Any, ...]:
    """A record in bronze."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return ("orders", partition, offset, at, 0, at, b"k", value, None)


@pytest.mark.long
def test_bronze_and_quarantine_are_sent_as_they_came(spark: Any, tmp_path: Path) -> None:
    """Bytes, coordinates and reasons; a change of the table's files, as retention makes it, sends nothing."""
    raw, aside = MemorySink(), MemorySink()
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id string, n int, at timestamp"),
        columns=["id", "n", "at"],
        key=["id"],
        event_time="at",
        watermark="1 day",
        rules=[Rule("positive", "n > 0")],
    )
    publish = [
        Publish("raw", reads="bronze.orders", to=raw, where="partition = 0"),
        Publish("aside", reads="silver.orders__quarantine", to=aside, columns=["offset", "reasons", "value"]),
    ]
    pipeline = Pipeline("shop", bronze=[Topic("orders")], silver=[silver], publish=publish)
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    good = b'{"id": "a", "n": 1, "at": "2026-01-01T00:00:00Z"}'
    bad = b'{"id": "b", "n": 0, "at": "2026-01-01T00:00:00Z"}'
    values = [good, bad, b"\xff\x00", None]
    engine.append_bronze("bronze.orders", [came(0, n, each) for n, each in enumerate(values)])
    engine.append_bronze("bronze.orders", [came(1, 0, good)])
    engine.run("silver")
    engine.publish()
    assert sorted((row["offset"], row["value"]) for row in raw.rows) == list(enumerate(values))
    found = {row["offset"]: (row["reasons"], bytes(row["value"])) for row in aside.rows}
    assert found == {1: (["positive"], bad), 2: (["not_utf8"], values[2])}
    spark.sql(f"OPTIMIZE delta.`{engine.path('bronze.orders')}`")
    engine.append_bronze("bronze.orders", [came(0, 4, bad)])
    engine.run("silver")
    engine.publish()
    assert Counter(row["offset"] for row in raw.rows) == Counter(range(5))
    assert Counter(row["offset"] for row in aside.rows) == Counter([1, 2, 4])
