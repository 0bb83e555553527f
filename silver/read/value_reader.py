"""Expressions that parse a value by its format, once per row, however many fields are used. Pure.

Each format adds ``__read``: a struct of ``fault`` (why the value could not be parsed, or null),
``fault_field`` (the path of the field with the fault), ``rescued`` (JSON text of fields that are not in the
schema) and ``value`` (struct of the declared fields, null with a fault). For a null value ``__read`` is null.

Where the elements of an array are rows (``Silver.each``), ``__read`` has ``elements`` too: per element its
``bytes``, ``fault`` and ``fault_field``, and ``value``: the path's first field with the element in the place
of the array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from common.declare import Avro, Bytes, Columns, Csv, Debezium, Json, Protobuf, Text, Value
from common.declare.declared import folder_of, source_of
from common.declare.files import PREFIX as FILES_PREFIX
from common.errors import PipelineError, Problem
from common.rows.typed_columns import taken
from common.schema import avro as avro_schema
from common.schema import protobuf as protobuf_schema
from common.schema.ddl import Field, spark_json
from common.schema.value_fields import spark_schema_text
from common.spark.jvm import static_method
from silver.read import typed_columns

READ = "__read"

EMPTY_VALUE = "empty_value"
NOT_UTF8 = "not_utf8"
MALFORMED_JSON = "malformed_json"
UNKNOWN_FRAMING = "unknown_framing"

_FRAME_BYTES, _MOST_BYTES = 5, 2**31 - 1
"""Bytes of a frame: a zero byte and a schema's id. Bytes that a value has at most."""

_CORRUPT = "__corrupt"
_PARSED = "__parsed"
_HEADERS = "array<struct<key: string, value: binary>>"
_BLANKS = " \t\r\n"
_CLASS = "medallion.ValueReader"
_AVRO_CLASS = "medallion.avro.AvroReader"
_PROTOBUF_CLASS = "medallion.protobuf.ProtobufReader"


@dataclass(frozen=True)
class ReadValues:
    """Bronze rows with ``__read``, and the fields of ``__read.value``."""

    frame: DataFrame
    fields: tuple[StructField, ...]


def read_values(
    bronze: DataFrame, value: Value, *, rescue: bool = False, each: Sequence[str] = ()
) -> ReadValues:
    """Bronze rows with an additional column ``__read``.

    Args:
        bronze: Rows with a binary column ``value``.
        rescue: Collect fields that are not in the schema.
        each: The path of an array of a strict value whose elements are rows; empty: none is.

    Raises:
        PipelineError: The format's schema is missing or wrong.
    """
    if isinstance(value, Json) and not value.strict:
        return _lenient(bronze, struct_type(spark_schema_text(value, folder_of(value))))
    if isinstance(value, Bytes):
        return _raw(bronze)
    if isinstance(value, Columns):
        return _typed(bronze, value)
    reader = strict_reader(bronze.sparkSession, value, rescue=rescue)
    if each:
        reader = _reader_of_elements(reader, each)
    return ReadValues(bronze.withColumn(READ, reader.read_record()), tuple(reader.fields.fields))


@dataclass(frozen=True)
class StrictReader:
    """One of the engine's Java readers with a declaration; equal readers give equal results."""

    java_class: str  # the class
    spec: str  # the declaration, as JSON text
    fields: StructType  # the fields of ``value`` in a result
    # Whether a zero byte and a schema's id precede the document, which the class does not read.
    is_framed: bool = False
    root: str = ""  # the first field of the path to an array whose elements are rows; empty: there is none
    is_of_lines: bool = False  # whether values are lines, whose file may name its columns

    def read_record(self, place: str = "") -> Column:
        """As ``read``, of a record; the columns of a file are found by the names that its first line has.

        Args:
            place: What the names of the record's columns begin with, such as ``_kafka.``.
        """
        value = F.col(f"{place}value")
        if not self.is_of_lines:
            return self.read(value)
        is_of_file = F.col(f"{place}topic").startswith(FILES_PREFIX)
        headers = F.when(is_of_file, F.col(f"{place}headers").cast(_HEADERS))
        headers = F.coalesce(headers, F.array().cast(_HEADERS))  # a null argument would be a null result
        return java_call("readLine", _result(self.fields), value, headers, F.lit(self.spec))

    def read(self, value: Column) -> Column:
        """A struct of ``fault``, ``fault_field``, ``rescued`` and ``value``; null for null."""
        kind, spec = _result(self.fields), F.lit(self.spec)
        if self.root:
            kind = kind.add("elements", ArrayType(_element(self.fields[self.root].dataType)))
        if not self.is_framed:
            return java_call("read", kind, value, spec, reader=self.java_class)
        has_frame = F.startswith(value, F.lit(b"\0")) & (F.length(value) >= _FRAME_BYTES)
        document = F.when(has_frame, F.substring(value, _FRAME_BYTES + 1, _MOST_BYTES))
        read = java_call("read", kind, document, spec, reader=self.java_class)
        faults = {"fault": F.lit(UNKNOWN_FRAMING)}
        parts = (faults.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in kind)
        return F.when(value.isNotNull() & ~has_frame, F.struct(*parts)).otherwise(read)


