"""Message values as typed columns. Pure: any bytes at all come out as exactly one row.

A value is parsed once. What cannot be parsed keeps its row, with null columns and a fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Hook, Value
from common.errors import PipelineError, Problem
from silver.read.columns import META
from silver.read.try_expression import attempted, outcome
from silver.read.value_reader import READ, reading

COLUMN_FAILED = "column_failed"


def parsed(bronze: DataFrame, value: Value, *, rescue: bool = False) -> DataFrame:
    """Bronze rows as the value's fields, plus ``_kafka``.

    ``_kafka`` holds topic, partition, offset, timestamp, timestamp_type, ingested_at, key, value,
    headers, ``fault``: why the value could not be read, or null; ``fault_field``: the path of the field at
    which that was found; ``rescued``: JSON text of unknown fields, or null. With a fault all fields are null,
    as they are for a null value, which has none.

    Raises:
        PipelineError: The format's schema cannot be had.
    """
    found = reading(bronze, value, rescue=rescue)
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
        *(F.col(f"{READ}.{name}").alias(name) for name in ("fault", "fault_field", "rescued")),
    )
    content = F.col(f"{READ}.value")
    fields = [content.getField(field.name).alias(field.name) for field in found.fields]
    return found.frame.select(kafka.alias(META), *fields)


def shaped(frame: DataFrame, columns: Mapping[str, str] | Hook, place: str, source: str) -> DataFrame:
    """The declared columns, plus ``_kafka``.

    Raises:
        PipelineError: An expression does not fit the fields, a function loses ``_kafka`` or is not
            row for row, or a column has no type.
    """
    if callable(columns):
        result = _hooked(frame, columns, place, source)
    else:
        result = selected(frame, columns, place, source)
    for field in result.schema.fields:
        if field.dataType.simpleString() == "void":
            raise _fault(
                place, f"column {field.name!r} has no type; cast the null, as in cast(null as string)", source
            )
    return result


def selected(frame: DataFrame, columns: Mapping[str, str], place: str, source: str) -> DataFrame:
    """``_kafka`` and one column per SQL text; the column that does not resolve is named.

    A row on which a column throws has the fault ``column_failed`` and the column's name as its field.
    """
    read = F.col(f"{META}.fault").isNull()
    tried = [attempted(F.expr(f"({sql})"), read).alias(name) for name, sql in columns.items()]
    try:
        attempts = frame.select(META, *tried)
    except PySparkException as error:
        for name, sql in columns.items():
            try:
                frame.select(F.expr(f"({sql})"))
            except PySparkException as own:
                raise _fault(f"{place}, column {name!r}", _first_line(own), source) from own
        raise _fault(place, _first_line(error), source) from error
    failed = F.coalesce(*(F.when(F.col(f"`{name}`").isNull(), F.lit(name)) for name in columns))
    meta = F.col(META)
    for field, told in (("fault", F.when(failed.isNotNull(), COLUMN_FAILED)), ("fault_field", failed)):
        meta = meta.withField(field, F.when(read, told).otherwise(F.col(f"{META}.{field}")))
    return attempts.select(meta.alias(META), *(outcome(F.col(f"`{name}`")).alias(name) for name in columns))


def _hooked(frame: DataFrame, hook: Hook, place: str, source: str) -> DataFrame:
    before = _operators(frame)
    try:
        result = hook(frame)
    except PySparkException as error:
        raise _fault(place, f"the columns function failed: {_first_line(error)}", source) from error
    if META not in result.columns:
        raise _fault(
            place, f"the columns function dropped {META!r}; keep it: frame.select({META!r}, …)", source
        )
    added = [
        name for name in _operators(result)[: len(_operators(result)) - len(before)] if name != "Project"
    ]
    if added:
        raise _fault(
            place,
            f"the columns function must give one row per row, but it has {', '.join(sorted(set(added)))}; "
            "only add, change or drop columns in it, and set rows aside with a Rule",
            source,
        )
    return result


def _operators(frame: DataFrame) -> list[str]:
    """Names of the plan's operators, outermost first."""
    names: list[str] = []
    nodes = [frame._jdf.queryExecution().analyzed()]  # noqa: SLF001  # no public way to see a plan
    while nodes:
        node = nodes.pop()
        names.append(node.nodeName())
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
    return names


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]


def _fault(place: str, message: str, source: str) -> PipelineError:
    return PipelineError([Problem(place, message, source)])
