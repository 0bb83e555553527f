"""One micro-batch as silver's operators hand it out: consumed whole and once, then counted and told apart.

Few rows come to the driver by one job, and are counted and told apart there; more are kept by the executors
and asked as often as needed. Either way they are the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.declare import Rule
from common.delta.checkpoint import delta_position_of
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import MedallionError
from common.rows.materialized import Settled, settled, size_of, taken
from common.rows.materialized import few as few_of
from common.rows.row_size import RowSizeEstimate
from silver.judge.rules import LATE, REASONS, VERDICT, WARNED
from silver.read.parse import META
from silver.write.table_columns import WATERMARK, accepted, accepted_rows, rejected, rejected_rows
from silver.write.verdict_counts import Tally, counted, tallied


@dataclass(frozen=True, slots=True)
class Judged:
    """The judged rows of a micro-batch.

    Attributes:
        kept: All of them.
        small: What is small to what is made of all of them.
        fewer: What is small to a few of them.
    """

    kept: Settled
    small: DriverLimits
    fewer: DriverLimits

    @property
    def frame(self) -> DataFrame:
        """All of them, read again at no cost."""
        return self.kept.frame

    @property
    def has_unknown(self) -> bool:
        """Whether a value may have a field that its schema does not name."""
        rows = self.kept.arrow
        return rows is None or bool(pc.any(pc.is_valid(pc.struct_field(rows[META], "rescued"))).as_py())

    def weighed(self, weight: RowSizeEstimate, tally: Tally) -> Judged:
        """With what is small to them, now that they were consumed and their size is known."""
        if self.kept.arrow is not None:
            return self
        size = size_of(self.frame)
        weight.learn(tally.rows, size)
        return replace(self, small=self.small if size <= self.small.batch_bytes else NO_DRIVER)

    def of_keys(self, keys: Settled, columns: Sequence[str]) -> pa.Table | None:
        """Some columns of the accepted rows that have one of a few keys; nothing, where they are many.

        Args:
            keys: The keys, by the names of their columns; not null.
            columns: Those that are asked for.
        """
        if self.kept.arrow is not None:
            return accepted_rows(self.kept.arrow).select(list(columns))
        names = keys.schema.names
        asked = F.broadcast(keys.frame.select(*(F.col(f"`{name}`") for name in names)).distinct())
        found = accepted(self.frame).join(asked, names, "left_semi")
        return taken(found.select(*(F.col(f"`{name}`") for name in columns)), self.fewer)

    def tally(self, rules: Sequence[Rule]) -> Tally:
        """What became of them."""
        rows = self.kept.arrow
        if rows is None:
            return counted(self.frame, rules)
        in_time = rows.filter(pc.not_equal(rows[VERDICT], LATE))
        broken = {
            rule.name: _with(in_time[WARNED if rule.on_fail == "warn" else REASONS], rule.name)
            for rule in rules
        }
        verdicts = {each["values"]: each["counts"] for each in rows[VERDICT].value_counts().to_pylist()}
        return tallied(verdicts, broken)

    def accepted(self, number: int) -> Settled:
        """Those without a reason, as the silver table has them."""
        rows = self.kept.arrow
        if rows is None:
            return few_of(accepted(self.frame), number, self.small)
        found = accepted_rows(rows)
        return Settled.of(self.kept.session, found, lambda: accepted(self.frame))

    def late(self, number: int, watermark_ms: int) -> Settled:
        """Those at or before the watermark, as the table of late rows has them."""
        time = F.timestamp_millis(F.lit(watermark_ms).cast("bigint"))

        def frame() -> DataFrame:
            return accepted(self.frame, LATE).withColumn(WATERMARK, time)

        rows = self.kept.arrow
        if rows is None:
            return few_of(frame(), number, self.fewer)
        late = accepted_rows(rows, LATE)
        at = pa.scalar(watermark_ms * 1000, pa.timestamp("us", "UTC"))
        late = late.append_column(WATERMARK, pa.repeat(at, late.num_rows))
        return Settled.of(self.kept.session, late, frame)

    def rejected(self, rule_version: str, number: int) -> Settled:
        """Those set aside, as the quarantine table has them; judged by these rules."""
        rows = self.kept.arrow
        if rows is None:
            return few_of(rejected(self.frame, rule_version), number, self.small)
        found = rejected_rows(rows, rule_version)
        return Settled.of(self.kept.session, found, lambda: rejected(self.frame, rule_version))


@contextmanager
def consumed(
    frame: DataFrame, batch: MicroBatch, bronze_path: str, small: DriverLimits, weight: RowSizeEstimate
) -> Iterator[Judged]:
    """Consume a micro-batch whole, once, and keep it until the end of the block.

    Args:
        frame: It, as Spark brings it.
        batch: Its identity.
        bronze_path: The table that it is read from.
        small: What few rows are.
        weight: Of rows as they come out of the query.
    """
    read = _few_read(batch, bronze_path, small)
    if read is not None and weight.is_light(read):
        with settled(frame, small, once=True, anew=batch.forget_dropped) as kept:
            if kept.arrow is None:
                weight.refused(read)
            else:
                weight.learn(kept.rows, kept.arrow.nbytes)
            yield Judged(kept, small, small)
        return
    rows = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield Judged(Settled(rows, 0), small, small)
    finally:
        rows.unpersist()


def _few_read(batch: MicroBatch, path: str, small: DriverLimits) -> int | None:
    """How many rows of a table a micro-batch reads, by its log, where they are few.

    Never those of the first after a start: what may have ended the last process does not come again.
    """
    start, end = (delta_position_of(each) for each in (batch.before, batch.positions))
    if batch.is_first or not small.rows or start is None or end is None:
        return None
    if start.in_snapshot or end.in_snapshot:
        return None  # what a table's first state has takes long to tell
    try:
        read = LogReader(path).between(start, end)
    except MedallionError:
        return None  # Spark tells what is amiss with the table
    is_few = read.rows is not None and read.rows <= small.rows and read.bytes <= small.read_bytes
    return read.rows if is_few else None


def _with(lists: pa.ChunkedArray, name: str) -> int:
    """How many of some lists hold a text."""
    found = 0
    for chunk in lists.chunks:
        is_it = pc.equal(pc.list_flatten(chunk), name)
        found += len(pc.unique(pc.list_parent_indices(chunk).filter(is_it)))
    return found
