"""One micro-batch as silver's operators hand it out, read whole and once.

A batch of few rows comes to the driver by one job; more rows are persisted with the executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta.micro_batch import MicroBatch
from common.rows.arrow_rows import ArrowRows
from common.rows.expressions import timestamp
from common.rows.row_size import RowSizeEstimate
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from silver.read.column_names import LATE, WATERMARK
from silver.write.table_columns import accepted
from silver.write.verdict_counts import Tally


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """The judged rows of a micro-batch."""

    kept: Rows  # all rows; what is computed from a few of them may come to the driver
    rows: Rows  # all rows; what is computed from all of them comes to the driver only if they are small
    # How many rows of bronze they are judged from, where that is known; with a row per element they are
    # fewer.
    read: int | None = None

    def measured(self, row_size: RowSizeEstimate, tally: Tally) -> JudgedBatch:
        """The same batch, once it was read and its size is known; updates the size estimate."""
        row_size.learn(min(tally.rows, self.read or tally.rows), self.kept.bytes)
        is_large = self.kept.arrow is None and self.kept.bytes > self.kept.limits.batch_bytes
        return JudgedBatch(self.kept, self.kept.with_limits(NO_DRIVER) if is_large else self.kept)

    def late(self, count: int, watermark_ms: int) -> Rows:
        """The rows at or before the watermark, as the table of late rows has them."""
        return accepted(self.kept, LATE, count).with_columns({WATERMARK: timestamp(watermark_ms)})


@contextmanager
def consume_once(
    frame: DataFrame,
    batch: MicroBatch,
    bronze_paths: Sequence[str],
    limits: DriverLimits,
    row_size: RowSizeEstimate,
) -> Iterator[JudgedBatch]:
    """Read a micro-batch whole, once, and keep its rows until the end of the block.

    Args:
        bronze_paths: The tables that it is read from, in the order of the query's sources.
        row_size: Of rows as they come out of the query.
    """
    read = _few_rows_read(batch, bronze_paths, limits, row_size)
    if read is not None and row_size.fits(read):
        if row_size.is_largest(read):
            batch.mark_attempt()
        rows = SparkRows(frame, None, limits)
        with rows.kept(whole=True, expected=read, before_retry=batch.forget_dropped) as kept:
            if not isinstance(kept, ArrowRows):
                row_size.learn_refused(read)
            limited = kept.with_limits(limits)
            yield JudgedBatch(limited, limited, read)
        return
    persisted = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = SparkRows(persisted, None, limits)
        yield JudgedBatch(rows, rows)
    finally:
        persisted.unpersist()


def _few_rows_read(
    batch: MicroBatch, paths: Sequence[str], limits: DriverLimits, row_size: RowSizeEstimate
) -> int | None:
    """How many rows of tables a micro-batch reads, by their logs; ``None`` where they are too many.

    Until a batch was measured, the size of rows is estimated by that of the files.
    """
    read = batch.backlog(paths) if limits.rows else None
    if read is None or read.rows is None:
        return None
    rows, size = read.rows, read.bytes
    is_few = rows <= limits.rows and size <= limits.read_bytes
    if is_few:
        row_size.learn_from_compressed(rows, size)
    return rows if is_few else None
