"""Explains bronze rows that are in no table: tombstones, other tables' records, and duplicates with their
witness in silver.

A witness is a row of silver with the same key. Only these few bronze rows are parsed; of silver, only the
key columns are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bronze.table import INGESTED
from common.config.driver_limits import DriverLimits
from common.declare import Silver
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from orchestration.records.audit.offset_places import PLACE, WHOLE, place_of
from orchestration.records.audit.offset_ranges import BatchRange
from orchestration.records.audit.other_records import IS_OTHER, Decision, read_marked
from silver.judge.dedupe import key_text
from silver.read.column_names import ELEMENT, META, arrival, row_coordinates
from silver.write.exact_dedupe import newest_order

FEW = DriverLimits(rows=20_000)
"""Up to this many rows are collected into the driver, so that later steps need no further shuffle."""

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
        is_split: Whether silver may read records of one time in another order: commits of bronze have several
            files, or any row of a micro-batch may stay.
    """
    left, is_newest = found, silver.keep == "newest"
    is_right = F.expr(_IS_NEWER if is_newest else _IS_NO_LATER.format(after=">" if is_split else ">="))
    for place, each in enumerate(accepted):
        if each is None or (place > 0 and left.isEmpty()):
            continue
        witnesses = _witnesses(each, left, silver)
        if ORDER in left.columns:
            left = _without(left, witnesses, is_right)
        else:
            left = left.join(witnesses.select(KEY), KEY, "left_anti")
    return left


@contextmanager
def lone_rows(  # noqa: PLR0913, PLR0917  # what they are searched in, and by
    found: DataFrame,
    accepted: Sequence[DataFrame | None],
    silver: Silver,
    expected: int,
    is_split: bool,  # noqa: FBT001
    batches: Sequence[BatchRange],
) -> Iterator[Rows]:
    """The rows ``without_witness``, with ``is_first``.

    Args:
        found: As there, ``accepted``, ``silver`` and ``is_split`` too.
        batches: Which micro-batch has read which offsets, of a table that keeps any row of a key in a
            micro-batch: a row that was read in the same one is a witness, in whatever order they came.
    """
    alone = without_witness(found, accepted, silver, is_split=is_split or bool(batches))
    with SparkRows(mark_first_of_key(alone), None, FEW).kept(whole=True, expected=expected) as lone:
        if not batches or not lone.count:
            yield lone
            return
        left = _with_number(lone.frame.drop("is_first"), batches)
        for each in filter(None, accepted):
            keys = lone.frame.select(KEY).distinct()
            witnesses = _witnesses(each, lone.frame, silver).join(keys, KEY, "left_semi")
            left = _without(left, _with_number(witnesses, batches), F.expr(_IS_IN_TIME))
        marked = mark_first_of_key(left.drop(_NUMBER))
        with SparkRows(marked, None, FEW).kept(whole=True, expected=lone.count) as rest:
            yield rest


def _witnesses(accepted: DataFrame, found: DataFrame, silver: Silver) -> DataFrame:
    """The keys of rows of silver that may be those of ``found``, with their order."""
    names = silver.event_key
    bounds = reduce(and_, SparkRows(found.select("columns.*")).bounds(names), F.lit(True))
    is_newest = silver.keep == "newest"
    order = newest_order(silver, accepted.columns) if is_newest else arrival(accepted.columns)
    key = key_text(accepted, names).alias(KEY)
    return accepted.where(bounds).select(key, _order([F.col(f"`{name}`") for name in order]))


def _without(left: DataFrame, witnesses: DataFrame, is_right: Column) -> DataFrame:
    """The rows without a witness that has their key and is right, or of which nobody can tell."""
    same = F.col(f"has.{KEY}") == F.col(f"it.{KEY}")
    is_witness = same & F.coalesce(is_right, F.lit(True))
    return left.alias("it").join(witnesses.alias("has"), is_witness, "left_anti")


def _with_number(rows: DataFrame, batches: Sequence[BatchRange]) -> DataFrame:
    """Rows with the number of their micro-batch; null where it is not known."""
    fields = f"of_topic string, of_partition int, start bigint, stop bigint, {_NUMBER} bigint"
    ranges = rows.sparkSession.createDataFrame(batches, fields)
    topic, partition, offset = (F.col(f"{ORDER}.o{at}") for at in range(1, 4))
    within = (topic == F.col("of_topic")) & (partition == F.col("of_partition"))
    within &= (offset >= F.col("start")) & (offset < F.col("stop"))
    return rows.join(F.broadcast(ranges), within, "left").select(*rows.columns, _NUMBER)


_NUMBER = "__number"
_IS_IN_TIME = f"has.{_NUMBER} <= it.{_NUMBER}"
"""Of a micro-batch any row of a key may stay; none of one that came after it may stand for the first."""
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
