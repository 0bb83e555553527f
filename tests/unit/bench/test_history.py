"""Tables with a past: as large as asked for, and without a row for a stream to read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from common.delta.log import LogReader
from tests.bench.data import history, preloaded
from tests.bench.data.events import Stream

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
NOTE = json.dumps({"query": "gold.t", "query_id": "q", "batch_id": 7})


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "text": ["x"] * count}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    history.created(path, SCHEMA, {"delta.checkpointInterval": "100", "delta.dataSkippingStatsColumns": "id"})
    history.append(path, rows(0, 10))
    return path


def grown(table: Path) -> LogReader:
    history.grow(table, lambda number: rows(100 + number * 5, 5), 7, 40)
    return LogReader(str(table))


def test_a_table_is_made_with_the_checksum_of_its_first_commit(table: Path) -> None:
    checksum = json.loads((table / "_delta_log" / f"{0:020}.crc").read_text())
    assert json.loads(checksum["metadata"]["schemaString"])["fields"][0]["name"] == "id"
    assert checksum["protocol"]["minReaderVersion"] == 1
    assert checksum["numFiles"] == checksum["tableSizeBytes"] == 0


@pytest.mark.parametrize("files", [1, 2, 3])
def test_an_append_is_one_commit_of_so_many_files(table: Path, files: int) -> None:
    version = history.append(table, rows(10, 9), files=files)
    log = LogReader(str(table))
    commit = log.commit(version)
    assert version == log.latest_version() == 2
    assert commit is not None
    assert (commit.files, commit.rows) == (files, 9)
    assert sorted(DeltaTable(str(table)).to_pyarrow_table()["id"].to_pylist()) == list(range(19))


def test_growing_gives_files_commits_and_rows(table: Path) -> None:
    log = grown(table)
    now = log.snapshot()
    assert now is not None
    assert (now.version, now.files, now.rows) == (41, 8, 45)
    found = DeltaTable(str(table)).to_pyarrow_table()["id"].to_pylist()
    assert sorted(found) == [*range(10), *range(100, 135)]


def test_a_reader_of_new_rows_has_nothing_to_read(table: Path) -> None:
    log = grown(table)
    assert not any(commit.added or commit.removed for commit in log.commits(2))
    assert sum(commit.removed_files for commit in log.commits(2)) == 39


def test_what_the_last_commit_said_is_said_by_all(table: Path) -> None:
    commit = table / "_delta_log" / f"{1:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("commitInfo", {})["userMetadata"] = NOTE
    commit.write_text("\n".join(map(json.dumps, lines)))
    assert {one.user_metadata for one in grown(table).commits(2)} == {NOTE}


def test_the_log_ends_in_a_checkpoint_and_checksums(table: Path) -> None:
    grown(table)
    names = {file.name for file in (table / "_delta_log").iterdir()}
    assert f"{41:020}.checkpoint.parquet" in names
    checksum = json.loads((table / "_delta_log" / f"{41:020}.crc").read_text())
    sizes = DeltaTable(str(table)).get_add_actions().column("size_bytes").to_pylist()
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (8, sum(sizes))
    assert history.checkpoint_cpu(table) >= 0


def test_files_have_ranges_of_the_columns_that_the_table_has_statistics_of(table: Path) -> None:
    grown(table)
    told = DeltaTable(str(table)).get_add_actions(flatten=True)
    lows = [value for value in told.column("min.id").to_pylist() if value is not None]
    assert {100, 105, 110, 115, 120, 125, 130} <= set(lows)
    assert "min.text" not in told.schema.names


def test_more_files_than_commits_are_refused(table: Path) -> None:
    with pytest.raises(ValueError, match="do not come in 6 commits"):
        history.grow(table, lambda number: rows(number, 1), 7, 6)


SILVER = pa.schema(
    [
        *((name, pa.string()) for name in ("event_id", "kind", "product", "country", "_kafka_topic")),
        *((name, pa.timestamp("us", "UTC")) for name in ("event_time", "_kafka_timestamp", "_ingested_at")),
        *((name, pa.int64()) for name in ("sent_at", "cents", "user_id", "_kafka_offset")),
        *((name, pa.int32()) for name in ("quantity", "_kafka_partition")),
    ]
)


def test_silver_rows_have_neighbouring_keys_and_no_nulls() -> None:
    found = preloaded.silver_rows(SILVER, 50, 20, later=3)
    assert found.schema == SILVER
    assert found["user_id"].to_pylist() == list(range(50, 70))
    assert not any(column.null_count for column in found.columns)


def test_later_silver_rows_are_newer_versions_under_other_ids() -> None:
    before, after = (preloaded.silver_rows(SILVER, 0, 5, later=later) for later in (0, 1))
    assert min(after["event_time"].to_pylist()) > max(before["event_time"].to_pylist())
    assert not set(after["event_id"].to_pylist()) & set(before["event_id"].to_pylist())
    assert not set(after["_kafka_offset"].to_pylist()) & set(before["_kafka_offset"].to_pylist())


def test_bronze_rows_are_the_messages() -> None:
    schema = pa.schema(
        [
            *(("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())),
            *(("kafka_timestamp", pa.timestamp("us", "UTC")), ("kafka_timestamp_type", pa.int32())),
            *(("ingested_at", pa.timestamp("us", "UTC")), ("key", pa.binary()), ("value", pa.binary())),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    batch = Stream().batch(300, 100)
    found = preloaded.bronze_of(schema, batch)
    assert found["value"].to_pylist() == batch.values()
    assert found["key"].to_pylist() == batch.keys()
    assert found["offset"].to_pylist() == list(range(300, 400))
    assert found["headers"].null_count == 100
    moments = np.array(found["kafka_timestamp"].cast(pa.int64()).to_pylist())
    assert (moments == batch.sent_at).all()
