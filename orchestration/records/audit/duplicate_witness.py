"""Explains bronze rows that are in no table: tombstones, other tables' records, and duplicates with their
witness in silver.

A witness is a row of silver with the same key. Only these few bronze rows are parsed; of silver, only the
key columns are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bronze.table import INGESTED
from common.declare import Silver
from common.rows.spark_rows import SparkRows
from orchestration.records.audit.offset_places import PLACE, WHOLE, place_of
from orchestration.records.audit.other_records import IS_OTHER, Decision, read_marked
from silver.judge.dedupe import key_text
from silver.read.column_names import ELEMENT, META, arrival, row_coordinates
from silver.write.exact_dedupe import newest_order

KEY = "key_text"
ORDER = "newness"
"""By what the row of a key that stays is found, the newest or the first; null where that is not compared."""

IS_TOMBSTONE = "is_tombstone"
HAS_KEY = "has_key"
IS_EMPTY = "is_empty"


def bronze_keys(
    bronze: DataFrame, rest: DataFrame, silver: Silver, decision: Decision, *, is_ordered: bool = False
) -> DataFrame:
    """The keys of the bronze rows at the coordinates of ``rest``; with elements, of the elements there.

    Columns: coordinates, key columns, key text, whether the row is a tombstone, whether it is a record
    without an element, and whether it is another table's record; with ``is_ordered`` its order among the rows
    of its key: of the newest, or of arrival. Keys come from today's column declarations; the rules are not
    applied.
    """
    names = silver.event_key
    typed = read_marked(bronze.join(rest.select(*PLACE), list(PLACE), "left_semi"), silver, decision)
    place, is_empty = place_of(rest), F.lit(False)
    units = [F.col(f"{META}.{name}").alias(name) for name in PLACE]
    if ELEMENT in place:
        element, fault = F.col(f"{META}.{ELEMENT}"), F.col(f"{META}.fault")
        is_empty = element.isNull() & fault.isNull() & F.col(f"{META}.value").isNotNull()
        units.append(F.coalesce(element, F.lit(WHOLE).cast("bigint")).alias(ELEMENT))
    times = [F.col(f"`{silver.event_time}`"), F.col(f"{META}.timestamp")]
    times = times if silver.keep == "newest" else [F.col(f"{META}.{INGESTED}")]
    found = typed.select(
        *units,
        F.col(f"{META}.value").isNull().alias(IS_TOMBSTONE),
        is_empty.alias(IS_EMPTY),
        IS_OTHER,
        reduce(and_, (F.col(name).isNotNull() for name in names)).alias(HAS_KEY),
        key_text(typed, names).alias(KEY),
        F.struct(*names).alias("columns"),
        *([_order([*times, *units])] if is_ordered else []),
    )
    return found.join(rest.select(*place), list(place), "left_semi") if ELEMENT in place else found


def late_keys(late: DataFrame, only: DataFrame, silver: Silver) -> DataFrame:
    """The keys of the late rows at the coordinates of ``only``, in the columns of ``bronze_keys``."""
    names, place = silver.event_key, place_of(only)
    named = late.select(
        *(F.col(name).alias(alias) for name, alias in zip(row_coordinates(late.columns), place, strict=True)),
        F.lit(False).alias(IS_TOMBSTONE),
        F.lit(True).alias(HAS_KEY),
        key_text(late, names).alias(KEY),
        F.struct(*names).alias("columns"),
    )
    return named.join(only.select(*place), list(place), "left_semi")


def without_witness(
    found: DataFrame, accepted: Sequence[DataFrame | None], silver: Silver, *, is_split: bool = False
) -> DataFrame:
    """The rows of ``found`` whose key is in no row of silver.

    Args:
        found: Keys from ``bronze_keys`` or ``late_keys``.
        accepted: Rows of silver in the order of searching: first the new ones, then all. They are filtered
            by literal bounds of the keys, so that Delta skips files that cannot hold a key.
        silver: The declaration.
        is_split: Whether commits of bronze have several files: silver may read records of one time in another
            order.
    """
    names, after = silver.event_key, ">" if is_split else ">="
    left = found
    for place, each in enumerate(accepted):
        if each is None or (place > 0 and left.isEmpty()):
            continue
        bounds = reduce(and_, SparkRows(left.select("columns.*")).bounds(names), F.lit(True))
        key = key_text(each, names).alias(KEY)
        if ORDER not in left.columns:
            left = left.join(each.where(bounds).select(key), KEY, "left_anti")
            continue
        is_newest = silver.keep == "newest"
        columns = newest_order(silver, each.columns) if is_newest else arrival(each.columns)
        witnesses = (
            each.where(bounds).select(key, _order([F.col(f"`{name}`") for name in columns])).alias("has")
        )
        is_right = F.coalesce(
            F.expr(_IS_NEWER if is_newest else _IS_NO_LATER.format(after=after)), F.lit(True)
        )
        same = F.col(f"has.{KEY}") == F.col(f"it.{KEY}")
        left = left.alias("it").join(witnesses, same & is_right, "left_anti")
    return left


_IS_NEWER = f"has.{ORDER} >= it.{ORDER}"
_IS_NO_LATER = (
    f"not (has.{ORDER}.o1 = it.{ORDER}.o1 and has.{ORDER}.o2 = it.{ORDER}.o2 "
    f"and has.{ORDER}.o3 > it.{ORDER}.o3 and has.{ORDER}.o0 {{after}} it.{ORDER}.o0)"
)
"""Of two records of a partition the later one is later by bronze's clock, too: a clock that was put back says
nothing of which came first, and neither do records of two partitions.
"""


def _order(values: Sequence[Column]) -> Column:
    """The place of a row among those of its key, by the values of ``newest_order`` or ``arrival``, of which
    the first is a time; null without one.
    """
    whole = F.struct(*(value.alias(f"o{at}") for at, value in enumerate(values)))
    return F.when(values[0].isNotNull(), whole).alias(ORDER)


def mark_first_of_key(frame: DataFrame) -> DataFrame:
    """Adds ``is_first``: whether the row is the first of its key; the others are its duplicates.

    Of several missing rows of one key, the first should have been in silver; the others lack their witness.
    """
    first = F.row_number().over(Window.partitionBy(KEY).orderBy(*place_of(frame))) == 1
    return frame.withColumn("is_first", first | ~F.col(HAS_KEY))
