"""Small frames, worked out once and kept in the driver; small tables, read and written from there.

A job of Spark costs a tenth of a second however little it has to do, a MERGE a dozen of them. Where a
micro-batch has few rows, each step of its work is one job whose result comes to the driver and goes into
the next one's plan as it is; and a small table on a local disk is read and written by delta-rs, in
milliseconds. What is computed is the same text of Spark's either way, and so are the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from common.config.driver_limits import NEVER, Small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TOO_LARGE = "spark.driver.maxResultSize"
"""What Spark names when a result would fill the driver."""


class Settled:
    """A frame that was worked out.

    Attributes:
        session: Whose it is.
        rows: How many there are.
        arrow: All of them, where they are few.
    """

    __slots__ = ("_frame", "_made", "_schema", "arrow", "rows", "session")

    def __init__(
        self,
        frame: DataFrame | Callable[[], DataFrame],
        rows: int,
        arrow: pa.Table | None = None,
        *,
        session: SparkSession | None = None,
        schema: StructType | None = None,
    ) -> None:
        """Of a frame that is there, or of one that is made when somebody asks for it.

        Args:
            frame: It, or what makes it.
            rows: How many there are.
            arrow: All of them, where they are few.
            session: Whose a frame is that is yet to be made.
            schema: Its columns, where they are known.
        """
        self.rows, self.arrow, self._schema = rows, arrow, schema
        self._frame: DataFrame | None = None
        self._made: Callable[[], DataFrame] | None = None
        if callable(frame):
            self._made = frame
        else:
            self._frame = frame
        self.session = self.frame.sparkSession if session is None else session

    @classmethod
    def of(
        cls,
        session: SparkSession,
        arrow: pa.Table,
        made: Callable[[], DataFrame],
        schema: StructType | None = None,
    ) -> Settled:
        """Of rows in the driver, whose frame is made when somebody asks for it: most never do."""
        return cls(made, arrow.num_rows, arrow, session=session, schema=schema)

    @property
    def frame(self) -> DataFrame:
        """It; whatever is made of it begins with its rows, not with what they were made of."""
        if self._frame is None:
            assert self._made is not None  # noqa: S101  # one of the two there is
            self._frame = self._made()
        return self._frame

    @property
    def schema(self) -> StructType:
        """Its columns, as Spark has them."""
        return self.frame.schema if self._schema is None else self._schema

    def then(self, small: Small) -> Small:
        """What is small to that which is made of these rows: nothing, where they are many themselves."""
        return NEVER if self.arrow is None else small

    def nulls(self, name: str) -> int:
        """How many rows have null in a column."""
        if self.arrow is not None:
            return int(self.arrow[name].null_count)
        return self.frame.where(F.col(name).isNull()).count()

    def renamed(self, names: Mapping[str, str]) -> Settled:
        """Some of its columns under other names."""

        def made() -> DataFrame:
            return self.frame.select(*(F.col(f"`{old}`").alias(new) for old, new in names.items()))

        if self.arrow is None:
            return Settled(made(), self.rows)
        return Settled.of(self.session, self.arrow.select([*names]).rename_columns([*names.values()]), made)

    def without(self, name: str) -> Settled:
        """The same rows without one of their columns."""
        if self.arrow is None:
            return Settled(self.frame.drop(name), self.rows)
        return Settled.of(self.session, self.arrow.drop_columns([name]), lambda: self.frame.drop(name))


@contextmanager
def settled(
    frame: DataFrame,
    small: Small,
    *,
    once: bool = False,
    anew: Callable[[], None] | None = None,
) -> Iterator[Settled]:
    """Work a frame out: few rows come to the driver, more stay with the executors until the end of the block.

    Args:
        frame: What is to be worked out.
        small: What few rows are.
        once: It is read once, and whole, by all executors: for what keeps state (a micro-batch that is not
            read to its end counts as done all the same), and for what is likely to be much. Else one task
            has the last step, and many rows are read twice, the first time not to their end.
        anew: The rows are likely to be few: they come by one job, where else one keeps them, one counts them
            and one fetches them. Called where they turn out to fill the driver and are worked out again.
    """
    if once and anew is not None and small.rows:
        arrow = collected(frame)
        if arrow is None:
            anew()
    else:
        arrow = None if once else taken(frame, small)
    if arrow is not None:
        found = local(frame.sparkSession, arrow, frame.schema)
        # They were likely to be few and are not: what is made of them is the executors'.
        yield found if arrow.num_rows <= small.rows else Settled(found.frame, arrow.num_rows)
        return
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = kept.count()
        is_few = once and rows <= small.rows and size_of(kept) <= small.batch_bytes
        arrow = taken(kept, small) if is_few else None
        yield Settled(kept, rows) if arrow is None else local(frame.sparkSession, arrow, frame.schema)
    finally:
        kept.unpersist()


def taken(frame: DataFrame, small: Small) -> pa.Table | None:
    """All rows of a frame, where they are few."""
    if not small.rows:
        return None
    # In one partition a limit needs no shuffle.
    found = collected(frame.coalesce(1).limit(small.rows + 1))
    is_few = found is not None and found.num_rows <= small.rows and found.nbytes <= small.batch_bytes
    return found if is_few else None


class _Results:
    """Bounds the results that are in the driver's heap at once, over all queries of the process.

    Spark refuses one result that is larger than ``spark.driver.maxResultSize``; of many queries the results
    come at the same time. So many are let in at once as fit into half of the heap at their largest; another
    one waits until one of them is in Python. No collection begins within another, so none waits for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: threading.BoundedSemaphore | None = None

    @contextmanager
    def place(self, session: SparkSession) -> Iterator[None]:
        """Wait for a place, and keep it within the block."""
        with self._lock:
            if self._places is None:
                self._places = threading.BoundedSemaphore(at_once(session))
        with self._places:
            yield


