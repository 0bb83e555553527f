"""Columns that ``unknown_fields="evolve"`` adds to a silver table, and their values out of ``_rescued``.

A top-level field becomes a column in the micro-batch that first brings it, of the type of its first value;
from then on the column has every value that is exactly of that type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DecimalType, LongType, StringType, StructField, StructType

from common.declare import Silver
from common.delta import table as delta_table
from common.rows.rows import Rows
from silver.read.column_names import arrival
from silver.read.unknown_fields import RESCUED, declared_fields
from silver.read.value_reader import read_field_texts

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)
_MOST_COLUMNS = 200
"""Columns that values may add to a table: a producer that invents names must not widen it without end."""

_TYPES = (BooleanType(), LongType(), DecimalType(38, 18), StringType())
"""Tried in this order on the first value of a field; text takes any value."""


def evolved(rows: Rows, silver: Silver, pipeline: str, path: str) -> Rows:
    """Accepted rows with every column of the table, which gets columns for new fields of the rows.

    A column stays once it was added: a replay of the micro-batch finds it in the table.

    Args:
        rows: Accepted rows with silver's columns, computed before: they are read twice.
        silver: The declaration; unless it says ``evolve``, the rows are returned as they are.
        pipeline: The pipeline's name, for the commit's metadata.
    """
    if silver.unknown_fields != "evolve":
        return rows
    existing = rows.session.read.format("delta").load(path).schema
    more = [field for field in existing.fields if field.name not in rows.columns]
    new = _new_columns(rows.frame, silver, existing, _MOST_COLUMNS - len(more))
    if new:
        delta_table.add_columns(rows.session, pipeline, silver.table, path, new)
    return rows.derive(_filled(rows.frame, [*more, *new]), rows.count) if more or new else rows


def _new_columns(rows: DataFrame, silver: Silver, existing: StructType, room: int) -> list[StructField]:
    """The columns that these rows add, by name."""
    keys = F.explode(F.json_object_keys(RESCUED)).alias("name")
    found = rows.where(F.col(RESCUED).isNotNull()).select(keys).distinct()
    taken = {name.lower() for name in (*existing.names, *(field.name for field in declared_fields(silver)))}
    names: dict[str, str] = {}
    for row in found.where(F.col("name").rlike(f"^{_NAME.pattern}$")).orderBy("name").toLocalIterator():
        if row[0].lower() not in taken:
            names.setdefault(row[0].lower(), row[0])
        if len(names) >= room:
            break
    if not names or room < 1:
        return []
    return _first_seen(rows, sorted(names.values()))


def _first_seen(rows: DataFrame, names: Sequence[str]) -> list[StructField]:
    """The fields with the types of their first values; one that only ever was null is none yet."""
    tried = rows.where(F.col(RESCUED).isNotNull()).select(
        F.struct(*arrival(rows.columns)).alias("order"),
        *(
            _alone(StructField(name, kind)).isNotNull().alias(f"{name} {place}")
            for name in names
            for place, kind in enumerate(_TYPES)
        ),
    )
    firsts = []
    for name in names:
        fits = [F.col(f"`{name} {place}`") for place in range(len(_TYPES))]
        kind = F.coalesce(*(F.when(each, place) for place, each in enumerate(fits)))
        firsts.append(F.min_by(kind, F.when(fits[-1], F.col("order"))).alias(name))
    row = tried.agg(*firsts).collect()[0]
    return [StructField(name, _TYPES[row[name]]) for name in names if row[name] is not None]


def _filled(rows: DataFrame, columns: Sequence[StructField]) -> DataFrame:
    """The rows with these columns from ``_rescued``, which loses what is in them."""
    whole = read_field_texts(F.col(RESCUED), StructType(list(columns)))
    held = rows.withColumn("__whole", whole)
    is_whole = F.col("__whole.fault").isNull()
    for each in columns:
        value = F.col("__whole.value").getField(each.name)
        held = held.withColumn(each.name, F.when(is_whole, value).otherwise(_alone(each)))
    count = reduce(add, (F.when(F.col(f"`{each.name}`").isNotNull(), 1).otherwise(0) for each in columns))
    is_held = F.size(F.json_object_keys(RESCUED)) == count
    left = F.when(F.col(RESCUED).isNotNull() & ~is_held, F.col(RESCUED))
    return held.withColumn(RESCUED, left).drop("__whole")


def _alone(field: StructField) -> Column:
    """One field's value, null where it is absent, null, or not exactly of the type."""
    return read_field_texts(F.col(RESCUED), StructType([field])).getField("value").getField(field.name)
