"""Parses message values into typed columns. Pure: any bytes give exactly one row, or one row per element.

A value is parsed once. A value that cannot be parsed gives a row with null columns and a fault.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from common.declare import Hook, Value
from common.declare.files import PREFIX as FILES_PREFIX
from common.errors import PipelineError, Problem
from common.spark.jvm import plan_operators
from common.spark.sql_messages import in_plain_words, refusal
from common.sql.expression import null_for_null_times
from silver.read.column_names import ELEMENT, META
from silver.read.poison import HIDDEN
from silver.read.try_expression import attempt, attempt_value
from silver.read.value_reader import READ, ReadValues, read_values

COLUMN_FAILED = "column_failed"

_GIVE_BYTES = (
    "binary",
    "unhex",
    "unbase64",
    "try_to_binary",
    "to_binary",
    "encode",
    "aes_decrypt",
    "try_aes_decrypt",
)
"""Types and functions of SQL by whose names an expression may have bytes."""

_TIMES = (DateType, TimestampType, TimestampNTZType)
_MOST_DAYS = 95_000_000
"""Before and after 1970, in the year 262,070: Arrow's readers in Rust end in the year 262,142."""

_UNREADABLE = b"\0unreadable "
_MOST_LETTERS = 64

_POSITION, _ELEMENT = "__position", "__element"


def parse_values(
    bronze: DataFrame, value: Value, *, rescue: bool = False, each: Sequence[str] = ()
) -> DataFrame:
    """Bronze rows as the fields of their values, plus ``_kafka``.

    ``_kafka`` holds topic, partition, offset, timestamp, timestamp_type, ingested_at, key, value,
    headers, ``fault``: why the value could not be parsed, or null; ``fault_field``: the path of the field
    with the fault; ``rescued``: JSON text of unknown fields, or null. With a fault, and for a null value,
    all fields are null; a null value has no fault.

    With ``each``, the path of an array, there is a row per element of the array, which has the place of the
    array; ``_kafka`` then holds ``element``, the element's position from 0 on, and as ``value`` the element's
    bytes. A record without an element, without a value or with a fault is one row without a position.

    Raises:
        PipelineError: The format's schema is missing or wrong.
    """
    found = read_values(bronze, value, rescue=rescue, each=each)
    if each:
        return _rows_of_elements(found, each[0])
    fault = _fault_of(found.frame)
    kafka = _kafka(found, fault, _fault_field_of(found.frame), F.col(f"{READ}.rescued"))
    content = F.col(f"{READ}.value")
    fields = [content.getField(field.name).alias(field.name) for field in found.fields]
    return found.frame.select(kafka.alias(META), *fields)


def _kafka(found: ReadValues, fault: Column, fault_field: Column, rescued: Column, *more: Column) -> Column:
    """The struct ``META`` of read values."""
    return F.struct(
        "topic",
        "partition",
        "offset",
        F.col("kafka_timestamp").alias("timestamp"),
        F.col("kafka_timestamp_type").alias("timestamp_type"),
        "ingested_at",
        "key",
        "value",
        "headers",
        fault.alias("fault"),
        fault_field.alias("fault_field"),
        rescued.alias("rescued"),
        *(name for name in (HIDDEN,) if name in found.frame.columns),
        *more,
    )


def _rows_of_elements(found: ReadValues, root: str) -> DataFrame:
    """A row per element of the records, and one for a record without elements.

    Args:
        found: The records, read.
        root: The first field of the path to the array.
    """
    elements = F.col(f"{READ}.elements")
    # The bytes of a record with elements are not carried beside each of them.
    whole = found.frame.withColumn(
        "value", F.when(~F.coalesce(F.size(elements) > 0, F.lit(False)), F.col("value"))
    )
    rows = whole.select("*", F.posexplode_outer(elements).alias(_POSITION, _ELEMENT))
    element, is_element = F.col(_ELEMENT), F.col(_POSITION).isNotNull()
    fault = F.coalesce(_fault_of(found.frame), element.getField("fault"))
    field = F.coalesce(_fault_field_of(found.frame), element.getField("fault_field"))
    kafka = _kafka(
        found, fault, field, F.col(f"{READ}.rescued"), F.col(_POSITION).cast("bigint").alias(ELEMENT)
    )
    kafka = kafka.withField("value", F.when(is_element, element.getField("bytes")).otherwise(F.col("value")))
    content = F.col(f"{READ}.value")
    fields = [
        element.getField("value").alias(field.name)
        if field.name == root
        else content.getField(field.name).alias(field.name)
        for field in found.fields
    ]
    return rows.select(kafka.alias(META), *fields)


def _fault_of(read: DataFrame) -> Column:
    own = F.col(f"{READ}.fault")
    has_bytes = isinstance(read.schema["value"].dataType, BinaryType)
    return F.coalesce(_unreadable_reason(), own) if has_bytes else own


def _fault_field_of(read: DataFrame) -> Column:
    """The field with the fault; none for a record that could not be read: its value is not the record's."""
    own = F.col(f"{READ}.fault_field")
    has_bytes = isinstance(read.schema["value"].dataType, BinaryType)
    return F.when(_unreadable_reason().isNull(), own) if has_bytes else own


def _unreadable_reason() -> Column:
    """Why a record of a file could not be read: bronze has the reason in its place; null for all others.

    ``medallion.files.Unreadable`` writes it; no topic of Kafka has such a name.
    """
    value = F.col("value")
    is_marked = F.col("topic").startswith(FILES_PREFIX) & F.startswith(value, F.lit(_UNREADABLE))
    words = F.substring(value, len(_UNREADABLE) + 1, _MOST_LETTERS).cast("string")
    return F.when(is_marked, F.substring_index(words, " ", 1))


