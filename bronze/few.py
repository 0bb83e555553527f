"""Micro-batches of few records, which come to the driver and are written from there."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from bronze.table import INGESTED
from common.delta import MicroBatch
from common.delta_direct import is_for_driver
from common.settled import Settled, collected
from common.small import Small

_UNKNOWN = 2048  # bytes per record, as long as nothing is known of them
_LEAST = 1024  # and no less, however light the last ones were: the next may not be
_FORGETS = 0.98
_TOO_MANY_TIMES = 16  # so many times the bytes of a small micro-batch fill the driver


@dataclass
class Weight:
    """How heavy records are, by the last that came to the driver: Kafka tells their number, not their size.

    Attributes:
        path: The table.
        small: What is written from the driver.
        bytes_per_record: In memory, with key, headers and coordinates.
    """

    path: str
    small: Small
    bytes_per_record: float = _UNKNOWN

    def few(self, frame: DataFrame, batch: MicroBatch) -> DataFrame | Settled:
        """A micro-batch's frame; its rows, where they are few and likely to be light.

        Never those of the first after a start: what may have ended the last process does not come again.
        """
        most = None if batch.is_first else at_most(batch)
        if most is None or most > self.small.rows or not is_for_driver(self.path, self.small):
            return frame
        if most * self.bytes_per_record > self.small.batch_bytes:
            self.bytes_per_record *= _FORGETS  # they may be light by now
            return frame
        arrow = _collected(frame, batch)
        if arrow is None:
            # They were too heavy for the driver.
            self.bytes_per_record = _TOO_MANY_TIMES * self.small.batch_bytes / max(1, most)
            return frame
        if arrow.num_rows:
            self.bytes_per_record = max(_LEAST, arrow.nbytes / arrow.num_rows)
        return Settled(frame, arrow.num_rows, arrow)


def _collected(frame: DataFrame, batch: MicroBatch) -> pa.Table | None:
    """All rows; the time that they share is added here.

    Spark writes it into the code that it makes for the rows, which every micro-batch would compile anew.
    """
    if not batch.planned_ms:
        return collected(frame)
    arrow = collected(frame.drop(INGESTED))
    if arrow is None:
        return None
    at = pa.scalar(batch.planned_ms * 1000, pa.timestamp("us", "UTC"))
    return arrow.append_column(INGESTED, pa.repeat(at, arrow.num_rows))


def at_most(batch: MicroBatch) -> int | None:
    """How many records a micro-batch has at most, by its offsets: transactions leave some of them out.

    ``None`` for the first of a checkpoint, which does not say where it begins.
    """
    if not batch.before or not batch.positions:
        return None
    ends, begins = batch.positions[0], batch.before[0] or {}
    if any(partition not in begins.get(topic, {}) for topic, found in ends.items() for partition in found):
        return None  # it begins at the first offset that Kafka still has
    return sum(
        int(end) - int(begins[topic][partition])
        for topic, found in ends.items()
        for partition, end in found.items()
    )
