"""Tables that delta-rs writes, with the checksums that Spark leaves beside its commits."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from common.delta.log import LogReader
from distribution.bench.data import history

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "text": ["x"] * count}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    history.created(path, SCHEMA, {"delta.checkpointInterval": "100", "delta.dataSkippingStatsColumns": "id"})
    history.append(path, rows(0, 10))
    return path


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
