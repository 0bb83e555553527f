"""Evaluates a pipeline's SQL so that an error concerns one row and does not stop the stream. Pure.

In ANSI mode Spark's functions throw: for a text that is no number, a division by zero, an overflow. Spark's
``TryEval`` catches that, except where Spark has moved a common subexpression out of it. Spark moves nothing
out of a branch of a condition, so the attempt is in one.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from common.spark.jvm import try_eval

_VALUE = "value"


def attempt(column: Column, when: Column) -> Column:
    """A struct with the column's value; null where the column throws, and where ``when`` is not true."""
    return F.when(when, try_eval(F.struct(column.alias(_VALUE))))


def attempt_value(attempted: Column) -> Column:
    """The value of an attempt."""
    return attempted.getField(_VALUE)
