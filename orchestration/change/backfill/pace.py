"""How fast the queries of a backfill read, and where bronze's stop: between two micro-batches, by wrapping
the function that writes them.

The rate is an average over the run of one query. A micro-batch is read whole: bronze's have at most the
records of ten seconds, those of silver and gold the files that the settings allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from common.delta.micro_batch import MicroBatch
from common.streaming.query import Stream

BATCH_SECONDS = 10.0
"""Time in which a micro-batch of bronze is to be read at the given rate."""

_POLL_SECONDS = 0.2

Offsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a backfill."""

    # Most records that one query reads per second, on average; None: as many as it can.
    records_per_second: float | None = None
    # Per bronze table, the offsets at which its query stops; at the first micro-batch that ends there or
    # beyond.
    stops: dict[str, Offsets] = field(default_factory=dict)

    @property
    def batch_records(self) -> int | None:
        """Most records of one micro-batch of bronze; None where no rate is given."""
        rate = self.records_per_second
        return None if rate is None else max(1, round(rate * BATCH_SECONDS))


@dataclass
class Pace:
    """The pace of one query."""

    limits: Limits  # the limits of the run
    # Rows of the micro-batches that have finished since the last call; None if they are not known.
    count: Callable[[], int | None]
    is_stopping: Callable[[], bool]  # whether the run ends
    stop: Callable[[], None]  # ends the query at the next boundary of a micro-batch
    _read: int = 0
    _began: float = field(default_factory=time.monotonic)

    def of(self, stream: Stream) -> Stream:
        """The query at this pace, also where it is built again after a failure."""

        def write(frame: DataFrame, batch: MicroBatch) -> None:
            self.wait()
            stream.write(frame, batch)
            if self.has_reached(batch, self.limits.stops.get(stream.name)):
                self.stop()

        again = stream.again
        return replace(stream, write=write, again=None if again is None else lambda: self.of(again()))

    def wait(self) -> None:
        """Wait until the rows that are read so far are not more than the rate allows."""
        if self.limits.records_per_second is None:
            return
        self._read += self.count() or 0
        until = self._began + self._read / self.limits.records_per_second
        while not self.is_stopping() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_SECONDS))

    @staticmethod
    def has_reached(batch: MicroBatch, stops: Offsets | None) -> bool:
        """Whether a micro-batch of bronze ends at or beyond all of these offsets."""
        if stops is None:
            return False
        ends = batch.positions[0]
        return all(
            int(ends.get(name, {}).get(str(number), -1)) >= stop
            for name, partitions in stops.items()
            for number, stop in partitions.items()
        )
