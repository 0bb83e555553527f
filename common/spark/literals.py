"""Values of a DataFrame as literals of a condition, because Delta skips files only by literals. Pure.

Dates and timestamps are held as numbers, not as Python's types: those end at the year 9999, and local times
are ambiguous when clocks change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, TimestampType

_YEAR = 4  # digits

MOST_LISTED = 16
"""Most values of a column that a condition lists; of more values it has minimum and maximum. With 64 values
planning takes four times as long."""

_LITERAL_TYPES = (IntegralType, StringType, DateType, TimestampType)


def has_literal(kind: DataType) -> bool:
    """Whether values of a type have an exact literal, and are compared with it in one order on all engines.

    Texts of a collation are compared in the order of its language, or regardless of capitals.
    """
    is_collated = isinstance(kind, StringType) and kind != StringType()
    return isinstance(kind, _LITERAL_TYPES) and not is_collated


def as_python_value(value: Column, kind: DataType) -> Column:
    """A value as a number or text that Python holds exactly; the inverse of ``literal``."""
    if isinstance(kind, DateType):
        return F.unix_date(value)
    return F.unix_micros(value) if isinstance(kind, TimestampType) else value


def literal(value: Any, kind: DataType) -> Column:
    """A value of ``as_python_value`` as a literal of its type."""
    if isinstance(kind, DateType):
        return F.expr(f"date '{_signed(np.datetime64(value, 'D'))}'")
    if isinstance(kind, TimestampType):
        return F.expr(f"timestamp '{_signed(np.datetime64(value, 'us'))}Z'")
    return F.lit(value)


def _signed(moment: np.datetime64[Any]) -> str:
    """As SQL requires it: a year of four digits, or of more with a sign."""
    text = str(moment)
    year, rest = text.lstrip("-").split("-", 1)
    sign = "-" if text.startswith("-") else "+" if len(year) > _YEAR else ""
    return f"{sign}{year.zfill(_YEAR)}-{rest}"
