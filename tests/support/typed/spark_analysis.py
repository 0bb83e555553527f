"""The types that Spark gives to many expressions at once, and those that it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

_AT_ONCE = 200


def types_of(spark: Any, expressions: Sequence[str], table: str) -> list[str | None]:
    """The type of each expression over the columns of a table; None for one that Spark refuses.

    Spark analyzes many in one plan, where those stay unresolved that it refuses. What it refuses by an error,
    as it does with a wrong number of arguments, is looked for by halves.
    """
    found: list[str | None] = []
    for begin in range(0, len(expressions), _AT_ONCE):
        found += _types(spark, expressions[begin : begin + _AT_ONCE], table)
    return found


def _types(spark: Any, expressions: Sequence[str], table: str) -> list[str | None]:
    state = spark._jsparkSession.sessionState()
    listed = ", ".join(f"{each} AS c{place}" for place, each in enumerate(expressions))
    try:
        plan = state.analyzer().execute(state.sqlParser().parsePlan(f"SELECT {listed} FROM {table}"))
        output = plan.output()
    except (Py4JJavaError, PySparkException):
        if len(expressions) == 1:
            return [None]
        half = len(expressions) // 2
        return [*_types(spark, expressions[:half], table), *_types(spark, expressions[half:], table)]
    columns = [output.apply(place) for place in range(len(expressions))]
    return [each.dataType().simpleString() if each.resolved() else None for each in columns]
