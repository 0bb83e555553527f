"""SQL texts as columns of a frame, for joins by their values.

Spark computes ``window(…)`` and ``session_window(…)`` only in a projection: in the condition of a join they
fail with an internal error of Spark. So every text is a column before the join.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.sql.expression import window_times


def with_columns(frame: DataFrame, texts: Mapping[str, str]) -> DataFrame:
    """The frame with a column per SQL text. A row is left out if a window is made of a time that is null."""
    return frame.withColumns({name: F.expr(f"({sql})") for name, sql in texts.items()})


def with_columns_of_all(frame: DataFrame, texts: Mapping[str, str]) -> DataFrame:
    """As ``with_columns``, with every row: a row with a null time has null in all new columns.

    A key with a null matches nothing, so an outer join keeps such a row without a match.
    """
    times = dict.fromkeys(time for sql in texts.values() for time in window_times(sql))
    if not times:
        return with_columns(frame, texts)
    has_times = reduce(and_, (F.expr(f"({time})").isNotNull() for time in times))
    computed = with_columns(frame.where(has_times), texts)
    nulls = {name: F.lit(None).cast(computed.schema[name].dataType) for name in texts}
    return computed.unionByName(frame.where(~has_times).withColumns(nulls))
