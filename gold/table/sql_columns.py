"""Named SQL expressions over silver's columns, and errors that name those that do not resolve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.errors import PipelineError, Problem
from common.spark.sql_messages import refusal

TRUNCATES = "__truncates"
"""What a row is: a row of its key, a truncation, or the truncation that a row of a key is besides."""

_ROW, _TRUNCATION, _OF_A_ROW = 0, 1, 2

Trial = tuple[str, Callable[[], object]]
"""The place of an expression in the declaration, and a function that resolves it alone."""


def columns(expressions: Mapping[str, str]) -> list[Column]:
    """One column per expression, under its name."""
    return [F.expr(f"({sql})").alias(name) for name, sql in expressions.items()]


def meeting(rows: DataFrame, where: str | None) -> DataFrame:
    """The rows for which a condition is true; all of them without one."""
    return rows if where is None else rows.where(F.expr(f"({where})"))


def with_truncations(
    rows: DataFrame, where: str | None, truncates: str | None, is_row: Callable[[Column], Column]
) -> DataFrame:
    """The rows that count and, where there may be some, each truncation, whatever ``where`` says of it.

    Args:
        truncates: The condition of a truncation; with one, the rows get ``TRUNCATES``.
        is_row: Of whether a row truncates, whether it is a row of its key.
    """
    if truncates is None:
        return meeting(rows, where).where(is_row(F.lit(False)))
    empties = F.coalesce(F.expr(f"({truncates})"), F.lit(False))
    counts = F.coalesce(F.expr(f"({where or 'true'})"), F.lit(False)) & is_row(empties)
    kinds = F.array(F.when(counts, _ROW), F.when(empties, F.when(counts, _OF_A_ROW).otherwise(_TRUNCATION)))
    return rows.withColumn(TRUNCATES, F.explode(F.array_compact(kinds)))


def is_row_of_key() -> Column:
    """Of rows with ``TRUNCATES``, whether one is no truncation."""
    return F.col(TRUNCATES) == _ROW


def without_row(found: DataFrame, key: Sequence[str], tie: Sequence[str]) -> DataFrame:
    """Truncations without a key. One that is a row besides comes before all that is equal in declared order.

    Args:
        found: Rows with ``TRUNCATES``.
        tie: Columns that order what is equal in the declared order.
    """
    is_row, stands = is_row_of_key(), F.col(TRUNCATES) != _OF_A_ROW
    keys = {name: F.when(is_row, F.col(f"`{name}`")) for name in key}
    return found.withColumns(keys | {name: F.when(stands, F.col(f"`{name}`")) for name in tie})


def each(expressions: Mapping[str, str], what: str, resolve: Callable[[Column], DataFrame]) -> list[Trial]:
    """A trial per expression; ``what`` is the kind of expression, such as ``measure``."""
    return [
        (f"{what} {name!r}", lambda sql=sql: resolve(F.expr(f"({sql})")))  # type: ignore[misc]
        for name, sql in expressions.items()
    ]


def misfit(error: PySparkException, trials: Iterable[Trial], table: str, source: str) -> PipelineError:
    """The error that names every expression that does not resolve alone."""
    problems = []
    for place, resolve in trials:
        try:
            resolve()
        except PySparkException as own:
            problems.append(Problem(f"{table}, {place}", refusal(own), source))
    return PipelineError(problems or [Problem(table, refusal(error), source)])