def strict_reader(
    spark: SparkSession, value: Json | Debezium | Csv | Text | Avro | Protobuf, *, rescue: bool = False
) -> StrictReader:
    """The reader of a strict format; the session's settings say where writers' schemas are.

    Raises:
        PipelineError: The format's schema is missing or wrong.
    """
    if isinstance(value, Avro):
        return _avro(spark, value)
    if isinstance(value, Protobuf):
        return _protobuf(spark, value, rescue=rescue)
    if isinstance(value, Text):
        schema = StructType([StructField("value", StringType())])
        return _reader(schema, {"format": "text", "schema": schema.jsonValue(), "max_bytes": value.max_bytes})
    schema = struct_type(spark_schema_text(value, folder_of(value)))
    reader = _reader(schema, _spec(value, schema, rescue=rescue), is_framed=_is_framed(value))
    return replace(reader, is_of_lines=isinstance(value, Csv))


def part_reader(value: Json | Debezium | Csv, whole: StructType, wanted: StructType) -> StrictReader:
    """A reader of some fields of a value: only their faults, and those of the whole document, are faults.

    Args:
        whole: All fields of the value.
        wanted: The fields to read; of a struct perhaps some of its fields.
    """
    if not isinstance(value, Csv):
        spec = _spec(value, wanted, rescue=False) | {"required": []}
        return _reader(wanted, spec, is_framed=_is_framed(value))
    # Perhaps read by position: every field stays, and text takes any value.
    schema = StructType(
        [each if each.name in wanted.names else StructField(each.name, StringType()) for each in whole]
    )
    others = [name for name in schema.names if name not in wanted.names]
    spec = _spec(value, schema, rescue=False) | {"required": [], "optional": others}
    return replace(_reader(schema, spec), is_of_lines=True)


def _is_framed(value: Json | Debezium | Csv) -> bool:
    return not isinstance(value, Csv) and value.framing == "registry"


def _reader_of_elements(reader: StrictReader, path: Sequence[str]) -> StrictReader:
    """A reader that gives the elements of an array one by one."""
    spec = json.dumps(json.loads(reader.spec) | {"each": list(path)})
    return replace(reader, spec=spec, fields=with_element(reader.fields, path), root=path[0])


def with_element(fields: StructType, path: Sequence[str]) -> StructType:
    """The fields of a value with one element in the place of the array that a path leads to.

    So are the arrays on the way.
    """
    found = []
    for field in fields:
        kind = field.dataType
        if field.name == path[0]:
            kind = kind.elementType if isinstance(kind, ArrayType) else kind
            if path[1:] and isinstance(kind, StructType):
                kind = with_element(kind, path[1:])
        found.append(StructField(field.name, kind))
    return StructType(found)


def struct_type(text: str) -> StructType:
    """The type of DDL text, or of a StructType as JSON; DDL needs a Spark session."""
    if text.lstrip().startswith("{"):
        return StructType.fromJson(json.loads(text))
    return cast("StructType", StructType.fromDDL(text))


def read_field_texts(text: Column, schema: StructType) -> Column:
    """Fields of a JSON object's text that the engine's reader has accepted, parsed as strictly as a value.

    Returns a struct of ``fault``, ``fault_field``, ``rescued`` and ``value``; null for null.
    """
    spec = {"format": "json", "schema": schema.jsonValue(), "max_depth": 1000}
    return java_call("read", _result(schema), text.cast("binary"), F.lit(json.dumps(spec)))


def _result(fields: StructType) -> StructType:
    """The type of a reader's result."""
    texts = [StructField(name, StringType()) for name in ("fault", "fault_field", "rescued")]
    return StructType([*texts, StructField("value", fields)])


def _element(value: DataType) -> StructType:
    """The type of an element in a reader's result."""
    texts = [StructField(name, StringType()) for name in ("fault", "fault_field")]
    return StructType([StructField("bytes", BinaryType()), *texts, StructField("value", value)])


def _spec(value: Json | Debezium | Csv, schema: StructType, *, rescue: bool) -> dict[str, Any]:
    """The parameters of a reader, which ``medallion.readers.Spec`` parses."""
    spec: dict[str, Any] = {
        "format": type(value).__name__.lower(),
        "schema": schema.jsonValue(),
        "required": list(value.required),
        "timestamps": value.timestamps,
        "max_bytes": value.max_bytes,
    }
    if isinstance(value, Csv):
        return spec | {"separator": value.separator, "null_text": value.null_text, "rescue": rescue}
    return spec | {"max_depth": value.max_depth, "rescue": rescue, "decimals": value.decimals}


