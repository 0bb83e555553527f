"""Values of a frame as literals of a condition: only of literals does Delta skip files. Pure.

Days and times never become Python's: its years end at 9999, and its hours may come twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, TimestampType

_YEAR = 4  # digits

MOST_LISTED = 16
"""Up to so many values of a column are listed; of more, their ends. With 64 planning takes four times as
long."""

LITERAL_TYPES = (IntegralType, StringType, DateType, TimestampType)
"""Types whose values can be told and written down exactly."""


def as_python_value(value: Column, kind: DataType) -> Column:
    """A value as Python can hold it; ``literal`` takes it back."""
    if isinstance(kind, DateType):
        return F.unix_date(value)
    return F.unix_micros(value) if isinstance(kind, TimestampType) else value


def literal(value: Any, kind: DataType) -> Column:
    """A value that was ``told``, as a literal of its own type."""
    if isinstance(kind, DateType):
        return F.expr(f"date '{_signed(np.datetime64(value, 'D'))}'")
    if isinstance(kind, TimestampType):
        return F.expr(f"timestamp '{_signed(np.datetime64(value, 'us'))}Z'")
    return F.lit(value)


def _signed(moment: np.datetime64[Any]) -> str:
    """As SQL wants it: a year of four digits, or a sign before it."""
    text = str(moment)
    year, rest = text.lstrip("-").split("-", 1)
    sign = "-" if text.startswith("-") else "+" if len(year) > _YEAR else ""
    return f"{sign}{year.zfill(_YEAR)}-{rest}"
