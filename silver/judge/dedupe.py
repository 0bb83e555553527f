"""Watermark and deduplication, by Spark's own operator. Pure.

Rejected rows pass the same operator, so that a value is parsed once and its row written once. Their event
time is null: they are never late, and leave the state with the next watermark. Their key is their
coordinates: they are never a duplicate of another row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

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

from common.errors import PipelineError, Problem, nearest
from silver.read.column_names import ACCEPT, EVENT_TIME, KEY, META, VERDICT, row_place


def with_event_key(frame: DataFrame, *, key: Sequence[str], event_time: str) -> DataFrame:
    """Judged rows with ``__key``, the text that identifies an event, and ``__event_time``."""
    accepted = F.col(VERDICT) == ACCEPT
    text = F.when(accepted, key_text(frame, key)).otherwise(coordinates(frame))
    return frame.withColumn(KEY, text).withColumn(EVENT_TIME, F.when(accepted, F.col(event_time)))


def coordinates(frame: DataFrame) -> Column:
    """The Kafka coordinates as a key, and an element's position, which no other row has."""
    fields = frame.schema[META].dataType.names  # type: ignore[attr-defined]
    return F.concat_ws("/", *(f"{META}.{name}" for name in row_place(fields)))


def drop_duplicates(frames: Sequence[DataFrame], watermark: str) -> DataFrame:
    """All rejected rows, and the first accepted row per ``__key`` within the watermark.

    Within a micro-batch the first row read is kept, and Spark reads the largest file first. Spark drops rows
    later than the watermark. Each frame has a watermark of its own, and the query that of the frame which is
    furthest behind, so that no row is late because another source is ahead.
    """
    marked = (frame.withWatermark(EVENT_TIME, watermark) for frame in frames)
    return reduce(DataFrame.union, marked).dropDuplicatesWithinWatermark([KEY])


def key_text(frame: DataFrame, key: Sequence[str]) -> Column:
    """The key columns as one text, a JSON array of texts; equal exactly where all columns are equal.

    The key is one column, because Spark guarantees no order of several state-key columns. Each value is cast
    to text first, because JSON would cut timestamps to milliseconds. A topic's name cannot start with a
    bracket, so no key equals a rejected row's coordinates.
    """
    return F.to_json(F.array(*(_text(name, frame.schema[name].dataType) for name in key)))


def _text(name: str, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return F.hex(name)
    if isinstance(kind, FractionalType) and not isinstance(kind, DecimalType):
        return (F.col(name) + F.lit(0).cast(kind)).cast("string")  # -0.0 equals 0.0
    return F.col(name).cast("string")


def check_types(
    frame: DataFrame, *, key: Sequence[str], times: Mapping[str, str], place: str, source: str
) -> None:
    """Refuse keys that are missing or of a nested type, and times that are no timestamp.

    Args:
        times: Column by the argument that names it; each is a timestamp.

    Raises:
        PipelineError: Names the column, its type and what to write.
    """
    problems = []
    known = {field.name: field.dataType for field in frame.schema.fields if field.name != META}
    for argument, name in (*(("key", name) for name in key), *times.items()):
        if name not in known:
            text = f"is no column of the table; {nearest(name, known)}"
            problems.append(Problem(f"{place}, {argument} {name!r}", text, source))
    for name in key:
        kind = known.get(name)
        if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
            text = f"is a {kind.simpleString()}; a key consists of plain values: use fields of it"
            problems.append(Problem(f"{place}, key {name!r}", text, source))
    for argument, name in times.items():
        kind = known.get(name)
        if kind is not None and kind.simpleString() != "timestamp":
            text = f"is a {kind.simpleString()}; make it a timestamp, as in try_to_timestamp(…)"
            problems.append(Problem(f"{place}, {argument} {name!r}", text, source))
    if problems:
        raise PipelineError(problems)
