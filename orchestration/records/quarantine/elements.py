"""Quarantined rows of a table with a row per element, judged again: from bronze, which has their records.

A quarantined element has its own bytes, and not those of the record whose fields stand beside it. A record
that was set aside whole is judged whole: it leaves quarantine if none of its elements fails, and stays with
all of them if one does.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from common.config.driver_limits import DriverLimits
from common.config.paths import Layout
from common.declare import Silver
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.rows.spark_rows import SparkRows
from silver.read.column_names import DROP, ELEMENT, FAIL, META, PLACE, QUARANTINE, VERDICT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

AS_QUARANTINED = "__as_quarantined"
"""The position that a quarantined row has; null for a record that was set aside whole."""

_FEW = DriverLimits(rows=100_000)


def records_of(spark: SparkSession, silver: Silver, layout: Layout, rows: DataFrame) -> DataFrame:
    """The records of bronze that quarantined rows are of; of expired and erased ones there are none."""
    bronze = delta_table.newest(spark, layout.table_path(silver.source))
    with SparkRows(rows.select(*PLACE).distinct(), None, _FEW).kept() as places:
        return delta_merge.frame_with_keys(bronze, places, PLACE)


def judged_of(rows: DataFrame, records: DataFrame, judge: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """The units of some quarantined rows, judged, each with ``AS_QUARANTINED``."""
    was = rows.select(
        *(F.col(name).alias(f"__{name}") for name in PLACE), F.col(ELEMENT).alias(AS_QUARANTINED)
    )
    meta, asked = F.col(META), F.col(AS_QUARANTINED)
    same = reduce(and_, (meta.getField(name) == F.col(f"__{name}") for name in PLACE))
    # An element of a record that cannot be read today fails with its record.
    is_asked = asked.isNull() | meta.getField(ELEMENT).isNull() | (meta.getField(ELEMENT) == asked)
    found = judge(records).join(was, same & is_asked).drop(*(f"__{name}" for name in PLACE))
    of_record = Window.partitionBy(*(meta.getField(name) for name in PLACE), asked)
    has_failed = F.max(F.col(VERDICT).isin(QUARANTINE, DROP, FAIL)).over(of_record)
    stays = asked.isNull() & has_failed
    return found.withColumn(VERDICT, F.when(stays, F.lit(QUARANTINE)).otherwise(F.col(VERDICT)))
