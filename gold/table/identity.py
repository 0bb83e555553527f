"""Columns that identify a row of a table: an update does not change them. Pure."""

from __future__ import annotations

from common.declare import Aggregate, ChangeFeed, History, Join, Pipeline, Stateful, Upsert
from common.declare.field_types import named

RECORD = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns that identify a Kafka record."""

ELEMENT = "_element"
"""The column that identifies a row of a silver table with a row per element, beside its record."""

MATCH = "_match"
"""The column of a recomputed join that numbers the matches of a row."""

WINDOW_START = "window_start"
"""The column of an aggregate with the beginning of a group's window."""


def group(gold: Aggregate) -> tuple[str, ...]:
    """Columns of an aggregate that identify a group: no two rows have the same values in them."""
    return (*named(gold.by or ()), *((WINDOW_START,) if gold.window is not None else ()))


def identity(pipeline: Pipeline, table: str) -> tuple[str, ...]:  # noqa: PLR0911  # one per kind
    """The columns that identify a row of a silver or gold table; none where no declaration says them."""
    for silver in pipeline.silver:
        if silver.table == table:
            of_row = RECORD if silver.each is None else (*RECORD, ELEMENT)
            return tuple(silver.key) if silver.keep == "newest" else of_row
    for gold in pipeline.gold:
        if table in {gold.table, *gold.side_tables}:
            match gold:
                case Upsert() | ChangeFeed():
                    return tuple(gold.key)
                case History():
                    return (*gold.key, "valid_from")
                case Aggregate():
                    return group(gold)
                case Stateful(mode="update"):
                    return tuple(gold.key)
                case Join(mode="recompute"):
                    return RECORD if gold.how == "semi" else (*RECORD, MATCH)
    return ()
