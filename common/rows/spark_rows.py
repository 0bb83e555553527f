"""Rows of a Spark frame, and where few of them come to the driver.

``kept`` and ``collected`` choose: rows within the driver's limits become ``ArrowRows``, others stay with
Spark's executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.rows import latest_in_spark
from common.rows.arrow_rows import ArrowRows
from common.rows.collect import collect, collect_if_small
from common.rows.expressions import Expression
from common.rows.key_bounds import bounds_in_spark
from common.rows.rows import ORDER, Rows
from common.spark import jvm
from common.spark.literals import as_python_value

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_ROWS_PER_FILE = 250_000
_MAX_RANGES = 10_000
"""Up to so many distinct ranges of time are collected; of more, only the ends of all together."""


class BytesRead:
    """Bytes of files that a micro-batch reads, compressed; asked of Spark's plan when first needed."""

    def __init__(self, frame: DataFrame, besides: int = 0) -> None:
        """The bytes of one micro-batch.

        Args:
            besides: Bytes of files that are read besides.
        """
        self._frame, self._besides = frame, besides

    @cached_property
    def total(self) -> int:
        """How many bytes."""
        return jvm.estimated_bytes(self._frame) + self._besides


class SparkRows(Rows):
    """Rows of a frame: computed with each use, unless the frame is persisted."""

    def __init__(
        self,
        frame: DataFrame,
        count: int | None = None,
        limits: DriverLimits = NO_DRIVER,
        read: BytesRead | None = None,
    ) -> None:
        """Rows of a frame.

        Args:
            count: How many rows it has, or at most has, if that is known.
            limits: What may be collected of them, and of rows that are computed from them.
            read: What is read to compute them; of much, one task that collects rows would make one executor
                do the work of all.
        """
        self.session, self.limits = frame.sparkSession, limits
        self._frame, self._count, self._read = frame, count, read
        self._bounds: dict[tuple[str, ...], Sequence[Column]] = {}

    @property
    def count(self) -> int:
        if self._count is None:
            self._count = self._frame.count()
        return self._count

    @property
    def frame(self) -> DataFrame:
        return self._frame

    @property
    def schema(self) -> StructType:
        return self._frame.schema

    @property
    def columns(self) -> Sequence[str]:
        return self._frame.columns

    @property
    def arrow(self) -> None:
        return None

    def derive(self, frame: DataFrame, count: int | None = None) -> SparkRows:
        return SparkRows(frame, count, self.limits, self._read)

    def with_files(self, frame: DataFrame, size: int) -> SparkRows:
        """Rows that a frame computes from these and from further files of so many bytes."""
        return SparkRows(frame, None, self.limits, BytesRead(self._frame, size))

    @contextmanager
    def kept(
        self,
        *,
        whole: bool = False,
        expected: int | None = None,
        before_retry: Callable[[], None] = lambda: None,
    ) -> Iterator[Rows]:
        arrow = None
        if not whole:
            arrow = self._collect_if_few()
        elif self._may_be_collected(expected):
            arrow = collect(self._frame)
            if arrow is None:
                before_retry()
        if arrow is not None:
            rows = self._collected_as(arrow)
            # More rows than estimated: Spark computes what follows.
            yield rows if arrow.num_rows <= self.limits.rows else SparkRows(rows.frame, arrow.num_rows)
            return
        persisted = jvm.without_foreign_order(self._frame).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = persisted.count()
            is_few = (
                whole
                and count <= self.limits.rows
                and jvm.estimated_bytes(persisted) <= self.limits.batch_bytes
            )
            arrow = collect_if_small(persisted, self.limits) if is_few else None
            yield SparkRows(persisted, count) if arrow is None else self._collected_as(arrow)
        finally:
            persisted.unpersist()

    def collected(self) -> Rows:
        arrow = self._collect_if_few()
        return self if arrow is None else self._collected_as(arrow)

    def with_limits(self, limits: DriverLimits) -> SparkRows:
        return SparkRows(self._frame, self._count, limits, self._read)

    @property
    def bytes(self) -> int:
        """The size by Spark's plan: compressed bytes of files, or the size of a persisted frame."""
        return jvm.estimated_bytes(self._frame)

    def select(self, columns: Mapping[str, Expression]) -> Rows:
        frame = self._frame.select(*(each.spark().alias(name) for name, each in columns.items()))
        return self.derive(frame, self._count)

    def with_columns(self, columns: Mapping[str, Expression]) -> Rows:
        frame = self._frame.withColumns({name: each.spark() for name, each in columns.items()})
        return self.derive(frame, self._count)

    def where(self, condition: Expression, count: int | None = None) -> Rows:
        return self.derive(self._frame.where(condition.spark()), count)

    def drop(self, name: str) -> Rows:
        return self.derive(self._frame.drop(name), self._count)

    def count_where(self, conditions: Mapping[str, Expression]) -> Mapping[str, int]:
        counts = (F.count_if(each.spark()).alias(f"count{at}") for at, each in enumerate(conditions.values()))
        return dict(zip(conditions, self._frame.agg(*counts).collect()[0], strict=True))

    def count_by(self, name: str) -> Mapping[Any, int]:
        return {row[0]: row[1] for row in self._frame.groupBy(F.col(f"`{name}`")).count().collect()}

    def bounds(self, key: Sequence[str], table: str = "") -> Sequence[Column]:
        known = (table, *key)
        if known not in self._bounds:
            self._bounds[known] = bounds_in_spark(self._frame, key, table)
        return self._bounds[known]

    def time_ranges(self, low: str, high: str) -> Sequence[tuple[int, int]]:
        kind = TimestampType()
        ends = self._frame.select(as_python_value(F.col(low), kind), as_python_value(F.col(high), kind)).toDF(
            "low", "high"
        )
        rows = ends.distinct().limit(_MAX_RANGES + 1).collect()
        if len(rows) > _MAX_RANGES:
            rows = ends.agg(F.min("low"), F.max("high")).collect()
        return [(row[0], row[1]) for row in rows]

    def latest_per_key(self, *, key: Sequence[str], order: Sequence[str], earliest: bool = False) -> Rows:
        frame = latest_in_spark.latest_per_key(self._frame, key=key, order=order, earliest=earliest)
        return self.derive(frame)

    def keys_not_in(self, others: Sequence[Rows], *, key: Sequence[str], itself: Sequence[str]) -> Rows:
        frames = [each.frame for each in others]
        frame = latest_in_spark.keys_not_in(self._frame, frames, key=key, itself=itself, count=self.count)
        return self.derive(frame)

    def compare(self, others: Mapping[str, Rows | None], *, key: Sequence[str], order: Sequence[str]) -> Rows:
        latest = latest_in_spark.latest_per_key(self._frame, key=key, order=order)
        frames = {name: None if each is None else each.frame for name, each in others.items()}
        frame = latest_in_spark.with_orders(latest, frames, key=key, order=order, count=self.count)
        place = F.struct(*(F.col(f"`{name}`") for name in order))
        return self.derive(frame.withColumn(ORDER, place))

    def narrowed_to(self, keys: Rows, names: Sequence[str]) -> Rows:
        if keys.arrow is None:
            return self
        wanted = F.broadcast(keys.frame.select(*(F.col(f"`{name}`") for name in names)).distinct())
        return SparkRows(self._frame.join(wanted, list(names), "left_semi"), None, keys.limits).collected()

    def compute(self, in_driver: Callable[[Rows], Rows], with_spark: Callable[[Rows], Rows]) -> Rows:
        few = self.collected()
        return with_spark(self) if few.arrow is None else few.compute(in_driver, with_spark)

    def packed(self, by: Sequence[str] = ()) -> DataFrame:
        if self._count is None:
            return self._frame
        files = -(-self._count // _ROWS_PER_FILE)
        if files > 1 and by:
            return self._frame.repartitionByRange(files, *(F.col(f"`{name}`") for name in by))
        return self._frame.coalesce(max(1, files))

    def _may_be_collected(self, count: int | None) -> bool:
        """Whether so many rows are few, and one task may compute them."""
        if not self.limits.rows or count is None or count > self.limits.rows:
            return False
        return self._read is None or self._read.total <= self.limits.read_bytes

    def _collect_if_few(self) -> pa.Table | None:
        is_possible = self._may_be_collected(self._count or 0)
        return collect_if_small(self._frame, self.limits) if is_possible else None

    def _collected_as(self, arrow: pa.Table) -> ArrowRows:
        like = SparkRows(self._frame, None, self.limits)
        return ArrowRows(like, arrow, schema=self._frame.schema)


def rows_in_driver(
    session: SparkSession, arrow: pa.Table, limits: DriverLimits, schema: StructType | None = None
) -> ArrowRows:
    """Rows that are in the driver already.

    Args:
        session: The session of what Spark computes from them.
        limits: What may be collected of rows that are computed from these.
        schema: Spark's types; unset: derived from Arrow's types.
    """
    return ArrowRows(SparkRows(session.range(0), None, limits), arrow, schema=schema)
