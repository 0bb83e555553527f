"""Looks inside of Spark's nested types. Pure."""

from __future__ import annotations

from collections.abc import Iterator

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


def missing_fields(
    have: StructType, want: StructType, place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """The fields of a struct, and of structs in it, that another one lacks: their places and types."""
    known = {field.name.lower(): field for field in have}
    for field in want:
        own = known.get(field.name.lower())
        if own is None:
            yield (*place, field.name), field.dataType
        elif isinstance(own.dataType, StructType) and isinstance(field.dataType, StructType):
            yield from missing_fields(own.dataType, field.dataType, (*place, own.name))
