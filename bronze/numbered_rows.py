"""Gives the rows of a source that has no offsets their coordinates: one topic, one partition, dense offsets.

The offsets of a micro-batch begin where those of the micro-batch before end, as its commit says. A
micro-batch that is repeated after a kill has the same first offset; only one of its attempts is committed, so
each offset is that of one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.table import INGESTED, SCHEMA
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.delta.match.checkpoint_match import commits_metadata
from common.delta.micro_batch import MicroBatch
from common.streaming.topic_identity import OFFSETS, coordinate_ends

_PLACE = "__place"
_ROWS = 33
"""Bits of a row's place in its task: Spark's monotonically increasing id has the task above them."""

TIME = "__time"
"""The column of the time of a row, which becomes ``kafka_timestamp``."""


@dataclass
class Numbering:
    """The offsets of one bronze table."""

    path: str  # the table
    coordinate: str  # the value of the column ``topic``
    _last: tuple[int, int] | None = field(default=None, init=False)
    """The micro-batch that was numbered last, and the end of its offsets."""

    @contextmanager
    def numbered(self, frame: DataFrame, batch: MicroBatch) -> Iterator[tuple[DataFrame, MicroBatch]]:
        """The rows of a micro-batch in bronze's columns, and the micro-batch with the end of their offsets.

        Args:
            frame: Rows with ``value``, ``TIME`` and the time of ingestion; computed once.
        """
        first = self._first(frame, batch)
        placed = frame.withColumn(_PLACE, F.monotonically_increasing_id())
        placed = placed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            task = F.shiftright(_PLACE, _ROWS).cast("int")
            counts = {int(row[0]): int(row[1]) for row in placed.groupBy(task).count().collect()}
            begins, total = [], 0
            for number in range(max(counts, default=-1) + 1):
                begins.append(total)
                total += counts.get(number, 0)
            ends = {self.coordinate: {"0": first + total}}
            told = replace(batch, facts={**batch.facts, OFFSETS: ends})
            yield self._rows(placed, first, begins or [0], batch.batch_id), told
        finally:
            placed.unpersist()
        self._last = batch.batch_id, first + total

    def _rows(self, placed: DataFrame, first: int, begins: list[int], batch_id: int) -> DataFrame:
        # An array is no part of the code that Spark generates, which is compiled once for all micro-batches.
        tasks = F.array(*(F.lit(begin).cast("bigint") for begin in begins))
        at = F.array(F.lit(first).cast("bigint"))
        task = F.shiftright(_PLACE, _ROWS).cast("int")
        row = F.element_at(tasks, task + 1) + F.col(_PLACE).bitwiseAND(F.lit((1 << _ROWS) - 1))
        columns: dict[str, Column] = {
            "topic": F.lit(self.coordinate),
            "partition": F.lit(0),
            "offset": F.element_at(at, 1) + row,
            "kafka_timestamp": F.col(TIME),
            "kafka_timestamp_type": F.lit(1),
            INGESTED: F.col(INGESTED),
            "key": F.lit(None).cast("binary"),
            "value": F.col("value"),
            "headers": F.array(_header("batch", F.lit(str(batch_id))), _header("row", row.cast("string"))),
        }
        return placed.select(*(columns[name].alias(name) for name in SCHEMA.names))

    def _first(self, frame: DataFrame, batch: MicroBatch) -> int:
        """The first offset of a micro-batch: the end of the one before."""
        if self._last is not None and self._last[0] == batch.batch_id - 1:
            return self._last[1]
        for metadata in commits_metadata(self.path, batch.query):
            if metadata["query_id"] != batch.query_id or metadata["batch_id"] < batch.batch_id:
                return coordinate_ends(metadata).get((self.coordinate, 0), 0)
        log = LogReader(self.path)
        if log.commit(0) is not None:
            return 0
        # The log's cleanup has deleted the commits: the rows say where they end, and those that expired.
        expired = expired_topics(log.properties()).get(self.coordinate)
        gone = 0 if expired is None else expired.offsets.get(0, (0, 0))[1]
        table = frame.sparkSession.read.format("delta").load(self.path)
        highest = table.agg(F.max("offset")).collect()[0][0]
        return max(gone, 0 if highest is None else int(highest) + 1)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), F.encode(value, "UTF-8").alias("value"))
