"""What came into silver past the stream: a row that repeats it is a duplicate before the state knows it.

A first load from a snapshot and a replay of quarantined rows write rows that no state has seen. Until the
watermark has passed them, each micro-batch asks the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Silver
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.spark.broadcast import small_side
from silver.judge.dedupe import event_key
from silver.write.first_load import Mark
from silver.write.table_columns import COORDINATES

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


REPLAYED = "medallion.newestReplayedEventMs"
"""Property of a silver table: the newest event time of all rows that replays inserted, epoch milliseconds."""


def known_until_ms(silver: Silver, silver_path: str, loaded: Mark | None) -> int | None:
    """The watermark from which on the stream's own state knows all that may be repeated; None: always.

    A table without such a state asks itself for every key.
    """
    if silver.dedupe == "exact":
        return None
    newest = [loaded.newest_ms] if loaded else []
    if (replayed := replayed_ms(silver_path)) is not None:
        newest.append(replayed)
    if not newest:
        return None
    return max(newest) + delay_ms(silver)


def delay_ms(silver: Silver) -> int:
    """How long a duplicate is recognised, in milliseconds."""
    number, unit = silver.watermark.split()
    return int(float(number) * 1000 * _SECONDS[unit.rstrip("s")])


def replayed_ms(silver_path: str) -> int | None:
    """The newest event time that a replay has inserted into a table; None where none has."""
    told = LogReader(silver_path).properties().get(REPLAYED)
    return None if told is None else int(told)


@dataclass
class HandOver:
    """Knows the rows of a first load or a replay again for as long as the stream's own state does not.

    Attributes:
        silver: The declaration.
        silver_path: Its table.
        until_ms: Where the watermark has passed this, all is done; None: nothing came past the stream.
    """

    silver: Silver
    silver_path: str
    until_ms: int | None

    def is_over(self, batch: MicroBatch) -> bool:
        """Whether the stream's own state knows all that a micro-batch may repeat."""
        if self.until_ms is not None and (batch.late_watermark_ms() or 0) > self.until_ms:
            self.until_ms = None
        return self.until_ms is None

    @contextmanager
    def fresh(self, rows: DataFrame, count: int, batch: MicroBatch) -> Iterator[tuple[DataFrame, int]]:
        """The rows whose event silver does not have from another place; and how many others there are.

        Once all that lies behind the watermark these are all rows, at no cost.

        Args:
            rows: The batch's accepted rows, as silver has them.
            count: How many they are.
            batch: The batch.
        """
        if self.is_over(batch) or not count:
            yield rows, 0
            return
        known = self._known(rows, count).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = known.count()
            new = rows.join(known, list(COORDINATES), "left_anti").select(*rows.columns) if found else rows
            yield new, found
        finally:
            known.unpersist()

    def _known(self, rows: DataFrame, count: int) -> DataFrame:
        key = event_key(self.silver)
        names = (*key, *COORDINATES)
        mine = rows.select(*(F.col(f"`{name}`").alias(f"__mine_{name}") for name in names))
        table = rows.sparkSession.read.format("delta").load(self.silver_path).select(*names)
        same = reduce(and_, (F.col(f"`{name}`") == F.col(f"`__mine_{name}`") for name in key))
        itself = reduce(and_, (F.col(name) == F.col(f"__mine_{name}") for name in COORDINATES))
        found = table.join(small_side(mine, count), same & ~itself)
        return found.select(*(F.col(f"__mine_{name}").alias(name) for name in COORDINATES)).distinct()
