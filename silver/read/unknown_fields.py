"""Fields of a value that are not in its schema: kept as text, added as columns, or refused.

``rescue`` and ``evolve`` give silver the column ``_rescued``, the exact JSON text of a row's unknown fields.
Under ``evolve`` a top-level field becomes a column in the micro-batch that first brings it, of the type of
the first value seen; from then on the column has every value that is exactly of its type. ``_rescued`` is
null where columns hold all of a row's unknown fields, and holds all of them where they do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DecimalType, LongType, StringType, StructField, StructType

from common.declare import Debezium, Json, Silver
from common.declare.declared import folder_of, source_of
from common.delta import table as delta_table
from common.errors import PipelineError, Problem, UnknownFieldError
from common.schema.value_fields import Field, fields
from silver.read.parse import META, PLACE
from silver.read.value_reader import read_field_texts
from silver.write.table_columns import ARRIVAL

RESCUED = "_rescued"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)
_MOST_COLUMNS = 200
"""Columns that values may add to a table: a producer that makes up names must not widen it for ever."""

_TYPES = (BooleanType(), LongType(), DecimalType(38, 18), StringType())
"""Tried in this order on the first value of a field; text takes any."""

_SHOWN, _NAMED = 5, 12
"""Most coordinates, and most names of fields, in a message."""


def with_rescued_column(frame: DataFrame, silver: Silver) -> DataFrame:
    """Add ``_rescued`` where the declaration keeps unknown fields.

    Raises:
        PipelineError: The pipeline declares a column of that name.
    """
    if silver.unknown_fields not in {"rescue", "evolve"}:
        return frame
    if RESCUED in frame.columns:
        text = f"unknown_fields={silver.unknown_fields!r} adds this column; give yours another name"
        raise PipelineError([Problem(f"{silver.table}, column {RESCUED!r}", text, source_of(silver))])
    return frame.withColumn(RESCUED, F.col(f"{META}.rescued"))


def refuse_unknown_fields(kept: DataFrame, silver: Silver) -> None:
    """Refuse a micro-batch with an unknown field under ``unknown_fields="fail"``.

    Raises:
        UnknownFieldError: Names the fields and the first coordinates.
    """
    if silver.unknown_fields != "fail":
        return
    text = F.col(f"{META}.rescued")
    place = F.struct(*(F.col(f"{META}.{name}").alias(name) for name in PLACE)).alias("place")
    found = kept.where(text.isNotNull()).select(place, text).orderBy("place").limit(_SHOWN + 1).collect()
    if not found:
        return
    known = _known(silver)
    paths = list(dict.fromkeys(path for row in found for path in _paths(json.loads(row[1]), known, "")))
    shown = ", ".join(repr(path)[:100] for path in paths[:_NAMED])
    places = ", ".join("/".join(map(str, row[0])) for row in found[:_SHOWN])
    raise UnknownFieldError(
        silver.table,
        f"fields that are not in the schema: {shown}{', …' if len(paths) > _NAMED else ''}, at "
        f"topic/partition/offset {places}{', …' if len(found) > _SHOWN else ''}. Nothing of the "
        "micro-batch was written. Add them to the schema, or declare another "
        "unknown_fields; the next start goes on with the same rows.",
    )


def evolved(rows: DataFrame, silver: Silver, pipeline: str, path: str) -> DataFrame:
    """Accepted rows with every column that the table has; adds those that the rows bring to the table.

    A column once added stays: a replay of the micro-batch finds it there.

    Args:
        rows: Accepted rows with silver's columns, persisted before: they are looked at twice.
        silver: The declaration; where it does not say ``evolve``, the rows are handed back as they are.
        pipeline: The pipeline's name, for the commit's metadata.
        path: The silver table.
    """
    if silver.unknown_fields != "evolve":
        return rows
    have = rows.sparkSession.read.format("delta").load(path).schema
    more = [field for field in have.fields if field.name not in rows.columns]
    new = _new(rows, silver, have, _MOST_COLUMNS - len(more))
    if new:
        delta_table.add_columns(rows.sparkSession, pipeline, silver.table, path, new)
    return _filled(rows, [*more, *new]) if more or new else rows


def _new(rows: DataFrame, silver: Silver, have: StructType, room: int) -> list[StructField]:
    """The columns that these rows add, by name."""
    keys = F.explode(F.json_object_keys(RESCUED)).alias("name")
    found = rows.where(F.col(RESCUED).isNotNull()).select(keys).distinct()
    taken = {name.lower() for name in (*have.names, *(field.name for field in _known(silver)))}
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
        F.struct(*ARRIVAL).alias("order"),
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


def _known(silver: Silver) -> Sequence[Field]:
    return fields(silver.value, folder_of(silver.value)) if isinstance(silver.value, (Json, Debezium)) else ()


def _paths(found: Any, known: Sequence[Field], place: str) -> Iterator[str]:
    """Paths of the unknown fields in a parsed ``_rescued`` text."""
    if isinstance(found, list):
        for each in found:
            yield from _paths(each, known, f"{place}[]")
        return
    if not isinstance(found, dict):
        return
    named = {field.name: field for field in known}
    for name, value in found.items():
        path = f"{place}.{name}" if place else name
        if name in named and isinstance(value, (dict, list)):
            yield from _paths(value, _within(named[name]), path)
        else:
            yield path


def _within(field: Field) -> Sequence[Field]:
    """The fields of a struct, or of the structs in an array; a map has none, because its keys are data."""
    if field.kind == "array":
        return _within(field.nested[0])
    return field.nested if field.kind == "struct" else ()
