"""The history of micro-batches: appended, read by others, bounded by age and compacted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable

from common.config.paths import HISTORY, Layout
from common.delta.small_table import SmallTable, rows_of, schema_of
from orchestration.access.history import micro_batches
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.access.query.duckdb_views import Database, run_query

NOW = datetime.now(UTC)


def row(query: str, batch_id: int, ago: timedelta = timedelta()) -> MicroBatchRow:
    return MicroBatchRow(NOW - ago, "up", "r1", query, batch_id, rows=10 * batch_id, duration_ms=900)


def test_rows_are_read_back_by_age(tmp_path: Path) -> None:
    path = str(tmp_path / "micro_batches")
    assert micro_batches.read(path, NOW, ["ended_at"]) == []
    micro_batches.append(path, [row("gold.a", 1, timedelta(hours=3)), row("gold.a", 2)])
    micro_batches.append(path, [row("gold.b", 7, timedelta(minutes=5))])
    found = micro_batches.read(path, NOW - timedelta(hours=1), ["ended_at", "query", "rows"])
    assert [(one["query"], one["rows"]) for one in found] == [("gold.b", 70), ("gold.a", 20)]


def test_medallion_query_reads_the_history(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path), str(tmp_path / "checkpoints"), tmp_path)
    micro_batches.append(layout.table_path(HISTORY), [row("gold.a", 1), row("gold.a", 2)])
    sql = "select query, sum(rows), count(*) from ops.micro_batches group by query"
    answer = run_query(Database(), layout, [HISTORY], sql)
    assert [found for batch in answer.batches for found in batch] == [("gold.a", 30, 2)]


def test_old_rows_are_deleted_and_files_compacted(tmp_path: Path) -> None:
    path = str(tmp_path / "micro_batches")
    for number in range(6):
        micro_batches.append(path, [row("gold.a", number, timedelta(days=30 if number < 2 else 0))])
    micro_batches.tidy(path, timedelta(days=14))
    table = DeltaTable(path)
    assert sorted(table.to_pyarrow_table().column("batch_id").to_pylist()) == [2, 3, 4, 5]
    assert len(table.file_uris()) == 1
    micro_batches.append(path, [row("gold.a", 6)])
    micro_batches.tidy(path, timedelta(days=14))
    assert DeltaTable(path).to_pyarrow_table().num_rows == 5


def test_a_history_of_an_earlier_release_gets_new_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "micro_batches")
    whole = schema_of(MicroBatchRow)
    earlier = whole.remove(whole.get_field_index("lag_seconds"))
    SmallTable(path).write(rows_of([row("gold.a", 1)], earlier))
    assert "lag_seconds" not in DeltaTable(path).schema().to_arrow().names
    micro_batches.append(path, [row("gold.a", 2)])
    found = micro_batches.read(path, NOW - timedelta(hours=1), ["ended_at", "batch_id", "lag_seconds"])
    assert sorted(one["batch_id"] for one in found) == [1, 2]
