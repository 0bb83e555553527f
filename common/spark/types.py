"""What lies within Spark's types. Pure."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def holds(kind: DataType, *sought: type[DataType]) -> bool:
    """Whether a type is one of some, or has one in it, however deep."""
    if isinstance(kind, sought):
        return True
    if isinstance(kind, StructType):
        return any(holds(field.dataType, *sought) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return holds(kind.elementType, *sought)
    return isinstance(kind, MapType) and (holds(kind.keyType, *sought) or holds(kind.valueType, *sought))
