"""How many rows of a source with typed columns were read, by what the commits of bronze say."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.config.paths import Layout
from common.declare import DeltaTable, Pipeline, Reading, Stream, Topic, Upsert
from common.delta.checkpoint import PlannedBatch
from common.delta.log import LogReader
from common.delta.small_table import SmallTable
from common.streaming.topic_identity import OFFSETS, metadata_without_rows
from orchestration.access.progress.rows_read import RowsRead, rows_between
from orchestration.change.backfill.estimate import estimate


def commit(layout: Layout, table: str, batch_id: int, end: int, coordinate: str) -> None:
    """A micro-batch of bronze without rows, whose commit ends at an offset."""
    import pyarrow as pa

    last = {"query_id": "q", "batch_id": batch_id - 1}
    metadata = metadata_without_rows("shop", table, last, {}, {OFFSETS: {coordinate: {"0": end}}})
    SmallTable(layout.table_path(table)).write(pa.table({"n": pa.array([], pa.int64())}), metadata=metadata)


@pytest.mark.parametrize(
    "declared", [Stream("sensor", format="rate"), DeltaTable("sensor", "/lake/x", starting_version=3)]
)
def test_rows_are_counted_by_the_offsets_that_they_were_given(
    tmp_path: Path, declared: Stream | DeltaTable
) -> None:
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    commit(layout, declared.table, 0, 40, declared.coordinate)
    read = RowsRead(declared, layout)
    assert read.advance() == 0
    commit(layout, declared.table, 1, 55, declared.coordinate)
    commit(layout, declared.table, 2, 60, declared.coordinate)
    assert read.advance() == 20
    assert read.advance() == 0
    first = PlannedBatch(0, 0, 0, ({"reservoirVersion": 4, "index": -1, "reservoirId": "x"},))
    assert rows_between(declared, None, first, lambda table: LogReader(str(tmp_path / "none"))) is None


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading(), (40, False)),
        (Reading(starting_version="latest"), (None, True)),
        (Reading(starting_version=1), (None, True)),
        (Reading(starting_timestamp="2026-01-31 12:00:00"), (None, True)),
    ],
)
def test_what_a_query_reads_that_begins_later_is_not_what_its_source_has(
    tmp_path: Path, reading: Reading, expected: tuple[int | None, bool]
) -> None:
    """Not in the estimate of a backfill, and not in what is counted of its first micro-batch."""
    import pyarrow as pa

    gold = Upsert("latest", reads="silver.orders", key=["n"], newest_by=["n"], reading=reading)
    pipeline = Pipeline("shop", bronze=[Topic("orders")], gold=[gold])
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    SmallTable(layout.table_path("silver.orders")).write(pa.table({"n": list(range(40))}))
    (found,) = estimate(pipeline, layout, ["gold.latest"], {})
    assert (found.effort.rows, found.is_counted_later) == expected
    log = LogReader(layout.table_path("silver.orders"))
    end = {"reservoirVersion": 1, "index": -1, "reservoirId": "x", "isStartingVersion": False}
    first = PlannedBatch(0, 0, 0, (end,))
    assert rows_between(gold, None, first, lambda table: log) == expected[0]
