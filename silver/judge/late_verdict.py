"""Late rows told apart before Spark's operator drops them, which would count them and forget them. Pure.

Spark judges a micro-batch by a watermark that is known when the micro-batch begins. Who runs it says so to
its tasks, by a local property of its thread; a row at or before it rides through the operator as rejected
rows do, nobody's duplicate and never late, and comes out with its verdict. Without the property no row is
late here, and Spark drops those that are.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from silver.judge.dedupe import coordinates
from silver.read.columns import ACCEPT, EVENT_TIME, KEY, LATE, VERDICT
from silver.read.value_reader import call

_CLASS = "medallion.Watermark"
_PROPERTY = "medallion.lateWatermarkMs"
_IS_LATE = "__is_late"


def judge_by(spark: SparkSession, watermark_ms: int | None) -> None:
    """Have the jobs of this thread judge rows late by a watermark, or none by any."""
    told: str = None if watermark_ms is None else str(watermark_ms)  # type: ignore[assignment]  # null removes it
    spark.sparkContext.setLocalProperty(_PROPERTY, told)


def marked(frame: DataFrame) -> DataFrame:
    """Judged rows, those accepted ones with the verdict ``late`` that are at or before the watermark."""
    return (
        frame.withColumn(_IS_LATE, (F.col(VERDICT) == ACCEPT) & F.coalesce(_is_late(), F.lit(False)))
        .withColumns(
            {
                VERDICT: F.when(F.col(_IS_LATE), F.lit(LATE)).otherwise(F.col(VERDICT)),
                KEY: F.when(F.col(_IS_LATE), coordinates()).otherwise(F.col(KEY)),
                EVENT_TIME: F.when(~F.col(_IS_LATE), F.col(EVENT_TIME)),
            }
        )
        .drop(_IS_LATE)
    )


def _is_late() -> Column:
    return call("isLate", BooleanType(), F.unix_micros(EVENT_TIME), reader=_CLASS)
