"""Keys and values of messages in Avro or Protobuf, by declared schemas.

Rows are written in the JVM, by the types of the schema. A column of another type is taken where that type
holds each of its values, else it is a mistake of the declaration; a value that the schema does not take, such
as a null, stops the query. A registry is asked when the first rows are sent, so a start does not need one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from common.config.references import registry_login
from common.config.settings import Settings
from common.declare import Avro, KafkaSink, Protobuf, Publish
from common.declare.declared import source_of
from common.errors import Fault, PipelineError, Problem
from common.rows.typed_columns import field_of, fits, taken
from common.schema.ddl import Field, spark_json
from common.schema.sent import CHANGE, Registered, column_faults, frame, sent_fields, writer_spec
from common.spark.jvm import static_method

PARTS = ("key", "value")
"""The parts of a message that may have a format."""

_WRITERS = {Avro: "medallion.avro.AvroWriter", Protobuf: "medallion.protobuf.output.ProtobufWriter"}

Formats = Mapping[str, Avro | Protobuf]


def formats(sink: KafkaSink) -> Formats:
    """The parts of a sink's messages that are written by a schema."""
    found = {part: getattr(sink, part) for part in PARTS}
    return {part: value for part, value in found.items() if isinstance(value, Avro | Protobuf)}


def encoded(
    rows: DataFrame, columns: Sequence[str], publish: Publish, sink: KafkaSink, elsewhere: Sequence[str]
) -> Mapping[str, Column]:
    """The key and the value of each row's message, where they have a format; without a registry's frame.

    A row that was deleted has no value, unless the schema has the field ``_change_type``.

    Args:
        elsewhere: Columns that the other parts of the message are made of.

    Raises:
        PipelineError: A schema is missing or wrong, or does not take the columns.
    """
    found, source = formats(sink), source_of(publish)
    fields = {part: sent_fields(value) for part, value in found.items()}
    have = StructType([field for field in rows.schema if field.name in columns])
    faults = list(column_faults(columns, fields, elsewhere))
    faults += [text for part, one in fields.items() for text in _type_faults(part, have, _struct(one))]
    if faults:
        raise PipelineError([Problem(publish.table, text, source) for text in faults])
    whole = F.struct(*(F.col(f"`{name}`") for name in have.names))
    parts = {part: _written(whole, have, value, fields[part]) for part, value in found.items()}
    if publish.deletes and "value" in parts and CHANGE not in {field.name for field in fields["value"]}:
        parts["value"] = F.when(F.col(CHANGE) != "delete", parts["value"])
    return parts


def _written(whole: Column, have: StructType, value: Avro | Protobuf, fields: tuple[Field, ...]) -> Column:
    row = taken(whole, have, _struct(fields))
    return static_method(_WRITERS[type(value)], "write", BinaryType(), row, F.lit(writer_spec(value)))


def _struct(fields: tuple[Field, ...]) -> StructType:
    return StructType.fromJson(spark_json(fields))


def _type_faults(part: str, have: StructType, want: StructType, place: str = "") -> Iterator[str]:
    """Columns whose type the schema's does not hold; one that is missing is told by ``column_faults``."""
    for field in want:
        path, own = f"{place}{field.name}", field_of(have, field.name)
        if own is None:
            if place:
                yield Fault("MED-1202", f"{part}: the schema's field {path!r} is not in the column")
        elif isinstance(own.dataType, StructType) and isinstance(field.dataType, StructType):
            yield from _type_faults(part, own.dataType, field.dataType, f"{path}.")
        elif not fits(own.dataType, field.dataType):
            mine, its = own.dataType.simpleString(), field.dataType.simpleString()
            yield Fault(
                "MED-1105",
                f"{part}: column {path!r} is {mine}, and the schema's {its} does not hold every value of it; "
                f"convert it in columns, such as cast({field.name} as {its})",
            )


def framing(publish: Publish, sink: KafkaSink, settings: Settings) -> Callable[[DataFrame], DataFrame]:
    """A function that puts a registry's frame before the keys and values of messages.

    The function raises ``RegistryError`` while the registry does not answer, and ``PipelineError`` where it
    lacks a schema or refuses it.
    """
    framed = {part: value for part, value in formats(sink).items() if value.framing == "registry"}
    known: dict[str, bytes] = {}

    def put(messages: DataFrame) -> DataFrame:
        for part, value in framed.items():
            if part not in known:
                at = _registered(publish, sink, part, settings)
                known[part] = frame(value, at, f"{publish.table}, {part}")
        return messages.withColumns(
            {part: F.concat(F.lit(found), F.col(part)) for part, found in known.items()}
        )

    return put


def _registered(publish: Publish, sink: KafkaSink, part: str, settings: Settings) -> Registered:
    place, login = settings.silver.schema_registry, settings.silver.schema_registry_login
    if place is None:
        text = Fault("MED-1504", 'framing "registry" needs the setting silver.schema_registry')
        raise PipelineError([Problem(f"{publish.table}, {part}", text, source_of(publish))])
    return Registered(place, registry_login(login), f"{sink.topic}-{part}", sink.register_schemas)
