"""The result of a join of rows with another table: the same for every mode."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Join
from common.declare.declared import source_of
from common.declare.field_types import named
from common.declare.row_order import COORDINATES
from common.delta import table as delta_table
from common.errors import TableMissingError
from common.rows.computed import with_columns, with_columns_of_all
from gold.table.context import Context
from gold.table.sql_columns import Trial, columns, each, meeting, misfit

HOW = {"inner": "inner", "left": "left_outer", "semi": "left_semi"}
"""The kinds of join, as Spark calls them."""


def other_path(context: Context, gold: Join) -> str:
    """The path of the table that is joined.

    Raises:
        TableMissingError: There is none.
    """
    path = context.path(gold.joins)
    if not delta_table.exists(path):
        advice = f"{gold.table} joins it: create it first, or name another one."
        raise TableMissingError(gold.joins, path, advice)
    return path


def joined(rows: DataFrame, other: DataFrame, gold: Join, *, within: Column | None = None) -> DataFrame:
    """Each row that counts with its match in the other table, and its coordinates.

    Args:
        within: A further condition of a pair; may name columns of ``rows``, and of ``other`` as ``packed``.

    Raises:
        PipelineError: A text does not fit the columns of the two tables.
    """
    on = named(gold.on)
    try:
        rows, texts = meeting(rows, gold.where), {_here(place): sql for place, sql in enumerate(on.values())}
        left = with_columns_of_all(rows, texts) if gold.how == "left" else with_columns(rows, texts)
        right = packed(other, gold)
        same = reduce(and_, (F.col(_here(place)) == F.col(_there(place)) for place in range(len(on))))
        found = left.join(right, same if within is None else same & within, HOW[gold.how])
        return found.select(*columns(named(gold.columns)), *COORDINATES)
    except PySparkException as error:
        raise misfit(error, _trials(rows, other, gold), gold.table, source_of(gold)) from error


def shape(context: Context, gold: Join, other: str) -> DataFrame:
    """The join of both tables as they are now, of which only the columns are used."""
    read = context.spark.read.format("delta")
    return joined(read.load(context.path(gold.reads)), read.load(other), gold)


def packed(other: DataFrame, gold: Join) -> DataFrame:
    """The other table's rows as one struct of its name, beside the columns that they are joined by.

    Rows without a key are left out: nothing equals null, but Spark's join of streams has null equal null.
    """
    keys = [F.col(f"`{name}`") for name in named(gold.on)]
    own = (F.col(name) for name in other.columns if name.startswith("__"))
    on = (key.alias(_there(place)) for place, key in enumerate(keys))
    return other.where(reduce(and_, (key.isNotNull() for key in keys))).select(_row(other, gold), *on, *own)


def _row(other: DataFrame, gold: Join) -> Column:
    kept = (F.col(f"`{name}`") for name in other.columns if not name.startswith("__"))
    return F.struct(*kept).alias(gold.joined)


def _trials(rows: DataFrame, other: DataFrame, gold: Join) -> list[Trial]:
    both = rows if gold.how == "semi" else rows.join(other.select(_row(other, gold)))
    return [
        *each(named(gold.on), "on", rows.select),
        *each({name: f"`{name}`" for name in named(gold.on)}, f"on, column of {gold.joins}", other.select),
        *each(named(gold.columns), "column", both.select),
        ("where", lambda: meeting(rows, gold.where)),
    ]


def _here(place: int) -> str:
    return f"__on{place}"


def _there(place: int) -> str:
    return f"__key{place}"
