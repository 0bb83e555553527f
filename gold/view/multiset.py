"""A view's table as a multiset: rows are told apart by all of their columns, equal ones by their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

from common.delta import table as delta_table
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.merge import frame_with_keys, rows_with_keys, write_changes, write_copies
from common.delta.micro_batch import MicroBatch
from common.errors import ForeignChangeError
from common.rows.rows import Rows

_HAVE, _WANT, _WEIGHT = "__have", "__want", "__weight"

_LACKED, _COPIES = "lacked", "copies"
"""Besides what ``ACTION`` says of a row: the table lacks what is taken away; there are equal rows."""


def change(changes: Rows, path: str, batch: MicroBatch, counts: Mapping[str, Any]) -> None:
    """Take rows away and add rows, each as often as its ``__weight`` says; leaves a commit in any case.

    Args:
        changes: The table's columns and ``__weight``; one row per value.
        path: The table.
        batch: The batch's identity.
        counts: For the commit's metadata.

    Raises:
        ForeignChangeError: The table lacks a row that is taken away: another program has changed it.
    """
    names = [name for name in changes.columns if name != _WEIGHT]
    have = _counted(_rows_now(path, changes.drop(_WEIGHT)), names, _HAVE)
    same = reduce(and_, (F.col(f"c.`{name}`").eqNullSafe(F.col(f"h.`{name}`")) for name in names))
    both = changes.frame.alias("c").join(have.alias("h"), same, "left")
    there = F.coalesce(F.col(f"h.{_HAVE}"), F.lit(0))
    found = both.select(
        *(F.col(f"c.`{name}`").alias(name) for name in names),
        there.alias(_HAVE),
        (there + F.col(f"c.{_WEIGHT}")).alias(_WANT),
    )
    _write(changes.derive(found), path, batch, counts, names)


def replace(rows: Rows, keys: Rows | None, path: str, batch: MicroBatch, counts: Mapping[str, Any]) -> None:
    """Make the rows of some keys those given, by writing what differs; leaves a commit in any case.

    Args:
        rows: All rows that the keys are to have; the table's columns.
        keys: The keys, one row each; its columns are columns of the table, compared null-safe. None: the
            whole table.
        path: The table.
        batch: The batch's identity.
        counts: For the commit's metadata.
    """
    names = list(rows.columns)
    before = _table(rows, path) if keys is None else _rows_now(path, keys)
    have, want = _counted(before, names, _HAVE), _counted(rows.frame, names, _WANT)
    same = reduce(and_, (F.col(f"h.`{name}`").eqNullSafe(F.col(f"w.`{name}`")) for name in names))
    both = have.alias("h").join(want.alias("w"), same, "full_outer")
    is_there = F.col(f"w.{_WANT}").isNotNull()
    found = both.select(
        *(F.when(is_there, F.col(f"w.`{n}`")).otherwise(F.col(f"h.`{n}`")).alias(n) for n in names),
        F.coalesce(F.col(f"h.{_HAVE}"), F.lit(0)).alias(_HAVE),
        F.coalesce(F.col(f"w.{_WANT}"), F.lit(0)).alias(_WANT),
    )
    _write(rows.derive(found.where(f"{_HAVE} <> {_WANT}")), path, batch, counts, names)


def _write(
    found: Rows, path: str, batch: MicroBatch, counts: Mapping[str, Any], names: Sequence[str]
) -> None:
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
        if rows_of.get(_COPIES) or _only_spark_compares(counted):
            _write_copies(counted.frame, path, batch, counts, names)
            return
        numbers = {INSERTED: rows_of.get(INSERTED, 0), UPDATED: 0, DELETED: rows_of.get(DELETED, 0)}
        metadata = batch.metadata(delta_table.MERGE, {**counts, **numbers})
        write_changes(counted.drop(_HAVE).drop(_WANT), path, metadata, key=names, numbers=numbers)


def _write_copies(
    counted: DataFrame, path: str, batch: MicroBatch, counts: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Of equal rows delete all, and insert as many as are wanted."""
    have, want, none = F.col(_HAVE), F.col(_WANT), F.lit(0)
    more, less = F.sum(F.greatest(want - have, none)), F.sum(F.greatest(have - want, none))
    totals = counted.agg(more, less).collect()[0]
    numbers = {INSERTED: totals[0] or 0, UPDATED: 0, DELETED: totals[1] or 0}
    deleted = counted.where(have > 0).select(*_columns(names), F.lit(DELETED).alias(ACTION))
    copies = F.explode(F.sequence(F.lit(1), want)).alias("__copy")
    inserted = (
        counted.where(want > 0).select(*_columns(names), F.lit(INSERTED).alias(ACTION), copies).drop("__copy")
    )
    metadata = batch.metadata(delta_table.MERGE, {**counts, **numbers})
    write_copies(deleted.unionByName(inserted), path, metadata, names)


def _rows_now(path: str, keys: Rows) -> DataFrame:
    """The table's rows that have one of some keys, by all of the keys' columns."""
    if _only_spark_compares(keys):
        return frame_with_keys(_table(keys, path), keys, list(keys.columns))
    return rows_with_keys(path, keys, list(keys.columns)).frame


def _only_spark_compares(rows: Rows) -> bool:
    """Whether rows have values that only Spark compares as it groups: lists, structs, and -0.0 as 0.0."""
    kinds = (ArrayType, MapType, StructType, FloatType, DoubleType)
    return any(isinstance(field.dataType, kinds) for field in rows.schema)


def _table(rows: Rows, path: str) -> DataFrame:
    return rows.session.read.format("delta").load(path)


def _counted(frame: DataFrame, names: Sequence[str], number: str) -> DataFrame:
    return frame.groupBy(*_columns(names)).agg(F.count(F.lit(1)).alias(number))


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]
