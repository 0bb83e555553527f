"""SQL of a pipeline tried: what throws on one row sets that row aside and does not stop the stream. Pure.

Spark's functions throw under ANSI: a text that is no number, a division by zero, an overflow. Its ``TryEval``
catches that, but not where Spark has moved an expression that is used twice out of it; within a branch of a
condition it moves nothing.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from common.spark.jvm import try_eval

_VALUE = "value"


def attempt(column: Column, when: Column) -> Column:
    """A struct of the column's value; null where it throws, and where ``when`` does not hold."""
    return F.when(when, try_eval(F.struct(column.alias(_VALUE))))


def attempt_value(attempt: Column) -> Column:
    """The value of what was attempted."""
    return attempt.getField(_VALUE)
