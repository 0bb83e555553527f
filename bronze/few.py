"""Micro-batches of few records, which come to the driver and are written from there."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from common.delta import MicroBatch
from common.settled import Settled, few
from common.small import Small

_HEAVY = 16_384  # bytes per record, as long as nothing is known of them


@dataclass
class Weight:
    """How heavy records are, by the last that came to the driver: Kafka tells their number, not their size.

    Attributes:
        small: What is written from the driver.
        bytes_per_record: In memory, with key, headers and coordinates.
    """

    small: Small
    bytes_per_record: float = _HEAVY

    def few(self, frame: DataFrame, batch: MicroBatch) -> DataFrame | Settled:
        """A micro-batch's frame; its rows, where they are few and likely to be light."""
        most = at_most(batch)
        if most is None or most * self.bytes_per_record > self.small.batch_bytes:
            return frame
        rows = few(frame, most, self.small)
        if not isinstance(rows, Settled):
            if most <= self.small.rows:  # they were too heavy for the driver
                self.bytes_per_record = _HEAVY
        elif rows.arrow is not None and rows.rows:
            self.bytes_per_record = rows.arrow.nbytes / rows.rows
        return rows


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
