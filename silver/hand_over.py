"""From a first load to the stream: what repeats a row of the load is a duplicate, before state knows it."""

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
from common.delta import MicroBatch
from silver.first_load import Mark
from silver.late import COORDINATES, event_key

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_BROADCAST_ROWS = 100_000
"""Up to here a micro-batch's keys are sent to every task; more would fill the driver's heap."""


def known_until_ms(silver: Silver, loaded: Mark | None) -> int | None:
    """The watermark from which on the stream's own state knows all that may be repeated; None: always.

    A table without such a state asks itself for every key.
    """
    if loaded is None or silver.dedupe == "exact":
        return None
    number, unit = silver.watermark.split()
    return loaded.newest_ms + int(float(number) * 1000 * _SECONDS[unit.rstrip("s")])


@dataclass
class HandOver:
    """Knows a first load's rows again for as long as the stream's own state does not.

    Attributes:
        silver: The declaration.
        silver_path: Its table.
        until_ms: Where the watermark has passed this, all is done; None: there was no such load.
    """

    silver: Silver
    silver_path: str
    until_ms: int | None

    @contextmanager
    def fresh(self, rows: DataFrame, count: int, batch: MicroBatch) -> Iterator[tuple[DataFrame, int]]:
        """The rows whose event silver does not have from another place; and how many others there are.

        Once the load lies behind the watermark these are all rows, at no cost.

        Args:
            rows: The batch's accepted rows, as silver has them.
            count: How many they are.
            batch: The batch.
        """
        if self.until_ms is not None and (batch.late_watermark_ms() or 0) > self.until_ms:
            self.until_ms = None
        if self.until_ms is None or not count:
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
        found = table.join(F.broadcast(mine) if count <= _BROADCAST_ROWS else mine, same & ~itself)
        return found.select(*(F.col(f"__mine_{name}").alias(name) for name in COORDINATES)).distinct()
