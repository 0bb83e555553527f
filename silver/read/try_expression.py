"""SQL of a pipeline tried: what throws on one row sets that row aside and does not stop the stream. Pure.

Spark's functions throw under ANSI: a text that is no number, a division by zero, an overflow. Its ``TryEval``
catches that, but not where Spark has moved an expression that is used twice out of it; within a branch of a
condition it moves nothing.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F

_VALUE = "value"


def attempted(column: Column, when: Column) -> Column:
    """A struct of the column's value; null where it throws, and where ``when`` does not hold."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001  # PySpark has no function for it
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    whole = utils.expression(F.struct(column.alias(_VALUE))._jc)  # noqa: SLF001
    tried = Column(utils.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(whole)))
    return F.when(when, tried)


def outcome(attempt: Column) -> Column:
    """The value of what was attempted."""
    return attempt.getField(_VALUE)
