"""Broadcasts one side of a join if it has few rows. Pure."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_MOST_ROWS = 100_000
"""Most rows to broadcast; more would fill the driver's heap."""


def broadcast_if_small(frame: DataFrame, rows: int) -> DataFrame:
    """The frame with a broadcast hint if it has few rows, else unchanged.

    Args:
        rows: Its number of rows, or an upper bound.
    """
    return F.broadcast(frame) if rows <= _MOST_ROWS else frame
