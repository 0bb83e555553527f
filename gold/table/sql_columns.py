"""Named SQL expressions over silver's columns, and errors that name those that do not resolve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.errors import PipelineError, Problem
from common.spark.sql_messages import refusal

Trial = tuple[str, Callable[[], object]]
"""The place of an expression in the declaration, and a function that resolves it alone."""


def columns(expressions: Mapping[str, str]) -> list[Column]:
    """One column per expression, under its name."""
    return [F.expr(f"({sql})").alias(name) for name, sql in expressions.items()]


def meeting(rows: DataFrame, where: str | None) -> DataFrame:
    """The rows for which a condition is true; all of them without one."""
    return rows if where is None else rows.where(F.expr(f"({where})"))


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
