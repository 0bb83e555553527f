"""Rows of a micro-batch behind one interface: with Spark's executors, or collected in the driver.

A Spark job costs a tenth of a second however little it has to do, and a MERGE is a dozen jobs. So rows within
the driver's limits are collected by one job, and what is computed from them needs no further job. Where a
micro-batch's rows are computed first (``Rows.kept``, ``Rows.collected``), one of the two is chosen; writers
never ask which. ``ArrowRows`` hands over to Spark by itself what the driver cannot compute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.rows import latest_in_driver, latest_in_spark
from common.rows.collect import collect, collect_if_small, frame_of
from common.rows.expressions import Expression, column
from common.rows.key_bounds import bounds_in_driver, bounds_in_spark
from common.rows.latest_in_driver import NotComparableError
from common.spark import jvm
from common.spark.literals import as_python_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER = "__new"
"""The column of ``Rows.compare`` with a row's own place in the order."""

_ROWS_PER_FILE = 250_000
_MAX_RANGES = 10_000
"""Up to so many distinct ranges of time are collected; of more, only the ends of all together."""


class Rows(ABC):
    """Rows of a micro-batch, or rows computed from them.

    Attributes:
        session: The Spark session of the rows.
        limits: What may be collected of rows that are computed from these.
    """

    session: SparkSession
    limits: DriverLimits

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows there are; takes a Spark job where that is not known yet."""

    @property
    @abstractmethod
    def frame(self) -> DataFrame:
        """The rows as a frame."""

    @property
    def schema(self) -> StructType:
        """Spark's types of the columns."""
        return self.frame.schema

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    @abstractmethod
    def arrow(self) -> pa.Table | None:
        """The rows in the driver, for ``common.delta`` to write them from there; ``None``: with Spark."""

    def derive(self, frame: DataFrame, count: int | None = None) -> SparkRows:
        """Rows that a frame computes from these, under the same limits; not computed yet.

        Args:
            frame: The frame.
            count: How many rows it has at most, if that is known.
        """
        return SparkRows(frame, count, self.limits)

    @abstractmethod
    def kept(
        self, *, whole: bool = False, before_retry: Callable[[], None] | None = None
    ) -> AbstractContextManager[Rows]:
        """The rows computed once, until the end of the block: collected where few, else persisted.

        Args:
            whole: All executors compute the rows, once and to the end: for rows with state (a micro-batch
                that is not read to its end counts as done all the same), and for rows that are likely to be
                many. Without it one task computes the last step, and many rows are computed twice, the first
                time not to the end.
            before_retry: The rows are likely to be few: one job collects them, where else one job persists,
                one counts and one collects. Called before the rows are computed a second time, where they
                turn out to exceed the driver's memory.
        """

    @abstractmethod
    def collected(self) -> Rows:
        """The rows in the driver, where they are within the limits; else these."""

    @abstractmethod
    def without_driver_if_large(self) -> Rows:
        """The same rows; nothing computed from them is collected where they take much memory themselves."""

    @abstractmethod
    def with_limits(self, limits: DriverLimits) -> Rows:
        """The same rows under other limits."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The size of rows that were computed, in memory."""

    @abstractmethod
    def select(self, columns: Mapping[str, Expression]) -> Rows:
        """One column per expression, under its name."""

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Expression]) -> Rows:
        """The rows with further columns."""

    @abstractmethod
    def where(self, condition: Expression, count: int | None = None) -> Rows:
        """The rows for which a condition is true.

        Args:
            condition: The condition.
            count: How many rows that are, if it is known.
        """

    @abstractmethod
    def drop(self, name: str) -> Rows:
        """The rows without one of their columns."""

    def only(self, names: Sequence[str]) -> Rows:
        """The rows with some of their columns."""
        return self.select({name: column(name) for name in names})

    def renamed(self, names: Mapping[str, str]) -> Rows:
        """The rows with some of their columns, under other names (old name -> new name)."""
        return self.select({new: column(old) for old, new in names.items()})

    @abstractmethod
    def count_where(self, conditions: Mapping[str, Expression]) -> Mapping[str, int]:
        """For how many rows each condition is true, by one job at most."""

    @abstractmethod
    def count_by(self, name: str) -> Mapping[Any, int]:
        """How many rows have each value of a column."""

    @abstractmethod
    def null_count(self, name: str) -> int:
        """How many rows have null in a column."""

    @abstractmethod
    def bounds(self, key: Sequence[str], table: str = "") -> Sequence[Column]:
        """Literal bounds of the key columns, by which Delta skips files (``common.rows.key_bounds``)."""

    @abstractmethod
    def time_ranges(self, low: str, high: str) -> Sequence[tuple[int, int]]:
        """Pairs of two timestamp columns, in microseconds; of very many pairs one that spans all."""

    @abstractmethod
    def latest_per_key(self, *, key: Sequence[str], order: Sequence[str], earliest: bool = False) -> Rows:
        """The last row of each key in ``order``, or the first; null is lowest, null keys are one key."""

    @abstractmethod
    def keys_not_in(self, others: Sequence[Rows], *, key: Sequence[str], itself: Sequence[str]) -> Rows:
        """The rows whose key no other row has.

        Args:
            others: Rows with ``key`` and ``itself``.
            key: Columns that identify a row; not null.
            itself: Columns by which another row is recognised as the very row that is looked up.
        """

    @abstractmethod
    def compare(self, others: Mapping[str, Rows | None], *, key: Sequence[str], order: Sequence[str]) -> Rows:
        """Each key's latest row, with its place in ``order`` beside the places of other tables' rows.

        Adds ``ORDER``, and a column per other table: null where that lacks the key. The columns compare with
        each other as the rows do in ``order``; they are of no other use.

        Args:
            others: At most one row per key, by the name of the column; ``None``: no rows.
            key: Columns that identify a row; compared null-safe.
            order: Columns, the most significant first.
        """

    @abstractmethod
    def narrowed_to(self, keys: Rows, names: Sequence[str]) -> Rows:
        """At least the rows that have one of the keys; in the driver, if the keys are and they are few.

        Args:
            keys: Rows with the columns ``names``; not null.
            names: Columns that both have.
        """

    @abstractmethod
    def compute(self, in_driver: Callable[[Rows], Rows], with_spark: Callable[[Rows], Rows]) -> Rows:
        """What the first function makes of rows in the driver; else what the second makes of the rows.

        Args:
            in_driver: May raise ``NotComparableError`` for rows that only the second function can handle.
            with_spark: May need Spark jobs.
        """

    @abstractmethod
    def packed(self, by: Sequence[str] = ()) -> DataFrame:
        """The frame in as few files as its rows fill; as it is partitioned where their number is unknown.

        Args:
            by: Where there are several files, each has a range of these columns; none: as the rows lie.
        """


