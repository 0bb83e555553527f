"""Sets records aside unread that end the process when they are read. Pure.

Key, value and headers of such a record are hidden before anything is computed from them, and shown again in
the row that goes to quarantine, with the reason ``poison``. ``silver.write.poison_search`` finds the records.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from silver.read.column_names import META, QUARANTINE, REASONS, VERDICT, WARNED

POISON = "poison"
"""The reason of a record that ended the process whenever it was read."""

HIDDEN = "__hidden"
"""The column of bronze rows, and the field of ``_kafka``, with the hidden bytes; null in all other rows."""

_BYTES = ("key", "value", "headers")

Coordinates = tuple[str, int, int]
"""Topic, partition and offset of a record."""


def hide(bronze: DataFrame, poison: Collection[Coordinates]) -> DataFrame:
    """Bronze rows; of the given records, the bytes are in ``HIDDEN`` alone. No record: no further column."""
    if not poison:
        return bronze
    hidden = bronze.withColumn(HIDDEN, F.when(_is_any_of(poison), F.struct(*_BYTES)))
    is_shown = F.col(HIDDEN).isNull()
    return hidden.withColumns({name: F.when(is_shown, F.col(name)) for name in _BYTES})


def mark_unread(parsed: DataFrame) -> DataFrame:
    """Parsed rows; a hidden record has the fault ``poison``, so that no column of it is computed."""
    if not _has_hidden(parsed):
        return parsed
    meta = F.col(META)
    fault = F.when(_is_hidden(), F.lit(POISON)).otherwise(meta.getField("fault"))
    return parsed.withColumn(META, meta.withField("fault", fault))


def reject(judged: DataFrame) -> DataFrame:
    """Judged rows; a hidden record is rejected for the one reason ``poison`` and has its bytes again."""
    if not _has_hidden(judged):
        return judged
    meta, is_hidden = F.col(META), _is_hidden()
    for name in _BYTES:
        hidden = meta.getField(HIDDEN).getField(name)
        meta = meta.withField(name, F.when(is_hidden, hidden).otherwise(F.col(META).getField(name)))
    changed = {
        REASONS: F.array(F.lit(POISON)),
        WARNED: F.array().cast("array<string>"),
        VERDICT: F.lit(QUARANTINE),
    }
    columns = {name: F.when(is_hidden, value).otherwise(F.col(name)) for name, value in changed.items()}
    return judged.withColumns(columns | {META: meta.dropFields(HIDDEN)})


def _is_any_of(poison: Collection[Coordinates]) -> Column:
    return reduce(or_, (_is_at(*each) for each in sorted(poison)))


def _is_at(topic: str, partition: int, offset: int) -> Column:
    return (F.col("topic") == topic) & (F.col("partition") == partition) & (F.col("offset") == offset)


def _has_hidden(frame: DataFrame) -> bool:
    return HIDDEN in frame.schema[META].dataType.names  # type: ignore[attr-defined]


def _is_hidden() -> Column:
    return F.col(META).getField(HIDDEN).isNotNull()
