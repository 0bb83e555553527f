"""A view's table as a multiset: rows are told apart by all of their columns, equal ones by their number.

Rows are the same as ``exact`` has it: NaN is NaN, null is null, maps are their entries in any order, and 0.0
is not -0.0, which an expression may tell apart. A change that takes a row away takes one that differs only in
the sign of a zero where the table lacks the very same: the greatest of 0.0 and -0.0 may be either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    VariantType,
)

from common.delta import table as delta_table
from common.delta.changes import comparable, exactly_same, grouped_exactly
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.merge import frame_with_keys, rows_with_keys, write_changes, write_copies
from common.delta.micro_batch import MicroBatch
from common.errors import ForeignChangeError
from common.rows.rows import Rows
from common.spark.types import contains_type

_HAVE, _WANT, _WEIGHT, _THERE = "__have", "__want", "__weight", "__there"

_LACKED, _COPIES = "lacked", "copies"
"""Besides what ``ACTION`` says of a row: the table lacks what is taken away; there are equal rows."""


def change(changes: Rows, path: str, batch: MicroBatch, counts: Mapping[str, Any]) -> None:
    """Take rows away and add rows, each as often as its ``__weight`` says; leaves a commit in any case.

    Args:
        changes: The table's columns and ``__weight``; one row per value.

    Raises:
        ForeignChangeError: The table lacks a row that is taken away: another program has changed it.
    """
    rows = changes.drop(_WEIGHT)
    columns = rows.schema
    have = _counted(_rows_now(path, rows), columns, _HAVE)
    want = F.coalesce(F.col(f"h.{_HAVE}"), F.lit(0)) + F.coalesce(F.col(f"w.{_WEIGHT}"), F.lit(0))
    has_zeros = contains_type(columns, FloatType, DoubleType)
    found = _beside(have, changes.frame, columns, want, how="full" if has_zeros else "right")
    if has_zeros:
        found = _of_either_zero(found, columns)
    _write(changes.derive(found.where(f"{_HAVE} <> {_WANT}")), path, batch, counts, columns)


def replace(rows: Rows, keys: Rows | None, path: str, batch: MicroBatch, counts: Mapping[str, Any]) -> None:
    """Make the rows of some keys those given, by writing what differs; leaves a commit in any case.

    Args:
        rows: All rows that the keys are to have; the table's columns.
        keys: The keys, one row each; its columns are columns of the table, compared null-safe. None: the
            whole table.
    """
    columns = rows.schema
    before = _table(rows, path) if keys is None else _rows_now(path, keys)
    have, want = _counted(before, columns, _HAVE), _counted(rows.frame, columns, _WANT)
    found = _beside(have, want, columns, F.coalesce(F.col(f"w.{_WANT}"), F.lit(0)), how="full")
    _write(rows.derive(found.where(f"{_HAVE} <> {_WANT}")), path, batch, counts, columns)


def _beside(have: DataFrame, want: DataFrame, columns: StructType, wanted: Column, *, how: str) -> DataFrame:
    """The values of two sides, one row each, with how often the table has it and is to have it."""
    there = want.withColumn(_THERE, F.lit(True)).alias("w")
    both = have.alias("h").join(there, exactly_same(columns, "h", "w"), how)
    is_there = F.col(f"w.{_THERE}").isNotNull()
    return both.select(
        *(F.when(is_there, F.col(f"w.`{n}`")).otherwise(F.col(f"h.`{n}`")).alias(n) for n in columns.names),
        F.coalesce(F.col(f"h.{_HAVE}"), F.lit(0)).alias(_HAVE),
        wanted.alias(_WANT),
    )


def _of_either_zero(found: DataFrame, columns: StructType) -> DataFrame:
    """The values with what the table lacks of one taken from those that differ in signs of zeros alone."""
    equal = Window.partitionBy(*(comparable(F.col(f"`{one.name}`"), one.dataType) for one in columns))
    want, none = F.col(_WANT), F.lit(0)
    lacked, in_all = F.sum(F.least(want, none)).over(equal), F.sum(want).over(equal)
    up_to_it = equal.orderBy(want).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    left = F.sum(F.greatest(want, none)).over(up_to_it) + lacked
    rest = F.greatest(F.least(F.greatest(want, none), left), none)
    return found.withColumn(_WANT, F.when(in_all < 0, want).otherwise(rest))


def _write(found: Rows, path: str, batch: MicroBatch, counts: Mapping[str, Any], columns: StructType) -> None:
    """Write values whose number differs: one row each, with how often the table has it and is to have it."""
    have, want = F.col(_HAVE), F.col(_WANT)
    action = F.when(want < 0, _LACKED).when(F.greatest(have, want) > 1, _COPIES)
    action = action.when(want == 0, DELETED).otherwise(INSERTED)
    with found.derive(found.frame.withColumn(ACTION, action)).kept() as counted:
        rows_of = counted.count_by(ACTION)
        if rows_of.get(_LACKED):
            raise ForeignChangeError(
                f"{batch.query}: its table at {path} lacks rows that it wrote and that a change takes away: "
                f"another program has changed it. Fill it again: medallion rebuild {batch.query}."
            )
        if rows_of.get(_COPIES) or _only_spark_compares(columns):
            _write_copies(counted.frame, path, batch, counts, columns)
            return
        numbers = {INSERTED: rows_of.get(INSERTED, 0), UPDATED: 0, DELETED: rows_of.get(DELETED, 0)}
        metadata = batch.metadata(delta_table.MERGE, {**counts, **numbers})
        write_changes(counted.drop(_HAVE).drop(_WANT), path, metadata, key=columns.names, numbers=numbers)


def _write_copies(
    counted: DataFrame, path: str, batch: MicroBatch, counts: Mapping[str, Any], columns: StructType
) -> None:
    """Of equal rows delete all, and insert as many as are wanted."""
    have, want, none = F.col(_HAVE), F.col(_WANT), F.lit(0)
    more, less = F.sum(F.greatest(want - have, none)), F.sum(F.greatest(have - want, none))
    totals = counted.agg(more, less).collect()[0]
    numbers = {INSERTED: totals[0] or 0, UPDATED: 0, DELETED: totals[1] or 0}
    names = [F.col(f"`{name}`") for name in columns.names]
    deleted = counted.where(have > 0).select(*names, F.lit(DELETED).alias(ACTION))
    copies = F.explode(F.sequence(F.lit(1), want)).alias("__copy")
    inserted = counted.where(want > 0).select(*names, F.lit(INSERTED).alias(ACTION), copies).drop("__copy")
    metadata = batch.metadata(delta_table.MERGE, {**counts, **numbers})
    write_copies(deleted.unionByName(inserted), path, metadata)


def _rows_now(path: str, keys: Rows) -> DataFrame:
    """At least the table's rows that have one of some keys, by all of the keys' columns that are compared."""
    compared = [one.name for one in keys.schema if not contains_type(one.dataType, MapType, VariantType)]
    if not compared:
        return _table(keys, path)
    if _only_spark_compares(keys.schema):
        return frame_with_keys(_table(keys, path), keys, compared)
    return rows_with_keys(path, keys, compared).frame


def _only_spark_compares(columns: StructType) -> bool:
    """Whether there are values that only Spark compares: lists, structs, maps, variants, and -0.0 as 0.0."""
    kinds = (ArrayType, MapType, StructType, VariantType, FloatType, DoubleType)
    return any(isinstance(one.dataType, kinds) for one in columns)


def _table(rows: Rows, path: str) -> DataFrame:
    return delta_table.newest(rows.session, path)


def _counted(frame: DataFrame, columns: StructType, number: str) -> DataFrame:
    return grouped_exactly(frame, columns, F.count(F.lit(1)).alias(number))