_RESULTS = _Results()


def at_once(session: SparkSession) -> int:
    """How many results of the largest size fit into half of the driver's heap; one at least."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001  # the size of the heap is the JVM's
    text = session.sparkContext.getConf().get(_TOO_LARGE, "1g")
    largest = int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text))
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())
    return max(1, heap // 2 // (largest or 2**30))  # 0 is no bound at all


def collected(frame: DataFrame) -> pa.Table | None:
    """All rows of a frame, which are few; nothing, where they would fill the driver all the same."""
    try:
        with _RESULTS.place(frame.sparkSession):
            return frame.toArrow()
    except pa.ArrowException:  # nulls where Spark's own schema says that there are none
        return None
    except (PySparkException, Py4JJavaError) as error:
        if _TOO_LARGE in str(error):
            return None
        raise


def few(frame: DataFrame, at_most: int, small: Small) -> Settled:
    """A frame of so many rows at most, which are read again at no cost: in the driver, where they are few."""
    return Settled(frame, at_most, taken(frame, small) if at_most <= small.rows else None)


def local(session: SparkSession, arrow: pa.Table, schema: StructType | None = None) -> Settled:
    """Rows of the driver as a frame: of one partition, so what groups or joins them needs no shuffle.

    Args:
        session: Whose frame it is.
        arrow: The rows.
        schema: Their types as Spark has them; unset: as Arrow's types tell, which know of no time without a
            zone.
    """

    def made() -> DataFrame:
        rows = arrow
        if not rows.num_rows:
            nothing = [pa.array([], field.type) for field in rows.schema]
            rows = pa.Table.from_batches([pa.record_batch(nothing, schema=rows.schema)])
        frame = session.createDataFrame(rows) if schema is None else session.createDataFrame(rows, schema)
        return frame.coalesce(1)

    return Settled.of(session, arrow, made, schema)


def of_batch(rows: DataFrame, small: Small, *, beside: int = 0) -> Small:
    """What is small to a micro-batch: nothing, where it has much to read.

    Args:
        rows: The micro-batch as Spark brings it; its plan knows the size of its files before a row is read.
        small: What is small else.
        beside: Bytes that are read beside it.
    """
    return small if beside + size_of(rows) <= small.read_bytes else NEVER


def size_of(frame: DataFrame) -> int:
    """A frame's bytes, as Spark's plan knows them: of files as on disk, of a kept frame as it is kept."""
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())  # noqa: SLF001
