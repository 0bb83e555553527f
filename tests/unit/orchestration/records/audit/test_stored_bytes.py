"""Files of bronze that Spark wrote are compared with the digests that were noted when it had written them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake

from bronze.batch_in_driver import DriverBatch
from common.config.driver_limits import DriverLimits
from common.delta.micro_batch import MicroBatch
from common.rows.row_size import RowSizeEstimate
from orchestration.records.audit.stored_bytes.bronze_bytes import byte_faults, undigested
from orchestration.records.audit.table_log import TableLog, read_log

NAME = "bronze.orders"


def append(path: Path, values: list[bytes]) -> None:
    """A micro-batch as Spark writes it: its commit has no digest of the rows."""
    told = {"query": NAME, "query_id": "q", "batch_id": 0, "step": "append"}
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(told)})
    write_deltalake(path, pa.table({"value": values}), mode="append", commit_properties=properties)


def log_of(path: Path) -> TableLog:
    return read_log(NAME, str(path), NAME)


def found(path: Path) -> list[str]:
    """The faults of the bytes; without a digest of rows Spark is not asked."""
    faults, _ = byte_faults(None, log_of(path), is_counted=False)  # type: ignore[arg-type]
    return [fault.text.split(". ")[0] for fault in faults]


def test_the_files_of_a_micro_batch_that_spark_writes_are_noted(tmp_path: Path) -> None:
    """Those of the driver are noted where they are written."""
    path = tmp_path / "orders"
    few = DriverBatch(str(path), DriverLimits(), RowSizeEstimate(1024))
    of_spark = MicroBatch("shop", NAME, "q", 0, (), was_attempted=True)
    frame = cast("Any", SimpleNamespace(sparkSession=None))
    with few.rows(frame, of_spark) as (_, batch):
        append(path, [b"1"])
        assert batch is of_spark
    assert undigested(log_of(path)) == 0


def test_a_file_of_spark_that_was_written_anew_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    few = DriverBatch(str(path), DriverLimits(), RowSizeEstimate(1024))
    few.note_files()  # there is no table
    append(path, [b"1"])
    assert undigested(log_of(path)) == 1
    append(path, [b"2"])
    few.note_files()
    few.note_files()
    noted = (path / "_delta_log" / ".file_digests").read_text(encoding="utf-8").splitlines()
    assert len(noted) == 1, "of the newest commit, once: what an earlier file was nobody knows by now"
    assert (undigested(log_of(path)), found(path)) == (1, [])

    (name,) = [json.loads(line)["file"] for line in noted]
    file = path / name
    size = file.stat().st_size
    pq.write_table(pa.table({"value": [b"3"]}), file, compression="SNAPPY", store_schema=False)
    file.write_bytes(file.read_bytes().ljust(size, b"\0")[:size])
    assert found(path) == [f"{NAME}: bytes of the file {name} have changed since it was written"]
    DeltaTable(path).delete()
    append(path, [b"4"])
    few.note_files()
    assert (undigested(log_of(path)), found(path)) == (0, []), "each live file has one"
