"""Whether two computations of one float are equal: for Spark, which audits, and for DuckDB, in a script."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_TOLERANCE = 1e-9
"""By what two computations may differ: of the values, and of 1, as terms of a sum may cancel each other."""

IS_CLOSE = f"""\
-- Two computations of a sum of floating-point numbers may differ in their last digits, of the values and of
-- 1: terms of a sum may cancel each other. Infinities and NaN are close to nothing but themselves.
CREATE MACRO is_close(a, b) AS
  coalesce(a IS NOT DISTINCT FROM b
    OR (isfinite(a) AND isfinite(b) AND abs(a - b) <= {_TOLERANCE} * (1 + greatest(abs(a), abs(b)))), false);

"""
"""The macro ``is_close`` of a script: it says what ``is_close`` does."""


def is_close(mine: Column, theirs: Column) -> Column:
    """Infinities and NaN are close to nothing but themselves."""
    size = F.lit(1.0) + F.greatest(F.abs(mine), F.abs(theirs))
    is_near = (size < float("inf")) & (F.abs(mine - theirs) <= size * _TOLERANCE)  # NaN is the greatest
    return F.coalesce(mine.eqNullSafe(theirs) | is_near, F.lit(False))
