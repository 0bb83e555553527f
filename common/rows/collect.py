"""Collects Spark frames into the driver where they are small, and makes frames of Arrow rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from common.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from common.config.driver_limits import DriverLimits

_TOO_LARGE = "spark.driver.maxResultSize"
"""The setting that Spark's error names where a result would fill the driver."""


class _ResultBound:
    """Bounds the results that are in the driver's heap at the same time, over all queries of the process.

    Spark refuses one result that is larger than ``spark.driver.maxResultSize``, but results of many queries
    arrive at the same time. As many collections run at once as fit into half of the heap at the largest size;
    another collection waits until one of them has handed its result to Python. No collection starts inside
    another, so none waits for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: threading.BoundedSemaphore | None = None

    @contextmanager
    def place(self, session: SparkSession) -> Iterator[None]:
        """Wait for a place, and hold it within the block."""
        with self._lock:
            if self._places is None:
                self._places = threading.BoundedSemaphore(max_concurrent_results(session))
        with self._places:
            yield


_RESULT_BOUND = _ResultBound()


def max_concurrent_results(session: SparkSession) -> int:
    """The number of results of the largest size that fit into half of the driver's heap; at least one."""
    text = session.sparkContext.getConf().get(_TOO_LARGE, "1g")
    largest = jvm.parse_bytes(text)
    return max(1, jvm.max_heap_bytes() // 2 // (largest or 2**30))  # 0 is no bound at all


def collect_if_small(frame: DataFrame, limits: DriverLimits) -> pa.Table | None:
    """All rows of a frame by one job; ``None`` where they exceed the limits."""
    if not limits.rows:
        return None
    # In one partition a limit needs no shuffle.
    arrow = collect(frame.coalesce(1).limit(limits.rows + 1))
    is_small = arrow is not None and arrow.num_rows <= limits.rows and arrow.nbytes <= limits.batch_bytes
    return arrow if is_small else None


def collect(frame: DataFrame) -> pa.Table | None:
    """All rows of a frame that is expected to be small; ``None`` where they would fill the driver.

    Also where Arrow has no such type: the elements of Spark's ``array()`` are void, and never null.
    """
    if "void" in frame.schema.simpleString():
        return None
    try:
        with _RESULT_BOUND.place(frame.sparkSession):
            return frame.toArrow()
    except pa.ArrowException:  # nulls in a column that Spark's own schema declares NOT NULL
        return None
    except (PySparkException, Py4JJavaError) as error:
        if _TOO_LARGE in str(error):
            return None
        raise


def frame_of(session: SparkSession, arrow: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Arrow rows as a frame of one partition: grouping or joining such rows needs no shuffle.

    Args:
        schema: Spark's types; unset: derived from Arrow's types, which have no timestamp without a zone.
    """
    if not arrow.num_rows:
        empty = [pa.array([], field.type) for field in arrow.schema]
        arrow = pa.Table.from_batches([pa.record_batch(empty, schema=arrow.schema)])
    arrow = arrow.cast(pa.schema([field.with_type(_with_metadata(field.type)) for field in arrow.schema]))
    frame = session.createDataFrame(arrow) if schema is None else session.createDataFrame(arrow, schema)
    return frame.coalesce(1)


def _with_metadata(kind: pa.DataType) -> pa.DataType:
    """A type whose fields named ``wkb`` have metadata: pyspark fails where it has none."""
    if pa.types.is_struct(kind):
        fields = [field.with_type(_with_metadata(field.type)) for field in kind]
        return pa.struct(
            [f.with_metadata(f.metadata or {b"": b""}) if f.name == "wkb" else f for f in fields]
        )
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_metadata(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_with_metadata(kind.item_type)))
    return kind