def select_columns(frame: DataFrame, columns: Mapping[str, str] | Hook, place: str, source: str) -> DataFrame:
    """The declared columns, plus ``_kafka``.

    Raises:
        PipelineError: An expression does not resolve, a function drops ``_kafka`` or does not return one row
            per row, or a column has no type.
    """
    if callable(columns):
        result = _apply_function(frame, columns, place, source)
        own = (field for field in result.schema.fields if field.name != META)
        result = _with_failed(result, [_unreadable(F.col(f"`{one.name}`"), one) for one in own])
    else:
        result = select_expressions(frame, columns, place, source)
    for field in result.schema.fields:
        if field.dataType.simpleString() == "void":
            raise _fault(
                place, f"column {field.name!r} has no type; cast the null, as in cast(null as string)", source
            )
    return result


def select_expressions(frame: DataFrame, columns: Mapping[str, str], place: str, source: str) -> DataFrame:
    """``_kafka`` and one column per SQL text; the error names a column that does not resolve.

    A row for which a column throws, or gives what readers of the table cannot read (a text that is no UTF-8,
    as bytes of a key may be; a day of another age), gets the fault ``column_failed``, with the column as
    ``fault_field``.
    """
    read = F.col(f"{META}.fault").isNull()
    tried = [
        attempt(F.expr(f"({null_for_null_times(sql)})"), read).alias(name) for name, sql in columns.items()
    ]
    try:
        attempts = frame.select(META, *tried)
    except PySparkException as error:
        for name, sql in columns.items():
            try:
                frame.select(F.expr(f"({sql})"))
            except PySparkException as own:
                raise _fault(f"{place}, column {name!r}", refusal(own), source) from own
        raise _fault(place, refusal(error), source) from error
    of_bytes = _names_of_bytes(frame)
    failed = []
    for field in attempts.schema.fields[1:]:
        attempted = F.col(f"`{field.name}`")
        failed.append(F.when(attempted.isNull(), F.lit(field.name)))
        (value,) = cast("StructType", field.dataType).fields
        if isinstance(value.dataType, _TIMES) or of_bytes.search(columns[field.name]):
            declared = StructField(field.name, value.dataType)
            failed.append(_unreadable(attempt_value(attempted), declared))
    values = (attempt_value(F.col(f"`{name}`")).alias(name) for name in columns)
    return _with_failed(attempts, failed).select(META, *values)


def _with_failed(frame: DataFrame, failed: Sequence[Column]) -> DataFrame:
    """The rows with the fault ``column_failed`` where a column names one, and no fault is known."""
    name, read = F.coalesce(F.lit(None).cast("string"), *failed), F.col(f"{META}.fault").isNull()
    meta = F.col(META)
    for field, value in (("fault", F.when(name.isNotNull(), COLUMN_FAILED)), ("fault_field", name)):
        meta = meta.withField(field, F.when(read, value).otherwise(F.col(f"{META}.{field}")))
    return frame.select(meta.alias(META), *(f"`{name}`" for name in frame.columns if name != META))


def _names_of_bytes(frame: DataFrame) -> re.Pattern[str]:
    """What an expression names if it may turn bytes into text: columns and functions with bytes."""
    names = (
        re.escape(field.name) for field in frame.schema.fields if "binary" in field.dataType.simpleString()
    )
    return re.compile(rf"\b({'|'.join((*names, *_GIVE_BYTES))})\b", re.IGNORECASE)


def _unreadable(value: Column, declared: StructField) -> Column:
    """The name of a column where readers of the table cannot read its value; null elsewhere."""
    return F.when(~_is_readable(value, declared.dataType), F.lit(declared.name))


def _is_readable(value: Column, kind: DataType) -> Column:
    """Whether every text in a value is UTF-8, and every day within what Arrow's readers know; never null."""
    found = F.lit(True)
    if re.search("string|date|timestamp", kind.simpleString()) is None:
        return found
    if isinstance(kind, StringType):
        found = F.is_valid_utf8(value)
    elif isinstance(kind, _TIMES):
        found = F.unix_date(value.cast("date")).between(-_MOST_DAYS, _MOST_DAYS)
    elif isinstance(kind, ArrayType):
        found = F.forall(value, lambda one: _is_readable(one, kind.elementType))
    elif isinstance(kind, MapType):
        keys = _is_readable(F.map_keys(value), ArrayType(kind.keyType))
        found = keys & _is_readable(F.map_values(value), ArrayType(kind.valueType))
    elif isinstance(kind, StructType):
        for field in kind.fields:
            found = found & _is_readable(value.getField(field.name), field.dataType)
    return F.coalesce(found, F.lit(True))


def _apply_function(frame: DataFrame, hook: Hook, place: str, source: str) -> DataFrame:
    before = plan_operators(frame)
    try:
        result: DataFrame = hook(frame)
    except PySparkException as error:
        raise _fault(place, f"the columns function failed: {in_plain_words(error)}", source) from error
    if META not in result.columns:
        raise _fault(
            place, f"the columns function dropped {META!r}; keep it: frame.select({META!r}, …)", source
        )
    after = plan_operators(result)
    added = [name for name in after[: len(after) - len(before)] if name != "Project"]
    if added:
        raise _fault(
            place,
            f"the columns function must give one row per row, but it has {', '.join(sorted(set(added)))}; "
            "only add, change or drop columns in it, and reject rows with a Rule",
            source,
        )
    return result


def _fault(place: str, message: str, source: str) -> PipelineError:
    return PipelineError([Problem(place, message, source)])
