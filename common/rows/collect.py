"""Collects Spark frames into the driver where they are small, and makes frames of Arrow rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from common.config.driver_limits import DriverLimits

_TOO_LARGE = "spark.driver.maxResultSize"
"""The setting that Spark's error names where a result would fill the driver."""


def collect_if_small(frame: DataFrame, limits: DriverLimits) -> pa.Table | None:
    """All rows of a frame by one job; ``None`` where they exceed the limits."""
    if not limits.rows:
        return None
    # In one partition a limit needs no shuffle.
    arrow = collect(frame.coalesce(1).limit(limits.rows + 1))
    is_small = arrow is not None and arrow.num_rows <= limits.rows and arrow.nbytes <= limits.batch_bytes
    return arrow if is_small else None


def collect(frame: DataFrame) -> pa.Table | None:
    """All rows of a frame that is expected to be small; ``None`` where they would fill the driver."""
    try:
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
        session: The session of the frame.
        arrow: The rows.
        schema: Spark's types; unset: derived from Arrow's types, which have no timestamp without a zone.
    """
    if not arrow.num_rows:
        empty = [pa.array([], field.type) for field in arrow.schema]
        arrow = pa.Table.from_batches([pa.record_batch(empty, schema=arrow.schema)])
    frame = session.createDataFrame(arrow) if schema is None else session.createDataFrame(arrow, schema)
    return frame.coalesce(1)


def size_of(frame: DataFrame) -> int:
    """A frame's bytes by Spark's plan: compressed bytes of files, or the size of a persisted frame."""
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())  # noqa: SLF001
