"""Rows of a source as versions of a key: the table's columns, and what each says beside them. Pure."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import ChangeFeed, Upsert
from common.declare.declared import source_of
from gold.source.stream import CHANGE, OF_THE_FEED
from gold.source.stream import GONE as LEFT
from gold.table.create import as_stored
from gold.table.latest_per_key import COORDINATES
from gold.table.sql_columns import columns, each, misfit, named
from gold.upsert.outcome_in_spark import ENDS, GONE, STRAY

_MARKS = (GONE, ENDS, STRAY)


def versions(rows: DataFrame, gold: Upsert | ChangeFeed) -> DataFrame:
    """The table's columns, the coordinates that break ties, and the marks.

    ``__ends``: while this is the newest version, its key has no row; never null. ``__gone``, where the rows
    are changes: whether it left the source. ``__stray``, of a change feed: an operation of no known kind.

    Raises:
        PipelineError: An expression does not fit the source's columns.
    """
    if CHANGE in rows.columns:
        rows = rows.withColumn(GONE, F.col(CHANGE).isin(*LEFT)).drop(*OF_THE_FEED)
    kept = None if gold.columns is None else named(gold.columns)
    try:
        marked = rows.withColumns(_marks(gold))
        if isinstance(gold, ChangeFeed) and gold.ignores:
            marked = marked.where(~_is_one_of(gold.operation, gold.ignores))
        marks = [name for name in _MARKS if name in marked.columns]
        if kept is None:
            found = marked.select(*(name for name in rows.columns if name != GONE), *marks)
        else:
            found = marked.select(*columns(kept), *COORDINATES, *marks)
        return as_stored(found, gold.storage)
    except PySparkException as error:
        trials = each(kept or {}, "column", rows.select)
        for what in ("delete_when", "operation"):
            if (sql := getattr(gold, what, None)) is not None:
                trials.append((what, lambda sql=sql: rows.select(F.expr(f"({sql})"))))  # type: ignore[misc]
        raise misfit(error, trials, gold.table, source_of(gold)) from error


def table_columns(frame: DataFrame) -> list[str]:
    """Those of the columns of ``versions`` that the table has."""
    return [name for name in frame.columns if name not in _MARKS]


def _marks(gold: Upsert | ChangeFeed) -> dict[str, Column]:
    if isinstance(gold, ChangeFeed):
        known = (*gold.upserts, *gold.deletes)
        return {
            ENDS: _is_one_of(gold.operation, gold.deletes),
            STRAY: ~_is_one_of(gold.operation, known),
        }
    ends = F.lit(None) if gold.delete_when is None else F.expr(f"({gold.delete_when})")
    return {ENDS: F.coalesce(ends.cast("boolean"), F.lit(False))}


def _is_one_of(sql: str, values: object) -> Column:
    """Whether an expression is one of some texts; null is none."""
    return F.coalesce(F.expr(f"({sql})").cast("string").isin(*values), F.lit(False))  # type: ignore[misc]
