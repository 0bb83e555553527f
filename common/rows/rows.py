"""The interface of a micro-batch's rows, wherever they are: with Spark's executors, or in the driver.

A Spark job costs a tenth of a second however little it has to do, and a MERGE is a dozen jobs. So rows within
the driver's limits are collected by one job, and what is computed from them needs no further job. One of the
two is chosen where rows are computed first (``common.rows.spark_rows``); writers never ask which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from common.rows.expressions import Expression, column, is_null

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from common.config.driver_limits import DriverLimits

ORDER = "__order"
"""The column of ``Rows.compare`` with a row's own place in the order."""


class Rows(ABC):
    """Rows of a micro-batch, or rows computed from them."""

    session: SparkSession  # the Spark session of the rows
    limits: DriverLimits  # what may be collected of rows that are computed from these

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows there are; takes a Spark job where that is not known yet."""

    @property
    @abstractmethod
    def frame(self) -> DataFrame:
        """The rows as a frame."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """Spark's types of the columns."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    @abstractmethod
    def arrow(self) -> pa.Table | None:
        """The rows in the driver, for ``common.delta`` to write them from there; ``None``: with Spark."""

    @abstractmethod
    def derive(self, frame: DataFrame, count: int | None = None) -> Rows:
        """Rows that a frame computes from these, not computed yet; ``count``: at most so many, if known."""

    @abstractmethod
    def kept(
        self,
        *,
        whole: bool = False,
        expected: int | None = None,
        before_retry: Callable[[], None] = lambda: None,
    ) -> AbstractContextManager[Rows]:
        """The rows computed once, until the end of the block: collected where few, else persisted.

        Args:
            whole: All executors compute the rows, once and to the end: for rows with state (a micro-batch
                that is not read to its end counts as done all the same), and for many rows. Without it one
                task computes the last step, and many rows are computed twice, the first time not to the end.
            expected: With ``whole``: how many rows are likely. Few are collected by one job, not by three.
            before_retry: Called before rows that exceed the driver's memory are computed a second time.
        """

    @abstractmethod
    def collected(self) -> Rows:
        """The rows in the driver, where they are within the limits; else these. For ``common.delta``."""

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
        """The rows for which a condition is true; ``count``: how many that are, if it is known."""

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

    def null_count(self, name: str) -> int:
        """How many rows have null in a column."""
        return self.count_where({name: is_null(column(name))})[name]

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
        """What the first function makes of few rows, in the driver; else what the second makes of the rows.

        The first may raise ``NotComparableError`` for rows that only the second can handle.
        """

    @abstractmethod
    def packed(self, by: Sequence[str] = ()) -> DataFrame:
        """The frame in as few files as its rows fill; as it is partitioned where their number is unknown.

        Of several files, each has a range of the columns ``by``; without such columns, rows stay as they lie.
        """
