"""The conditions ``where`` under which a silver table was filled, kept as a property of the table.

A record that a former condition left out is in no table of this silver table. The audit tells it from a
record that is lost by evaluating that condition again, long after the commits of its time were cleaned up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from common.declare import Silver
from common.delta import table as delta_table
from common.delta.log import LogReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONDITIONS = "medallion.where"
"""Property of a silver table: all its conditions so far, as a JSON list of texts, oldest first."""


def property_of(silver: Silver) -> Mapping[str, str]:
    """The property of a new table; none for a table without a condition."""
    return {} if silver.where is None else {CONDITIONS: json.dumps([silver.where])}


def past_conditions(silver_path: str) -> Sequence[str]:
    """All conditions under which a table was filled, oldest first."""
    text = LogReader(silver_path).properties().get(CONDITIONS)
    found: list[str] = [] if text is None else json.loads(text)
    return found


def remember(spark: SparkSession, pipeline: str, silver: Silver, silver_path: str) -> None:
    """Add the declared condition to those of an existing table, before its first micro-batch under it."""
    known = past_conditions(silver_path)
    if silver.where is None or silver.where in known:
        return
    metadata = delta_table.maintenance_metadata(pipeline, silver.table, "evolution", where=silver.where)
    delta_table.set_property(spark, silver_path, metadata, CONDITIONS, json.dumps([*known, silver.where]))
