"""Joins the lookups of rules to the rows, one row per row.

Every micro-batch reads the current version of the other table. Of several rows with the same key one is used,
and the same one each time. For a row without a match, or with a null in its key, the lookup is null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, StructType, VariantType

from common.config.paths import Layout, is_local
from common.declare import Lookup, Silver
from common.declare.declared import folder_of, is_in_catalog, source_of
from common.delta import table as delta_table
from common.errors import PipelineError, Problem, TableMissingError, nearest
from common.rows.computed import with_columns_of_all
from common.spark.sql_messages import refusal
from common.sql.expression import has_sliding_window

_OF_PIPELINE = re.compile(r"^(bronze|silver|gold)\.[a-z0-9_]+$")


def lookup_frames(spark: SparkSession, silver: Silver, layout: Layout) -> dict[str, DataFrame]:
    """The tables of a silver table's lookups, by the lookup's name.

    Raises:
        TableMissingError: A table does not exist.
    """
    found = {}
    for lookup in silver.lookups:
        path = _path(lookup, silver, layout)
        if not delta_table.exists(path):
            command = (
                f" (medallion backfill --table {lookup.table}, after the tables it reads)"
                if _OF_PIPELINE.match(lookup.table)
                else ""
            )
            raise TableMissingError(
                lookup.table,
                path,
                f"The rules of {silver.table} use it as {lookup.name!r}: fill it first{command}, then start "
                "again.",
            )
        found[lookup.name] = spark.read.format("delta").load(path)
    return found


def join_lookups(frame: DataFrame, silver: Silver, lookups: Mapping[str, DataFrame]) -> DataFrame:
    """The frame with a struct per lookup: the matching row of the other table, or null.

    Raises:
        PipelineError: A lookup does not fit the columns of either side.
    """
    for lookup in silver.lookups:
        if lookup.name not in lookups:
            raise AssertionError(f"{silver.table} is checked without the table of its lookup {lookup.name!r}")
        frame = _joined(frame, lookup, lookups[lookup.name], silver)
    return frame


def lookup_keys(lookup: Lookup) -> Mapping[str, str]:
    """Column of the other table -> SQL text over silver's columns; a list names columns of both."""
    return lookup.on if isinstance(lookup.on, Mapping) else {name: name for name in lookup.on}


def _joined(frame: DataFrame, lookup: Lookup, other: DataFrame, silver: Silver) -> DataFrame:
    keys = lookup_keys(lookup)
    problems = list(_faults(frame, lookup, other, silver))
    if problems:
        raise PipelineError(problems)
    names = {column: f"__{lookup.name}_{place}" for place, column in enumerate(keys)}
    known = reduce(and_, (F.col(f"`{column}`").isNotNull() for column in keys))
    one = (
        other.where(known)
        .groupBy(*(F.col(f"`{column}`").alias(name) for column, name in names.items()))
        .agg(_one_row(other.schema).alias(lookup.name))
    )
    computed = {f"__{lookup.name}_own{place}": sql for place, sql in enumerate(keys.values())}
    wanted = zip(computed, names.values(), strict=True)
    same = reduce(and_, (F.col(own) == F.col(name) for own, name in wanted))
    return with_columns_of_all(frame, computed).join(one, same, "left").drop(*names.values(), *computed)


def _faults(frame: DataFrame, lookup: Lookup, other: DataFrame, silver: Silver) -> Iterator[Problem]:
    place, source = f"{silver.table}, lookup {lookup.name!r}", source_of(lookup)
    if lookup.name in frame.columns:
        yield Problem(place, "has the name of a column; rename the lookup", source)
    for column, sql in lookup_keys(lookup).items():
        if column not in other.columns:
            yield Problem(
                place, f"{lookup.table} has no column {column!r}; {nearest(column, other.columns)}", source
            )
        if has_sliding_window(sql):
            text = "a window with a slide gives several rows for one; leave the slide out"
            yield Problem(f"{place}, on {column!r}", text, source)
        try:
            frame.select(F.expr(f"({sql})"))
        except PySparkException as error:
            yield Problem(f"{place}, on {column!r}", refusal(error), source)


def _one_row(schema: StructType) -> Column:
    """One whole row of a group: the last by the order of its columns of plain types."""
    row = F.struct(*(F.col(f"`{name}`") for name in schema.names))
    plain = [
        f"`{field.name}`"
        for field in schema.fields
        if isinstance(field.dataType, AtomicType) and not isinstance(field.dataType, VariantType)
    ]
    return F.max_by(row, F.struct(*plain)) if plain else F.first(row)


def _path(lookup: Lookup, silver: Silver, layout: Layout) -> str:
    if _OF_PIPELINE.match(lookup.table) or is_in_catalog(lookup.table):
        return layout.table_path(lookup.table)
    return str(folder_of(silver) / lookup.table) if is_local(lookup.table) else lookup.table
