"""The small side of a join, sent to every task where it is small enough. Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_MOST_ROWS = 100_000
"""Up to here rows are sent to every task; more would fill the driver's heap."""


def broadcast_if_small(frame: DataFrame, rows: int) -> DataFrame:
    """The frame, to be broadcast if it has few rows, else joined as it is.

    Args:
        frame: One side of a join.
        rows: How many rows it has, or at most has.
    """
    return F.broadcast(frame) if rows <= _MOST_ROWS else frame
