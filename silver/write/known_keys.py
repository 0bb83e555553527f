"""Rows that a first load or a replay wrote are unknown to the stream's dedupe state; until the watermark
passes them, duplicates are looked up in the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common.declare import Silver
from common.declare.intervals import length_of
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.rows.rows import Rows
from common.spark.broadcast import broadcast_if_small
from silver.read.column_names import row_coordinates
from silver.write.first_load import Mark

REPLAYED = "medallion.newestReplayedEventMs"
"""Property of a silver table: the newest event time of all rows that a replay, a restatement or a rebuild has
written, epoch milliseconds."""


def known_until_ms(silver: Silver, silver_path: str, loaded: Mark | None) -> int | None:
    """The watermark from which on the stream's own state knows all keys that may come again; None: any.

    Under ``dedupe="exact"`` there is no such state: every key is looked up in the table.
    """
    if silver.dedupe == "exact":
        return None
    newest = [loaded.newest_ms] if loaded else []
    if (replayed := replayed_ms(silver_path)) is not None:
        newest.append(replayed)
    if not newest:
        return None
    return max(newest) + length_of(silver.watermark).milliseconds


def replayed_ms(silver_path: str) -> int | None:
    """The newest event time that a replay has inserted into a table; None where none has."""
    newest = LogReader(silver_path).properties().get(REPLAYED)
    return None if newest is None else int(newest)


def remember(spark: SparkSession, silver_path: str, metadata: str, newest_ms: int | None) -> None:
    """Have the query look up keys up to an event time in the table, because its state does not know them.

    Call it before the rows are written: a query that starts in between searches for rows that are not there
    yet, which is harmless.

    Args:
        spark: A session of the caller's own: the metadata of commits is set in it.
        metadata: The commit's metadata; there is no commit where the query looks up these keys already.
        newest_ms: The newest event time of the rows, epoch milliseconds; None: no row is written.
    """
    before = replayed_ms(silver_path)
    if newest_ms is not None and (before is None or before < newest_ms):
        delta_table.set_property(spark, silver_path, metadata, REPLAYED, str(newest_ms))


@dataclass
class KeysWrittenOutsideStream:
    """Recognises duplicates of rows that a first load or a replay wrote, until the state knows them."""

    silver: Silver
    silver_path: str  # its table
    # The watermark from which on the state knows all keys; None: no row was written outside.
    until_ms: int | None

    def is_over(self, batch: MicroBatch) -> bool:
        """Whether the stream's own state knows all keys that a micro-batch may repeat."""
        # A watermark of 0 is none yet: events before 1970 are in time under it.
        if self.until_ms is not None and (batch.late_watermark_ms() or 0) > max(self.until_ms, 0):
            self.until_ms = None
        return self.until_ms is None

    @contextmanager
    def fresh(self, rows: Rows, batch: MicroBatch) -> Iterator[tuple[Rows, int]]:
        """The rows whose event silver does not have from another Kafka record, and the number of the others.

        Once the state knows all keys these are all rows, at no cost.

        Args:
            rows: The batch's accepted rows, as silver has them; their number is known.
        """
        if self.is_over(batch) or not rows.count:
            yield rows, 0
            return
        known = self._known(rows.frame, rows.count).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            duplicates = known.count()
            frame = rows.frame
            if duplicates:
                frame = frame.join(known, known.columns, "left_anti").select(*frame.columns)
            yield rows.derive(frame, rows.count), duplicates
        finally:
            known.unpersist()

    def _known(self, rows: DataFrame, count: int) -> DataFrame:
        key, place = self.silver.event_key, row_coordinates(rows.columns)
        names = (*key, *place)
        mine = rows.select(*(F.col(f"`{name}`").alias(f"__mine_{name}") for name in names))
        table = delta_table.newest(rows.sparkSession, self.silver_path).select(*names)
        same = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__mine_{name}`") for name in key))
        itself = reduce(and_, (F.col(name) == F.col(f"__mine_{name}") for name in place))
        found = table.join(broadcast_if_small(mine, count), same & ~itself)
        return found.select(*(F.col(f"__mine_{name}").alias(name) for name in place)).distinct()
