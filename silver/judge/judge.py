"""Bronze rows read, shaped, judged and keyed: the one way to see them, for a stream and for a batch. Pure.

The stream, the first load, the replay of quarantined rows and the audit all judge by this, so that a row
has one fate whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Silver
from common.declare.declared import source_of
from silver.judge.dedupe import check_types, event_key, keyed
from silver.judge.lookups import joined
from silver.judge.rules import check_rules, judged
from silver.read.columns import META
from silver.read.parse import parsed, shaped
from silver.read.unknown_fields import rescued


def read(bronze: DataFrame, silver: Silver) -> DataFrame:
    """The declared columns, and ``_kafka``; one row per row.

    Args:
        bronze: Rows with bronze's columns, of a stream or a batch.
        silver: The declaration.

    Raises:
        PipelineError: The declaration does not fit the value's fields.
    """
    place, source = silver.table, source_of(silver)
    rescue = silver.unknown_fields != "ignore"
    frame = shaped(parsed(bronze, silver.value, rescue=rescue), silver.columns, place, source)
    frame = rescued(frame, silver)
    check_types(frame, key=silver.key, event_time=silver.event_time, place=place, source=source)
    return frame


def judge(frame: DataFrame, silver: Silver, lookups: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """What ``read`` gave, with ``__reasons``, ``__warned``, ``__verdict``, ``__key`` and ``__event_time``.

    Args:
        frame: What ``read`` gave; one row per row comes out.
        silver: The declaration.
        lookups: The tables that its rules ask, by the lookup's name, as ``silver.judge.lookups.frames`` has
        them.

    Raises:
        PipelineError: A rule or a lookup does not fit the columns.
    """
    seen = joined(frame, silver, lookups or {})
    check_rules(seen, silver.rules, silver.table)
    found = judged(
        seen,
        key=silver.key,
        event_time=silver.event_time,
        max_future=silver.max_future,
        rules=silver.rules,
        keep_tombstones=silver.tombstones == "keep",
    ).drop(*(lookup.name for lookup in silver.lookups))
    return keyed(found, key=event_key(silver), event_time=silver.event_time)


def without_bytes(where: Column) -> Column:
    """``_kafka`` without key, value and headers where a condition is met: only rows set aside need them."""
    kept = F.col(META)
    for name in ("key", "value", "headers"):
        kept = kept.withField(name, F.when(~where, F.col(f"{META}.{name}")))
    return kept
