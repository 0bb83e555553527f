"""Literal bounds of the keys that rows have: only by literals does Delta skip files in a MERGE.

The bounds let some rows with other keys through; a caller also compares the keys themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType

from common.spark.literals import MOST_LISTED, as_python_value, has_literal, literal

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType


_FIXED_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""What Spark notes of a column of texts that is declared as ``char`` or ``varchar``."""


def is_alike(own: StructField, theirs: DataType) -> bool:
    """Whether values of a table's column and of another type are compared as they are: only then bounds hold.

    Integers of two widths are. A text beside a number is compared as a number, and lies between two others as
    a text. A text of a fixed length is padded where it is compared with another one.
    """
    if isinstance(own.dataType, IntegralType) and isinstance(theirs, IntegralType):
        return True
    return own.dataType == theirs and _FIXED_LENGTH not in own.metadata


def bounds_in_driver(rows: pa.Table, schema: StructType, key: Sequence[str], table: str = "") -> list[Column]:
    """Conditions on a table's key columns that hold for every key that the rows have.

    Each column lies between literals; up to 16 values of a column are listed, so that files between two
    values are skipped too. Null stays in where a row has a null.

    Args:
        schema: Spark's types of the rows.
        key: Columns; those of other types than integers, text, dates and times get no bounds.
        table: The table's alias, if it has one.
    """
    conditions = []
    for name in key:
        kind = schema[name].dataType
        if not has_literal(kind):
            continue  # Arrow has no least value of a list or a struct
        values = _as_numbers(rows[name])
        ends = pc.min_max(values)
        if ends["min"].is_valid:
            known = pc.unique(values.drop_null())
            try:
                listed = known.to_pylist() if 1 < len(known) <= MOST_LISTED else None
                low, high = ends["min"].as_py(), ends["max"].as_py()
            except UnicodeDecodeError:
                continue  # text that is not UTF-8, such as a binary key cast to text, has no literal
            conditions.append(_bound(name, table, kind, (low, high), listed, has_null=values.null_count > 0))
    return conditions


def bounds_in_spark(frame: DataFrame, key: Sequence[str], table: str = "") -> list[Column]:
    """The same conditions for a frame, by one job, and a second one where columns have few values."""
    kinds = {name: frame.schema[name].dataType for name in key}
    plain = [name for name in key if has_literal(kinds[name])]
    if not plain:
        return []
    aggregates = [
        aggregate
        for place, name in enumerate(plain)
        for aggregate in (
            as_python_value(F.min(f"`{name}`"), kinds[name]).alias(f"low{place}"),
            as_python_value(F.max(f"`{name}`"), kinds[name]).alias(f"high{place}"),
            F.bool_or(F.col(f"`{name}`").isNull()).alias(f"null{place}"),
            F.approx_count_distinct(f"`{name}`").alias(f"values{place}"),
            _is_text(name, kinds[name]).alias(f"literal{place}"),
        )
    ]
    ends = frame.agg(*aggregates).collect()[0]
    few = [
        name
        for place, name in enumerate(plain)
        if 1 < ends[f"values{place}"] <= MOST_LISTED and ends[f"literal{place}"]
    ]
    listed = _listed(frame, {name: kinds[name] for name in few})
    conditions = []
    for place, name in enumerate(plain):
        low, high = ends[f"low{place}"], ends[f"high{place}"]
        if low is not None and ends[f"literal{place}"]:
            has_null = ends[f"null{place}"]
            conditions.append(
                _bound(name, table, kinds[name], (low, high), listed.get(name), has_null=has_null)
            )
    return conditions


def _bound(  # noqa: PLR0913
    name: str,
    table: str,
    kind: DataType,
    ends: tuple[Any, Any],
    listed: Sequence[Any] | None,
    *,
    has_null: bool,
) -> Column:
    """A condition on one column of the table; values are plain, as ``literal`` takes them."""
    column = F.col(f"{table}.`{name}`" if table else f"`{name}`")
    within = column.between(literal(ends[0], kind), literal(ends[1], kind))
    if listed is not None:
        # Not as an IN list: of a list Delta uses the lowest and the highest value alone.
        within &= reduce(or_, (column == literal(value, kind) for value in listed))
    return within | column.isNull() if has_null else within


def _as_numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days and times as numbers, as ``literal`` takes them."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _is_text(name: str, kind: DataType) -> Column:
    """Whether all values have a literal: bytes that are not UTF-8 reach Python as other text."""
    if not isinstance(kind, StringType):
        return F.lit(True)
    return F.coalesce(F.bool_and(F.is_valid_utf8(F.col(f"`{name}`"))), F.lit(True))


def _listed(frame: DataFrame, kinds: Mapping[str, DataType]) -> Mapping[str, Sequence[Any]]:
    """All values but null of columns that have few."""
    if not kinds:
        return {}
    sets = (
        F.collect_set(as_python_value(F.col(f"`{name}`"), kind)).alias(name) for name, kind in kinds.items()
    )
    row = frame.agg(*sets).first()
    return {} if row is None else {name: row[name] for name in kinds}
