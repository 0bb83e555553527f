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
    """One row of the history; None where a fact is not known."""

    ended_at: datetime  # end of the micro-batch, or of the interval without one
    job: str  # name of the job
    run_id: str  # the run of the job
    query: str  # the table that the query writes
    batch_id: int | None = None  # number of the micro-batch
    rows: int | None = None  # rows, or records of Kafka, that it read, by the positions in the checkpoint
    duration_ms: int | None = None  # from its trigger to its end
    latest_offset_ms: int | None = None  # finding out what is new
    planning_ms: int | None = None  # planning the query
    add_batch_ms: int | None = None  # reading, computing and writing
    wal_commit_ms: int | None = None  # writing the plan of the micro-batch to the checkpoint
    commit_offsets_ms: int | None = None  # marking the micro-batch as done
    version: int | None = None  # newest version of the table that the micro-batch committed
    files: int | None = None  # files that it added to the table
    bytes: int | None = None  # size of these files
    accepted: int | None = None  # rows that silver accepted; null for other layers, as are the next five
    quarantined: int | None = None  # rows with a reason not to be accepted
    dropped: int | None = None  # rows that a rule dropped
    tombstones: int | None = None  # records without a value
    duplicates: int | None = None  # rows whose key was known
    late: int | None = None  # rows at or before the watermark; in gold, what its operators dropped
    state_rows: int | None = None  # rows in the query's state
    state_bytes: int | None = None  # memory of that state
    watermark_at: datetime | None = None  # the event-time watermark
    newest_kafka_at: datetime | None = None  # newest Kafka timestamp that is in the table
    # Kafka timestamp of the oldest record that is not; null if none waits.
    waiting_kafka_at: datetime | None = None
    waiting_seconds: float | None = None  # age of that record when the row was written; 0 if none waits
    lag_rows: int | None = None  # rows or records that the query had yet to read
    lag_bytes: int | None = None  # size of the files that hold them; null for Kafka
    lag_files: int | None = None  # number of these files; null for Kafka
    lag_seconds: float | None = None  # age of the oldest of them


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
