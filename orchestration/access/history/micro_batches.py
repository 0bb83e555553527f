"""The history of a pipeline: the Delta table ``ops.micro_batches``, written beside the row path.

Grain: one row per finished micro-batch of a query, and one with ``batch_id`` null per query and interval in
which rows waited and no micro-batch ended. Rows are appended some seconds late and in no order; a job that is
killed loses those of its last interval. The history is for people and alerts: no promise about rows relies
on it. One process after another may write it; two at a time (a job per layer) commit one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from common.delta.small_table import SmallTable, rows_of, schema_of

_PROPERTIES = {
    "delta.appendOnly": "false",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "100",
}


@dataclass(frozen=True, slots=True)
class MicroBatchRow:
    """One row of the history; None where a fact is not known.

    Attributes:
        ended_at: End of the micro-batch, or of the interval without one.
        job: Name of the job.
        run_id: The run of the job.
        query: The table that the query writes.
        batch_id: Number of the micro-batch.
        rows: Rows, or records of Kafka, that it read, by the positions in the checkpoint.
        duration_ms: From its trigger to its end.
        latest_offset_ms: Finding out what is new.
        planning_ms: Planning the query.
        add_batch_ms: Reading, computing and writing.
        wal_commit_ms: Writing the plan of the micro-batch to the checkpoint.
        commit_offsets_ms: Marking the micro-batch as done.
        version: Newest version of the table that the micro-batch committed.
        files: Files that it added to the table.
        bytes: Size of these files.
        accepted: Rows that silver accepted; null for other layers, as are the next five.
        quarantined: Rows with a reason not to be accepted.
        dropped: Rows that a rule dropped.
        tombstones: Records without a value.
        duplicates: Rows whose key was known.
        late: Rows at or before the watermark; in gold, what its operators dropped.
        state_rows: Rows in the query's state.
        state_bytes: Memory of that state.
        watermark_at: The event-time watermark.
        newest_kafka_at: Newest Kafka timestamp that is in the table.
        waiting_kafka_at: Kafka timestamp of the oldest record that is not; null if none waits.
        waiting_seconds: Age of that record when the row was written; 0 if none waits.
        lag_rows: Rows or records that the query had yet to read.
        lag_bytes: Size of the files that hold them; null for Kafka.
        lag_files: Number of these files; null for Kafka.
        lag_seconds: Age of the oldest of them.
    """

    ended_at: datetime
    job: str
    run_id: str
    query: str
    batch_id: int | None = None
    rows: int | None = None
    duration_ms: int | None = None
    latest_offset_ms: int | None = None
    planning_ms: int | None = None
    add_batch_ms: int | None = None
    wal_commit_ms: int | None = None
    commit_offsets_ms: int | None = None
    version: int | None = None
    files: int | None = None
    bytes: int | None = None
    accepted: int | None = None
    quarantined: int | None = None
    dropped: int | None = None
    tombstones: int | None = None
    duplicates: int | None = None
    late: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark_at: datetime | None = None
    newest_kafka_at: datetime | None = None
    waiting_kafka_at: datetime | None = None
    waiting_seconds: float | None = None
    lag_rows: int | None = None
    lag_bytes: int | None = None
    lag_files: int | None = None
    lag_seconds: float | None = None


def append(path: str, rows: Sequence[MicroBatchRow]) -> None:
    """Append rows in one commit, and create the table with the first.

    Raises:
        TableError: The table cannot be written.
    """
    SmallTable(path, _PROPERTIES).write(rows_of(rows, schema_of(MicroBatchRow)))


def tidy(path: str, keep: timedelta) -> None:
    """Delete old rows, compact the files, and delete files and commits that nobody needs.

    Args:
        path: The table; it exists.
        keep: Rows that ended before this long ago are deleted.

    Raises:
        TableError: The table cannot be written, or another process changed it meanwhile; the next call tries
            again.
    """
    oldest = (datetime.now(UTC) - keep).isoformat(sep=" ", timespec="microseconds")
    old = f"ended_at < arrow_cast('{oldest}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    SmallTable(path).tidy(delete=old)


def read(path: str, since: datetime, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that ended since a time, oldest first; none before the first write.

    Args:
        since: In UTC.
        columns: Those that are read; ``ended_at`` is among them.

    Raises:
        TableError: The table cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    recent = pc.field("ended_at") >= pa.scalar(since, pa.timestamp("us", "UTC"))
    found = SmallTable(path).read(columns, recent)
    rows: list[dict[str, Any]] = [] if found is None else found.sort_by("ended_at").to_pylist()
    return rows