def _avro(spark: SparkSession, value: Avro) -> StrictReader:
    folder = folder_of(value)
    spec = {"schema": avro_schema.schema_text(value, folder)} | _writers(spark, value)
    return _reader(_columns(avro_schema.fields(value, folder)), spec, _AVRO_CLASS)


def _protobuf(spark: SparkSession, value: Protobuf, *, rescue: bool) -> StrictReader:
    folder = folder_of(value)
    message, fields = protobuf_schema.spec_and_fields(value, folder)
    spec = {"message": message, "rescue": rescue}
    return _reader(_columns(fields), spec | _writers(spark, value), _PROTOBUF_CLASS)


def _columns(found: Sequence[Field]) -> StructType:
    return StructType.fromJson(spark_json(found))


def _writers(spark: SparkSession, value: Avro | Protobuf) -> dict[str, Any]:
    """The parameters of a reader about what precedes a value, and where writers' schemas are."""
    spec: dict[str, Any] = {"framing": value.framing, "max_bytes": value.max_bytes}
    if value.framing != "registry":
        return spec
    place, login = (spark.conf.get(name, "") for name in (avro_schema.REGISTRY, avro_schema.REGISTRY_LOGIN))
    if not place:
        text = 'framing "registry" needs the setting silver.schema_registry: an address, or a folder'
        raise PipelineError([Problem(type(value).__name__, text, source_of(value))])
    return spec | {"registry": place, "auth": login}


def _reader(
    schema: StructType, spec: dict[str, Any], java_class: str = _CLASS, *, is_framed: bool = False
) -> StrictReader:
    return StrictReader(java_class, json.dumps(spec), _nullable(schema), is_framed)


def java_call(method: str, result: DataType, *arguments: Column, reader: str = _CLASS) -> Column:
    """A static method of one of our Java classes as an expression; it runs once per row."""
    return static_method(reader, method, result, *arguments)


def _nullable(kind: DataType) -> Any:
    """The type of a reader's result: all fields nullable, and char and varchar as string."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True, f.metadata) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _nullable(kind.valueType))
    return StringType() if isinstance(kind, (CharType, VarcharType)) else kind


def _raw(bronze: DataFrame) -> ReadValues:
    nothing = F.lit(None).cast("string")
    read = F.struct(
        nothing.alias("fault"),
        nothing.alias("fault_field"),
        nothing.alias("rescued"),
        F.struct("value").alias("value"),
    )
    return ReadValues(
        bronze.withColumn(READ, F.when(F.col("value").isNotNull(), read)),
        (StructField("value", BinaryType()),),
    )


def _typed(bronze: DataFrame, value: Columns) -> ReadValues:
    """The columns of a source that bronze keeps typed: nothing is parsed, and no value has a fault."""
    have, source = bronze.schema["value"].dataType, source_of(value)
    if not isinstance(have, StructType):
        text = f"bronze has {have.simpleString()}, no typed columns; declare a format, such as Json(…)"
        raise PipelineError([Problem("Columns", text, source)])
    want = have if value.schema is None else struct_type(spark_schema_text(value, folder_of(value)))
    if found := tuple(typed_columns.faults(have, want)):
        raise PipelineError([Problem("Columns", text, source) for text in found])
    nothing = F.lit(None).cast("string")
    columns = taken(F.col("value"), have, want)
    names = ("fault", "fault_field", "rescued")
    read = F.struct(*(nothing.alias(name) for name in names), columns.alias("value"))
    read_or_null = F.when(F.col("value").isNotNull(), read)
    return ReadValues(bronze.withColumn(READ, read_or_null), tuple(want.fields))


def _lenient(bronze: DataFrame, schema: StructType) -> ReadValues:
    """Spark's own reader, which silently changes some values."""
    read = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = F.col("value").cast("string")
    once = java_call("text", StringType(), F.col("value"))
    whole = bronze.select("*", F.from_json(once, read, options).alias(_PARSED))
    fault = (
        F.when(F.length("value") == 0, EMPTY_VALUE)
        .when(~F.is_valid_utf8(text), NOT_UTF8)
        .when(F.trim(text, F.lit(_BLANKS)) == "", EMPTY_VALUE)
        .when(F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull(), MALFORMED_JSON)
    )
    checked = whole.select("*", fault.alias("__fault"))
    nothing = F.lit(None).cast("string")
    fields = F.struct(*(F.col(_PARSED).getField(field.name).alias(field.name) for field in schema.fields))
    result = F.struct(
        F.col("__fault").alias("fault"),
        nothing.alias("fault_field"),
        nothing.alias("rescued"),
        F.when(F.col("__fault").isNull(), fields).alias("value"),
    )
    kept = [F.col(name) for name in bronze.columns]
    read_or_null = F.when(F.col("value").isNotNull(), result)
    return ReadValues(checked.select(*kept, read_or_null.alias(READ)), tuple(schema.fields))
