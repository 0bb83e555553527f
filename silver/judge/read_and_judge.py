"""Parses bronze rows and decides the verdict of each row; for streams and batches alike. Pure.

The stream, the first load, the replay of quarantined rows and the audit all use these functions, so a row
gets the same verdict everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Silver
from common.declare.declared import source_of
from common.delta.table import as_stored
from silver.judge.dedupe import check_types, with_event_key
from silver.judge.lookups import join_lookups
from silver.judge.reasons_and_verdict import check_rules, judge_rows
from silver.read import poison
from silver.read.column_names import META
from silver.read.declared_columns import parse_values, select_columns
from silver.read.unknown_fields import with_rescued_column
from silver.read.where import mark_others


def read_rows(
    bronze: DataFrame,
    silver: Silver,
    *,
    keeps_undecided: bool | Column = True,
    without_others: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """The declared columns, and ``_kafka``; one row per bronze row, or with ``Silver.each`` per element.

    Args:
        bronze: Rows with bronze's columns, of a stream or a batch.
        keeps_undecided: Whether the table keeps a record on which its condition ``where`` cannot be decided.
        without_others: Drops other tables' records before anything else is computed; unset: they are rows
            whose fault says so.

    Raises:
        PipelineError: The declaration does not fit the fields of the value.
    """
    place, source = silver.table, source_of(silver)
    rescue = silver.unknown_fields != "ignore"
    parsed = parse_values(bronze, silver.value, rescue=rescue, each=silver.each_path)
    parsed = mark_others(parsed, silver, keeps_undecided=keeps_undecided)
    parsed = poison.mark_unread(parsed)
    if without_others is not None and silver.where is not None:
        parsed = without_others(parsed)
    frame = select_columns(parsed, silver.columns, place, source)
    frame = as_stored(with_rescued_column(frame, silver), silver.storage.partition_by)
    times = {"event_time": silver.event_time}
    if silver.max_future_after is not None:
        times["max_future_after"] = silver.max_future_after
    check_types(frame, key=silver.key, times=times, place=place, source=source)
    return frame


def judge(frame: DataFrame, silver: Silver, lookups: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Add ``__reasons``, ``__warned``, ``__verdict``, ``__key`` and ``__event_time`` to each row.

    Args:
        frame: Rows of ``read_rows``.
        lookups: The tables that the rules use, by the lookup's name (``silver.judge.lookups.lookup_frames``).

    Raises:
        PipelineError: A rule or a lookup does not fit the columns.
    """
    with_lookups = join_lookups(frame, silver, lookups or {})
    check_rules(with_lookups, silver.rules, silver.table)
    found = judge_rows(
        with_lookups,
        key=silver.key,
        event_time=silver.event_time,
        max_future=silver.max_future,
        rules=silver.rules,
        keep_tombstones=silver.tombstones == "keep",
        max_future_after=silver.max_future_after,
    ).drop(*(lookup.name for lookup in silver.lookups))
    found = poison.reject(found)
    return with_event_key(found, key=silver.event_key, event_time=silver.event_time)


def without_message_bytes(where: Column) -> Column:
    """``_kafka`` without key, value and headers where a condition is met; only rejected rows need them."""
    kept = F.col(META)
    for name in ("key", "value", "headers"):
        kept = kept.withField(name, F.when(~where, F.col(f"{META}.{name}")))
    return kept
