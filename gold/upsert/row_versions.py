"""Rows of a source as versions of a key: the table's columns, and markers beside them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.declare import ChangeFeed, Upsert
from common.declare.declared import source_of
from common.declare.field_types import named
from common.declare.row_order import COORDINATES, total_order
from common.delta.table import as_stored
from gold.source.stream import CHANGE, FEED_COLUMNS, REMOVED
from gold.table.sql_columns import (
    TRUNCATES,
    columns,
    each,
    is_row_of_key,
    misfit,
    with_truncations,
    without_row,
)
from gold.table.unchanged import Unchanged
from gold.upsert.outcome import IS_DELETE, IS_REMOVED, IS_UNKNOWN_OPERATION
from gold.upsert.sent_values import IS_PARTIAL, is_partial

_MARKERS = (IS_REMOVED, IS_DELETE, IS_UNKNOWN_OPERATION, IS_PARTIAL)


def versions(rows: DataFrame, gold: Upsert | ChangeFeed) -> DataFrame:
    """Of the rows that count, the table's columns, the coordinates that break ties, and the markers.

    ``IS_DELETE``: while this is the newest version, its key has no row; never null. ``IS_REMOVED``, where the
    rows are changes: the version was removed from the source. ``IS_UNKNOWN_OPERATION``, of a change feed.
    ``IS_PARTIAL``, where values may be left unchanged. A truncation is the delete of a row without a key.

    Raises:
        PipelineError: An expression does not fit the source's columns.
    """
    if CHANGE in rows.columns:
        rows = rows.withColumn(IS_REMOVED, F.col(CHANGE).isin(*REMOVED)).drop(*FEED_COLUMNS)
    kept = None if gold.columns is None else named(gold.columns)
    try:
        marked = with_truncations(rows, gold.where, gold.truncates, lambda empties: _is_row(gold, empties))
        marked = marked.withColumns(_markers(gold))
        markers = [name for name in (*_MARKERS, TRUNCATES) if name in marked.columns]
        if kept is None:
            found = marked.select(*(name for name in rows.columns if name != IS_REMOVED), *markers)
        else:
            found = marked.select(*columns(kept), *COORDINATES, *markers)
        found = as_stored(_without_rows(found, gold), gold.storage.partition_by)
        unchanged = unchanged_of(gold, found.schema)
        return (
            found
            if unchanged is None
            else found.withColumn(IS_PARTIAL, is_partial(unchanged, F.col(IS_DELETE)))
        )
    except PySparkException as error:
        trials = each(kept or {}, "column", rows.select)
        for what in ("where", "delete_when", "operation", "truncates"):
            if (sql := getattr(gold, what, None)) is not None:
                trials.append((what, lambda sql=sql: rows.select(F.expr(f"({sql})"))))  # type: ignore[misc]
        raise misfit(error, trials, gold.table, source_of(gold)) from error


def unchanged_of(gold: Upsert | ChangeFeed, schema: StructType) -> Unchanged | None:
    """The columns of the table whose value a change may leave as it was."""
    order = total_order(gold.newest_by)
    nulls = isinstance(gold, Upsert) and gold.ignore_nulls
    return Unchanged.of(gold.unchanged, schema, {*gold.key, *order}, nulls=nulls)


def table_columns(frame: DataFrame) -> list[str]:
    """The columns of ``versions`` without the markers."""
    return [name for name in frame.columns if name not in _MARKERS]


def is_truncation(key: Sequence[str]) -> Column:
    """Of versions of a declaration with truncations, whether one is a truncation: it has no key."""
    return reduce(and_, (F.col(f"`{name}`").isNull() for name in key))


def since_truncation(
    found: DataFrame, truncations: DataFrame, key: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """The versions that are not before the newest truncation: those before it count as if they never were."""
    place = F.struct(*(F.col(f"`{name}`") for name in order))
    newest = truncations.where(is_truncation(key)).agg(F.max(place).alias("__newest"))
    stays = F.coalesce(place >= F.col("__newest"), F.lit(True))
    return found.crossJoin(F.broadcast(newest)).where(stays).drop("__newest")


def _is_row(gold: Upsert | ChangeFeed, empties: Column) -> Column:
    """Whether a change concerns a row: one that empties the table has to say so by its operation."""
    if not isinstance(gold, ChangeFeed):
        return F.lit(True)
    changes = _is_one_of(gold.operation, (*gold.upserts, *gold.deletes))
    return ~_is_one_of(gold.operation, gold.ignores) & (changes | ~empties)


def _without_rows(found: DataFrame, gold: Upsert | ChangeFeed) -> DataFrame:
    """Truncations as deletes without a key; a change that has none is of an unknown kind beside them."""
    if TRUNCATES not in found.columns or not isinstance(gold, ChangeFeed):
        return found
    is_row, lacks_key = is_row_of_key(), is_truncation(gold.key)
    marks = {IS_DELETE: F.col(IS_DELETE) | ~is_row}
    marks[IS_UNKNOWN_OPERATION] = is_row & (F.col(IS_UNKNOWN_OPERATION) | lacks_key)
    tie = [name for name in COORDINATES if name not in gold.sequence_by]
    return without_row(found.withColumns(marks), gold.key, tie).drop(TRUNCATES)


def _markers(gold: Upsert | ChangeFeed) -> dict[str, Column]:
    if isinstance(gold, ChangeFeed):
        known = (*gold.upserts, *gold.deletes)
        return {
            IS_DELETE: _is_one_of(gold.operation, gold.deletes),
            IS_UNKNOWN_OPERATION: ~_is_one_of(gold.operation, known),
        }
    ends = F.lit(None) if gold.delete_when is None else F.expr(f"({gold.delete_when})")
    return {IS_DELETE: F.coalesce(ends.cast("boolean"), F.lit(False))}


def _is_one_of(sql: str, values: object) -> Column:
    """Whether an expression is one of some texts; null is not."""
    return F.coalesce(F.expr(f"({sql})").cast("string").isin(*values), F.lit(False))  # type: ignore[misc]
