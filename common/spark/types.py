"""Looks inside of Spark's nested types. Pure."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def contains_type(kind: DataType, *sought: type[DataType]) -> bool:
    """Whether a type is one of the sought types, or contains one at any depth."""
    if isinstance(kind, sought):
        return True
    if isinstance(kind, StructType):
        return any(contains_type(field.dataType, *sought) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return contains_type(kind.elementType, *sought)
    return isinstance(kind, MapType) and (
        contains_type(kind.keyType, *sought) or contains_type(kind.valueType, *sought)
    )
