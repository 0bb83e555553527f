"""Spark's names of Arrow's types, for the columns of tables that delta-rs reads."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from common.schema.ddl import Field

_PLAIN = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "date32[day]": "date",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
}


def fields_of(schema: pa.Schema) -> tuple[Field, ...]:
    """The columns of an Arrow schema, with Spark's types."""
    return tuple(_field(field.name, field.type) for field in schema)


def _field(name: str, kind: pa.DataType) -> Field:
    if kinds.is_struct(kind):
        nested = tuple(_field(field.name, field.type) for field in kind)
        inner = ",".join(f"{field.name}:{field.type}" for field in nested)
        return Field(name, f"struct<{inner}>", nested)
    if kinds.is_map(kind):
        key, value = _field("key", kind.key_type), _field("value", kind.item_type)
        return Field(name, f"map<{key.type},{value.type}>", (key, value))
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_list_view(kind):
        element = _field("element", kind.value_type)
        return Field(name, f"array<{element.type}>", (element,))
    if kinds.is_timestamp(kind):
        return Field(name, "timestamp" if kind.tz else "timestamp_ntz")
    if kinds.is_decimal(kind):
        return Field(name, f"decimal({kind.precision},{kind.scale})")
    return Field(name, _PLAIN.get(str(kind), str(kind)))
