"""Looks inside of Spark's nested types. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


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


def with_nulls_in_elements(schema: StructType, *, is_element: bool = False) -> StructType:
    """Columns whose structs in arrays and maps may have nulls: Delta takes no others."""
    return StructType(
        [
            StructField(
                one.name, _in_elements(one.dataType, is_element), one.nullable or is_element, one.metadata
            )
            for one in schema
        ]
    )


def _in_elements(kind: DataType, is_element: bool) -> DataType:  # noqa: FBT001  # as its caller says
    if isinstance(kind, StructType):
        return with_nulls_in_elements(kind, is_element=is_element)
    if isinstance(kind, ArrayType):
        return ArrayType(_in_elements(kind.elementType, True), kind.containsNull)
    if isinstance(kind, MapType):
        key, value = (_in_elements(each, True) for each in (kind.keyType, kind.valueType))
        return MapType(key, value, kind.valueContainsNull)
    return kind


def missing_fields(
    have: StructType, want: StructType, place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """The fields of a struct, and of structs in it, that another one lacks: their places and types."""
    known = {field.name.lower(): field for field in have}
    for field in want:
        own = known.get(field.name.lower())
        if own is None:
            yield (*place, field.name), field.dataType
        else:
            yield from _missing_in(own.dataType, field.dataType, (*place, own.name))


def _missing_in(
    have: DataType, want: DataType, place: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """As ``missing_fields``, of any types; an array's elements and a map's values have names in Delta."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        yield from missing_fields(have, want, place)
    elif isinstance(have, ArrayType) and isinstance(want, ArrayType):
        yield from _missing_in(have.elementType, want.elementType, (*place, "element"))
    elif isinstance(have, MapType) and isinstance(want, MapType):
        yield from _missing_in(have.keyType, want.keyType, (*place, "key"))
        yield from _missing_in(have.valueType, want.valueType, (*place, "value"))


def is_grown(have: str, want: str) -> bool:
    """Whether a type is another one whose structs, in it too, have further fields at their ends.

    Args:
        have: A type as Spark's ``simpleString``.
        want: Another one.
    """
    at = place = 0
    while place < len(want):
        if at < len(have) and have[at] == want[place]:
            at, place = at + 1, place + 1
        elif have[at : at + 1] == ">" and want[place] == ",":
            place = _end_of_struct(want, place)
        else:
            return False
    return at == len(have)


def _end_of_struct(text: str, place: int) -> int:
    """The place of the ``>`` that closes the struct in which a place is."""
    depth = 0
    while place < len(text) and (depth or text[place] != ">"):
        depth += {"<": 1, ">": -1}.get(text[place], 0)
        place += 1
    return place
