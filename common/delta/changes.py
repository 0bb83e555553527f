"""What differs between two sets of rows: one definition of equal values for everything that writes changes.

Null equals null, NaN equals NaN, and 0.0 equals -0.0. Spark compares no maps and no variants: maps are equal
if their entries are, in any order, and variants if their types and their JSON texts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    VariantType,
)

from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.spark.types import contains_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_FLOATS = (FloatType, DoubleType)

_PRESENT = "__there"
"""Whether a side of a join has the row."""


def changes_between(before: DataFrame, after: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows that make one frame the other, each with its ``ACTION``: inserted, updated or deleted.

    A deleted row has its key, and nulls besides. Rows that are equal are left out.

    Args:
        before: At most one row per key. Columns that it lacks are null in its rows; further ones are ignored.
        after: At most one row per key.
        key: Columns that identify a row; compared null-safe.
    """
    there = F.lit(True).alias(_PRESENT)
    held = (
        F.col(f"`{one.name}`")
        if one.name in before.columns
        else F.lit(None).cast(one.dataType).alias(one.name)
        for one in after.schema
    )
    old, new = before.select(*held, there).alias("t"), after.select("*", there).alias("s")
    is_new, is_gone = F.col(f"t.{_PRESENT}").isNull(), F.col(f"s.{_PRESENT}").isNull()
    action = (
        F.when(is_new, INSERTED)
        .when(is_gone, DELETED)
        .when(differs(one for one in after.schema if one.name not in key), UPDATED)
    )
    row = (
        F.when(is_gone, F.col(f"t.`{name}`")).otherwise(F.col(f"s.`{name}`")).alias(name)
        if name in key
        else F.col(f"s.`{name}`")
        for name in after.columns
    )
    joined = old.join(new, same(key), "full_outer").select(*row, action.alias(ACTION))
    return joined.where(F.col(ACTION).isNotNull())


def same(names: Iterable[str], old: str = "t", new: str = "s") -> Column:
    """The condition under which a row of two aliases has the same values in some columns, null-safe."""
    equal = (F.col(f"{old}.`{name}`").eqNullSafe(F.col(f"{new}.`{name}`")) for name in names)
    return reduce(and_, equal, F.lit(True))


def differs(fields: Iterable[StructField], old: str = "t", new: str = "s") -> Column:
    """The condition under which a row of two aliases has another value in one of some columns."""

    def value(alias: str, field: StructField) -> Column:
        return comparable(F.col(f"{alias}.`{field.name}`"), field.dataType)

    different = (~value(old, one).eqNullSafe(value(new, one)) for one in fields)
    return reduce(or_, different, F.lit(False))


def comparable(value: Column, kind: DataType) -> Column:
    """A value as Spark can compare it: a map as its sorted entries, a variant as its type and its text."""
    if not contains_type(kind, MapType, VariantType):
        return value
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda each: comparable(each, kind.elementType))
    if isinstance(kind, StructType):
        parts = (comparable(value.getField(one.name), one.dataType).alias(one.name) for one in kind)
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(kind, MapType):
        entries = F.transform(
            F.map_entries(value),
            lambda each: F.struct(each.getField("key"), comparable(each.getField("value"), kind.valueType)),
        )
        return F.array_sort(entries)
    return F.struct(F.schema_of_variant(value), F.to_json(value))


def exact(value: Column, kind: DataType) -> Column:
    """As ``comparable``, but 0.0 is not -0.0: an expression may tell them apart."""
    compared = comparable(value, kind)
    if isinstance(kind, _FLOATS):
        return compared.cast("string")
    if not contains_type(kind, *_FLOATS):
        return compared
    return F.struct(compared, compared.cast("string"))


def exactly_same(schema: StructType, old: str = "t", new: str = "s") -> Column:
    """The condition under which a row of two aliases has the very same values in all columns of a schema."""
    equal = (
        exact(F.col(f"{old}.`{one.name}`"), one.dataType).eqNullSafe(
            exact(F.col(f"{new}.`{one.name}`"), one.dataType)
        )
        for one in schema
    )
    return reduce(and_, equal, F.lit(True))


def grouped_exactly(rows: DataFrame, columns: StructType, number: Column) -> DataFrame:
    """The rows with one for each of the values that some columns have, told apart by ``exact``.

    Args:
        columns: The columns; all are columns of the result, unchanged.
        number: An aggregate over the rows of one value; the last column of the result.
    """
    values = {one.name: F.col(f"`{one.name}`") for one in columns}
    odd = [one.name for one in columns if contains_type(one.dataType, *_FLOATS, MapType, VariantType)]
    by = [
        exact(values[one.name], one.dataType).alias(f"__exact{place}")
        if one.name in odd
        else values[one.name]
        for place, one in enumerate(columns)
    ]
    # Grouping makes 0.0 of -0.0, and takes no variants: of a group one of its values is taken.
    grouped = rows.groupBy(*by).agg(*(F.first(values[name]).alias(name) for name in odd), number)
    return grouped.select(*values.values(), F.col(f"`{grouped.columns[-1]}`"))
