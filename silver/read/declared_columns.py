"""Parses message values into typed columns. Pure: any bytes give exactly one row.

A value is parsed once. A value that cannot be parsed gives a row with null columns and a fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from common.declare import Hook, Value
from common.declare.files import PREFIX as FILES_PREFIX
from common.errors import PipelineError, Problem, first_line
from common.spark.jvm import plan_operators
from common.sql.expression import null_for_null_times
from silver.read.column_names import META
from silver.read.poison import HIDDEN
from silver.read.try_expression import attempt, attempt_value
from silver.read.value_reader import READ, read_values

COLUMN_FAILED = "column_failed"

_UNREADABLE = b"\0unreadable "
_MOST_LETTERS = 64


def parse_values(bronze: DataFrame, value: Value, *, rescue: bool = False) -> DataFrame:
    """Bronze rows as the fields of their values, plus ``_kafka``.

    ``_kafka`` holds topic, partition, offset, timestamp, timestamp_type, ingested_at, key, value,
    headers, ``fault``: why the value could not be parsed, or null; ``fault_field``: the path of the field
    with the fault; ``rescued``: JSON text of unknown fields, or null. With a fault, and for a null value,
    all fields are null; a null value has no fault.

    Raises:
        PipelineError: The format's schema is missing or wrong.
    """
    found = read_values(bronze, value, rescue=rescue)
    kafka = F.struct(
        "topic",
        "partition",
        "offset",
        F.col("kafka_timestamp").alias("timestamp"),
        F.col("kafka_timestamp_type").alias("timestamp_type"),
        "ingested_at",
        "key",
        "value",
        "headers",
        _fault_of(found.frame).alias("fault"),
        *(F.col(f"{READ}.{name}").alias(name) for name in ("fault_field", "rescued")),
        *(name for name in (HIDDEN,) if name in found.frame.columns),
    )
    content = F.col(f"{READ}.value")
    fields = [content.getField(field.name).alias(field.name) for field in found.fields]
    return found.frame.select(kafka.alias(META), *fields)


def _fault_of(read: DataFrame) -> Column:
    own = F.col(f"{READ}.fault")
    has_bytes = isinstance(read.schema["value"].dataType, BinaryType)
    return F.coalesce(_unreadable_reason(), own) if has_bytes else own


def _unreadable_reason() -> Column:
    """Why a record of a file could not be read: bronze has the reason in its place; null for all others.

    ``medallion.files.records.Unreadable`` writes it; no topic of Kafka has such a name.
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

    A row for which a column throws gets the fault ``column_failed``, with the column as ``fault_field``.
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
                raise _fault(f"{place}, column {name!r}", first_line(own), source) from own
        raise _fault(place, first_line(error), source) from error
    failed = F.coalesce(*(F.when(F.col(f"`{name}`").isNull(), F.lit(name)) for name in columns))
    meta = F.col(META)
    for field, value in (("fault", F.when(failed.isNotNull(), COLUMN_FAILED)), ("fault_field", failed)):
        meta = meta.withField(field, F.when(read, value).otherwise(F.col(f"{META}.{field}")))
    return attempts.select(
        meta.alias(META), *(attempt_value(F.col(f"`{name}`")).alias(name) for name in columns)
    )


def _apply_function(frame: DataFrame, hook: Hook, place: str, source: str) -> DataFrame:
    before = plan_operators(frame)
    try:
        result: DataFrame = hook(frame)
    except PySparkException as error:
        raise _fault(place, f"the columns function failed: {first_line(error)}", source) from error
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
