"""What the digests of bronze's micro-batches show: rows that are not as they were read, and no others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from bronze.digest import HASH, entry, row_hash
from bronze.table import SCHEMA
from orchestration.records.audit.result import Fault
from orchestration.records.audit.stored_bytes.bronze_bytes import byte_faults
from orchestration.records.audit.table_log import read_log

pytestmark = pytest.mark.long

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUERY = "bronze.orders"


def write(spark: Any, path: Path, number: int, **metadata: Any) -> None:
    """A micro-batch of three records, read at a time of its own."""
    at = AT + timedelta(minutes=number)
    offsets = range(3 * number, 3 * number + 3)
    rows = [("orders", 0, offset, AT, 0, at, b"k", b"v%d" % offset, None) for offset in offsets]
    frame = spark.createDataFrame(rows, SCHEMA)
    facts = entry(frame.select(row_hash()).toArrow()[HASH], round(at.timestamp() * 1000))
    facts |= {"query": QUERY, "query_id": "q", "batch_id": number} | metadata
    arrow = frame.toArrow()
    own = CommitProperties(custom_metadata={"userMetadata": json.dumps(facts)})
    write_deltalake(str(path), pa.table(arrow), mode="append", commit_properties=own)


def found(spark: Any, path: Path, *, is_counted: bool = True) -> tuple[list[Fault], list[str]]:
    faults, notes = byte_faults(spark, read_log(QUERY, str(path), QUERY), is_counted=is_counted)
    return list(faults), list(notes)


def test_rows_that_are_not_as_they_were_read_are_a_fault_with_a_remedy(spark: Any, tmp_path: Path) -> None:
    """Whether their bytes or only their time of ingestion are others; the SQL takes the change back."""
    path = tmp_path / "orders"
    for number in range(2):
        write(spark, path, number)
    DeltaTable(path).optimize.compact()  # takes no row away
    assert found(spark, path) == ([], [])
    changes: dict[str, tuple[dict[str, str], str]] = {
        "bytes": ({"value": "cast('other' as bytea)"}, "of 3 rows of bronze.orders some have other bytes"),
        "a time": ({"ingested_at": "ingested_at + interval '1 hour'"}, "version 1 wrote 3, and 2 have it"),
        "less": (
            {"ingested_at": "ingested_at + interval '1 microsecond'", "value": "cast('other' as bytea)"},
            "version 1 wrote 3, and 2 have it",
        ),
    }
    for name, (values, text) in changes.items():
        DeltaTable(path).update(values, predicate="offset = 4")
        (fault,), _ = found(spark, path)
        assert text in fault.text, name
        first = DeltaTable(path).version()
        assert fault.command.endswith(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {first - 1}"), name
        assert fault.text.endswith(fault.command), name
        spark.sql(fault.command.partition("SQL: ")[2])
        assert found(spark, path) == ([], []), name
    DeltaTable(path).update({"value": "cast('other' as bytea)"}, predicate="offset = 4")
    write(spark, path, 2)  # the engine goes on: a RESTORE would take its rows away
    (fault,), _ = found(spark, path)
    assert not fault.command
    assert "Restore these files, or the table, from a copy. Without one, if the source" in fault.text


def test_rows_that_are_gone_for_a_reason_are_no_fault(spark: Any, tmp_path: Path) -> None:
    """Erased, expired, taken back and read again; a missing one is told with its offset instead."""
    path = tmp_path / "orders"
    write(spark, path, 0)
    write(spark, path, 1)
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    write(spark, path, 2)
    assert found(spark, path) == ([], [])
    DeltaTable(path).delete("offset = 1")
    assert len(found(spark, path)[0]) == 1
    assert found(spark, path, is_counted=False) == ([], [])
    own = CommitProperties(custom_metadata={"userMetadata": json.dumps({"by": "retention"})})
    DeltaTable(path).delete("offset = 0", commit_properties=own)
    faults, (note,) = found(spark, path)
    assert faults == []
    assert note.startswith("of 1 micro-batches of bronze.orders rows have expired or were erased")