class ArrowRows(Rows):
    """Rows collected in the driver; their DataFrame is created on first use; most rows need none."""

    def __init__(
        self,
        session: SparkSession,
        arrow: pa.Table,
        limits: DriverLimits,
        *,
        schema: StructType | None = None,
        frame: Callable[[], DataFrame] | None = None,
    ) -> None:
        """Rows in the driver.

        Args:
            session: The Spark session.
            arrow: The rows.
            limits: What may be collected of rows that are computed from these.
            schema: Spark's types; unset: those of the frame.
            frame: Creates the DataFrame; unset: it is created from the rows themselves.
        """
        self.session, self.limits = session, limits
        self._arrow, self._schema, self._make = arrow, schema, frame
        self._frame: DataFrame | None = None

    @property
    def count(self) -> int:
        return int(self._arrow.num_rows)

    @property
    def frame(self) -> DataFrame:
        if self._frame is None:
            make = self._make or (lambda: frame_of(self.session, self._arrow, self._schema))
            self._frame = make()
        return self._frame

    @property
    def schema(self) -> StructType:
        return self.frame.schema if self._schema is None else self._schema

    @property
    def columns(self) -> Sequence[str]:
        return tuple(self._arrow.column_names)

    @property
    def arrow(self) -> pa.Table:
        return self._arrow

    @contextmanager
    def kept(self, *, whole: bool = False, before_retry: Callable[[], None] | None = None) -> Iterator[Rows]:
        yield self

    def collected(self) -> Rows:
        return self

    def without_driver_if_large(self) -> Rows:
        return self

    def with_limits(self, limits: DriverLimits) -> Rows:
        return ArrowRows(self.session, self._arrow, limits, schema=self._schema, frame=self._make)

    @property
    def bytes(self) -> int:
        return int(self._arrow.nbytes)

    def select(self, columns: Mapping[str, Expression]) -> Rows:
        arrow = pa.table({name: each.arrow(self._arrow) for name, each in columns.items()})
        return self._with(arrow, lambda: _selected(self.frame, columns))

    def with_columns(self, columns: Mapping[str, Expression]) -> Rows:
        kept = {name: self._arrow[name] for name in self._arrow.column_names}
        arrow = pa.table(kept | {name: each.arrow(self._arrow) for name, each in columns.items()})
        return self._with(arrow, lambda: _with_columns(self.frame, columns))

    def where(self, condition: Expression, count: int | None = None) -> Rows:
        return self._with(
            self._arrow.filter(condition.arrow(self._arrow)), lambda: self.frame.where(condition.spark())
        )

    def drop(self, name: str) -> Rows:
        return self._with(self._arrow.drop_columns([name]), lambda: self.frame.drop(name))

    def count_where(self, conditions: Mapping[str, Expression]) -> Mapping[str, int]:
        return {name: pc.sum(each.arrow(self._arrow)).as_py() or 0 for name, each in conditions.items()}

    def count_by(self, name: str) -> Mapping[Any, int]:
        return {one["values"]: one["counts"] for one in self._arrow[name].value_counts().to_pylist()}

    def null_count(self, name: str) -> int:
        return int(self._arrow[name].null_count)

    def bounds(self, key: Sequence[str], table: str = "") -> Sequence[Column]:
        return bounds_in_driver(self._arrow, self.schema, key, table)

    def time_ranges(self, low: str, high: str) -> Sequence[tuple[int, int]]:
        ends = (self._arrow[name].cast(pa.int64()).to_pylist() for name in (low, high))
        return list(zip(*ends, strict=True))

    def latest_per_key(self, *, key: Sequence[str], order: Sequence[str], earliest: bool = False) -> Rows:
        try:
            self._refuse_types((*key, *order))
            positions = latest_in_driver.latest_per_key(self._arrow, key=key, order=order, earliest=earliest)
        except NotComparableError:
            return self._in_spark.latest_per_key(key=key, order=order, earliest=earliest)
        return self._with(self._arrow.take(positions))

    def keys_not_in(self, others: Sequence[Rows], *, key: Sequence[str], itself: Sequence[str]) -> Rows:
        try:
            self._refuse_types((*key, *itself))
            tables = [_arrow_of(each) for each in others]
            positions = latest_in_driver.keys_not_in(self._arrow, tables, key=key, itself=itself)
        except NotComparableError:
            return self._in_spark.keys_not_in(others, key=key, itself=itself)
        return self._with(self._arrow.take(positions))

    def compare(self, others: Mapping[str, Rows | None], *, key: Sequence[str], order: Sequence[str]) -> Rows:
        try:
            self._refuse_types((*key, *order))
            tables = {name: _arrow_of(each) for name, each in others.items() if each is not None}
            ranks = latest_in_driver.rank_against(self._arrow, [*tables.values()], key=key, order=order)
        except NotComparableError:
            return self._in_spark.compare(others, key=key, order=order)
        rows = self._arrow.take(ranks["row"]).append_column(ORDER, ranks["new"])
        nothing = pa.nulls(ranks.num_rows, pa.int64())
        for name in others:
            place = ranks[f"have{[*tables].index(name)}"] if name in tables else nothing
            rows = rows.append_column(name, place)

        def frame() -> DataFrame:
            places = [StructField(name, LongType()) for name in (ORDER, *others)]
            return frame_of(self.session, rows, StructType([*self.schema.fields, *places]))

        return self._with(rows, frame)

    def narrowed_to(self, keys: Rows, names: Sequence[str]) -> Rows:
        return self

    def compute(self, in_driver: Callable[[Rows], Rows], with_spark: Callable[[Rows], Rows]) -> Rows:
        try:
            return in_driver(self)
        except NotComparableError:
            return with_spark(self)

    def packed(self, by: Sequence[str] = ()) -> DataFrame:
        return _packed(self.frame, self.count, by)

    @property
    def _in_spark(self) -> SparkRows:
        return SparkRows(self.frame, self.count, self.limits)

    def _with(self, arrow: pa.Table, frame: Callable[[], DataFrame] | None = None) -> ArrowRows:
        make = frame or (lambda: frame_of(self.session, arrow, self.schema))
        return ArrowRows(self.session, arrow, self.limits, frame=make)

    def _refuse_types(self, names: Sequence[str]) -> None:
        if not latest_in_driver.is_plain(self._arrow.schema, names):
            raise NotComparableError(f"of {', '.join(names)} only Spark can compare all types")


