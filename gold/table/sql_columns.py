"""Named SQL texts over silver's columns, and which of them does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.errors import PipelineError, Problem

Trial = tuple[str, Callable[[], object]]
"""Where a text stands, and the resolving of it alone."""


def named(expressions: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    """Expressions by name; a list of columns is itself."""
    return expressions if isinstance(expressions, Mapping) else {name: name for name in expressions}


def columns(expressions: Mapping[str, str]) -> list[Column]:
    """One column per expression, under its name."""
    return [F.expr(f"({sql})").alias(name) for name, sql in expressions.items()]


def each(expressions: Mapping[str, str], what: str, resolve: Callable[[Column], DataFrame]) -> list[Trial]:
    """A trial per expression; ``what`` says what they are, such as ``measure``."""
    return [
        (f"{what} {name!r}", lambda sql=sql: resolve(F.expr(f"({sql})")))  # type: ignore[misc]
        for name, sql in expressions.items()
    ]


def misfit(error: PySparkException, trials: Iterable[Trial], table: str, source: str) -> PipelineError:
    """The error in words, naming every text that does not resolve even alone."""
    problems = []
    for place, resolve in trials:
        try:
            resolve()
        except PySparkException as own:
            problems.append(Problem(f"{table}, {place}", _first_line(own), source))
    return PipelineError(problems or [Problem(table, _first_line(error), source)])


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]
