"""Marks late rows before Spark's deduplication drops them and only counts them. Pure.

Spark drops rows by a watermark that is known when the micro-batch starts. The writer passes that watermark to
the tasks as a local property of its thread. An accepted row at or before the watermark gets the verdict
``late`` and passes the deduplication as a rejected row does: its key equals no other, and its event time is
null. Without the property no row is marked, and Spark drops late rows.

Spark's watermark is 0, the beginning of 1970, until an event moves it, and never earlier. Spark is therefore
given ``FIRST_US`` as the time of an event of that moment or before: it is in time until the watermark moves.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from silver.judge.dedupe import coordinates
from silver.read.column_names import ACCEPT, EVENT_TIME, KEY, LATE, VERDICT
from silver.read.value_reader import java_call

_CLASS = "medallion.streaming.Watermark"
_PROPERTY = "medallion.lateWatermarkMs"
_IS_LATE = "__is_late"

FIRST_US = 1
"""The earliest event time that is after Spark's first watermark, in microseconds since 1970."""


def set_late_watermark(spark: SparkSession, watermark_ms: int | None) -> None:
    """Set the watermark by which this thread's jobs mark rows late; None disables marking."""
    value: str = None if watermark_ms is None else str(watermark_ms)  # type: ignore[assignment]  # null removes it
    spark.sparkContext.setLocalProperty(_PROPERTY, value)


def mark_late(frame: DataFrame) -> DataFrame:
    """Judged rows, with the verdict ``late`` for accepted rows at or before the watermark."""
    is_late = java_call("isLate", BooleanType(), F.unix_micros(_time_for_spark()), reader=_CLASS)
    return (
        frame.withColumn(_IS_LATE, (F.col(VERDICT) == ACCEPT) & F.coalesce(is_late, F.lit(False)))
        .withColumns(
            {
                VERDICT: F.when(F.col(_IS_LATE), F.lit(LATE)).otherwise(F.col(VERDICT)),
                KEY: F.when(F.col(_IS_LATE), coordinates(frame)).otherwise(F.col(KEY)),
                EVENT_TIME: F.when(~F.col(_IS_LATE), _time_for_spark()),
            }
        )
        .drop(_IS_LATE)
    )


def _time_for_spark() -> Column:
    first = F.timestamp_micros(F.lit(FIRST_US))
    # Not greatest(): it would give a row without an event time one.
    return F.when(F.col(EVENT_TIME) < first, first).otherwise(F.col(EVENT_TIME))