class SparkRows(Rows):
    """Rows of a frame: computed with each use, unless the frame is persisted."""

    def __init__(self, frame: DataFrame, count: int | None = None, limits: DriverLimits = NO_DRIVER) -> None:
        """Rows of a frame.

        Args:
            frame: The frame.
            count: How many rows it has, or at most has, if that is known.
            limits: What may be collected of them, and of rows that are computed from them.
        """
        self.session, self.limits = frame.sparkSession, limits
        self._frame, self._count = frame, count
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
    def columns(self) -> Sequence[str]:
        return self._frame.columns

    @property
    def arrow(self) -> None:
        return None

    @contextmanager
    def kept(self, *, whole: bool = False, before_retry: Callable[[], None] | None = None) -> Iterator[Rows]:
        arrow = None
        if not whole:
            arrow = collect_if_small(self._frame, self.limits)
        elif before_retry is not None and self.limits.rows:
            arrow = collect(self._frame)
            if arrow is None:
                before_retry()
        if arrow is not None:
            rows = self._collected_as(arrow)
            # Where the rows were likely to be few and are not, what is computed from them is Spark's.
            yield rows if arrow.num_rows <= self.limits.rows else SparkRows(rows.frame, arrow.num_rows)
            return
        persisted = self._frame.persist(StorageLevel.MEMORY_AND_DISK)
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
        is_more = self._count is not None and self._count > self.limits.rows
        arrow = None if is_more else collect_if_small(self._frame, self.limits)
        return self if arrow is None else self._collected_as(arrow)

    def without_driver_if_large(self) -> Rows:
        is_large = self.limits.rows and self.bytes > self.limits.batch_bytes
        return self.with_limits(NO_DRIVER) if is_large else self

    def without_driver_if_much_is_read(self, also_read: int = 0) -> SparkRows:
        """The same rows; none is collected where the plan reads many bytes of files.

        Args:
            also_read: Bytes that are read besides.
        """
        is_much = self.limits.rows and also_read + self.bytes > self.limits.read_bytes
        return self.with_limits(NO_DRIVER) if is_much else self

    def with_limits(self, limits: DriverLimits) -> SparkRows:
        return SparkRows(self._frame, self._count, limits)

    @property
    def bytes(self) -> int:
        """The size by Spark's plan: compressed bytes of files, or the size of a persisted frame."""
        return jvm.estimated_bytes(self._frame)

    def select(self, columns: Mapping[str, Expression]) -> Rows:
        return SparkRows(_selected(self._frame, columns), self._count, self.limits)

    def with_columns(self, columns: Mapping[str, Expression]) -> Rows:
        return SparkRows(_with_columns(self._frame, columns), self._count, self.limits)

    def where(self, condition: Expression, count: int | None = None) -> Rows:
        return SparkRows(self._frame.where(condition.spark()), count, self.limits)

    def drop(self, name: str) -> Rows:
        return SparkRows(self._frame.drop(name), self._count, self.limits)

    def count_where(self, conditions: Mapping[str, Expression]) -> Mapping[str, int]:
        counts = (F.count_if(each.spark()).alias(f"count{at}") for at, each in enumerate(conditions.values()))
        return dict(zip(conditions, self._frame.agg(*counts).collect()[0], strict=True))

    def count_by(self, name: str) -> Mapping[Any, int]:
        return {row[0]: row[1] for row in self._frame.groupBy(F.col(f"`{name}`")).count().collect()}

    def null_count(self, name: str) -> int:
        return self._frame.where(F.col(f"`{name}`").isNull()).count()

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
        return SparkRows(frame, None, self.limits)

    def keys_not_in(self, others: Sequence[Rows], *, key: Sequence[str], itself: Sequence[str]) -> Rows:
        frames = [each.frame for each in others]
        frame = latest_in_spark.keys_not_in(self._frame, frames, key=key, itself=itself, count=self.count)
        return SparkRows(frame, None, self.limits)

    def compare(self, others: Mapping[str, Rows | None], *, key: Sequence[str], order: Sequence[str]) -> Rows:
        latest = latest_in_spark.latest_per_key(self._frame, key=key, order=order)
        frames = {name: None if each is None else each.frame for name, each in others.items()}
        frame = latest_in_spark.with_orders(latest, frames, key=key, order=order, count=self.count)
        place = F.struct(*(F.col(f"`{name}`") for name in order))
        return SparkRows(frame.withColumn(ORDER, place), None, self.limits)

    def narrowed_to(self, keys: Rows, names: Sequence[str]) -> Rows:
        if keys.arrow is None:
            return self
        wanted = F.broadcast(keys.frame.select(*(F.col(f"`{name}`") for name in names)).distinct())
        return SparkRows(self._frame.join(wanted, list(names), "left_semi"), None, keys.limits).collected()

    def compute(self, in_driver: Callable[[Rows], Rows], with_spark: Callable[[Rows], Rows]) -> Rows:
        return with_spark(self)

    def packed(self, by: Sequence[str] = ()) -> DataFrame:
        return self._frame if self._count is None else _packed(self._frame, self._count, by)

    def _collected_as(self, arrow: pa.Table) -> ArrowRows:
        return ArrowRows(self.session, arrow, self.limits, schema=self._frame.schema)


def _arrow_of(rows: Rows) -> pa.Table:
    if rows.arrow is None:
        raise NotComparableError("rows to compare with are not in the driver")
    return rows.arrow


def _selected(frame: DataFrame, columns: Mapping[str, Expression]) -> DataFrame:
    return frame.select(*(each.spark().alias(name) for name, each in columns.items()))


def _with_columns(frame: DataFrame, columns: Mapping[str, Expression]) -> DataFrame:
    return frame.withColumns({name: each.spark() for name, each in columns.items()})


def _packed(frame: DataFrame, count: int, by: Sequence[str]) -> DataFrame:
    files = -(-count // _ROWS_PER_FILE)
    if files > 1 and by:
        return frame.repartitionByRange(files, *(F.col(f"`{name}`") for name in by))
    return frame.coalesce(max(1, files))
