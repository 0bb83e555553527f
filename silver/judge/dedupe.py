"""Watermark and duplicates, by Spark's own operator. Pure.

Rejected rows ride through the same operator, so that a value is parsed once and its row comes out
once: with a null event time they are never late and leave the state at the next watermark, with their
coordinates as key they are nobody's duplicate.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    FractionalType,
    MapType,
    StructType,
    VariantType,
)

from common.declare import Silver
from common.errors import PipelineError, Problem, nearest
from silver.read.columns import ACCEPT, EVENT_TIME, KEY, META, VERDICT


def event_key(silver: Silver) -> tuple[str, ...]:
    """The columns by which two rows are one event: the key, and the event time where that is declared."""
    is_more = silver.dedupe == "event_time" and silver.event_time not in silver.key
    return (*silver.key, silver.event_time) if is_more else tuple(silver.key)


def keyed(frame: DataFrame, *, key: Sequence[str], event_time: str) -> DataFrame:
    """Judged rows with ``__key``, the text by which two rows are one event, and ``__event_time``."""
    accepted = F.col(VERDICT) == ACCEPT
    return frame.withColumn(KEY, F.when(accepted, key_text(frame, key)).otherwise(coordinates())).withColumn(
        EVENT_TIME, F.when(accepted, F.col(event_time))
    )


def coordinates() -> Column:
    """The key of a row that is nobody's duplicate."""
    return F.concat_ws("/", f"{META}.topic", f"{META}.partition", f"{META}.offset")


def deduplicated(frame: DataFrame, watermark: str) -> DataFrame:
    """One accepted row per ``__key`` within the watermark, of the first micro-batch; every other row.

    Within a micro-batch the first row read wins, and Spark reads the largest file first. Rows later
    than the watermark are dropped by Spark.
    """
    return frame.withWatermark(EVENT_TIME, watermark).dropDuplicatesWithinWatermark([KEY])


def key_text(frame: DataFrame, key: Sequence[str]) -> Column:
    """The key as one text, the same exactly where all columns are equal: a JSON array of texts.

    One column, because Spark orders several state-key columns in a way no release promises. Each is
    cast to text before, since JSON would cut timestamps to milliseconds. A topic's name cannot begin
    with a bracket, so no key equals a rejected row's coordinates.
    """
    return F.to_json(F.array(*(_text(name, frame.schema[name].dataType) for name in key)))


def _text(name: str, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return F.hex(name)
    if isinstance(kind, FractionalType) and not isinstance(kind, DecimalType):
        return (F.col(name) + F.lit(0).cast(kind)).cast("string")  # -0.0 equals 0.0
    return F.col(name).cast("string")


def check_types(frame: DataFrame, *, key: Sequence[str], event_time: str, place: str, source: str) -> None:
    """Refuse keys that are missing or have no one text, and event times that are no timestamp.

    Raises:
        PipelineError: Names the column, its type and what to write.
    """
    problems = []
    known = {field.name: field.dataType for field in frame.schema.fields if field.name != META}
    for argument, name in (*(("key", name) for name in key), ("event_time", event_time)):
        if name not in known:
            text = f"is no column of the table; {nearest(name, known)}"
            problems.append(Problem(f"{place}, {argument} {name!r}", text, source))
    for name in key:
        kind = known.get(name)
        if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
            text = f"is a {kind.simpleString()}; a key is made of plain values: take fields out of it"
            problems.append(Problem(f"{place}, key {name!r}", text, source))
    kind = known.get(event_time)
    if kind is not None and kind.simpleString() != "timestamp":
        text = f"is a {kind.simpleString()}; make it a timestamp, as in try_to_timestamp(…)"
        problems.append(Problem(f"{place}, event_time {event_time!r}", text, source))
    if problems:
        raise PipelineError(problems)
