"""Columns taken as other types that hold every value of theirs, so that no value changes. Pure."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructField, StructType

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Integer types from the smallest, with the most digits of a value."""

_DOUBLE = {"tinyint", "smallint", "int", "float"}
"""Types whose every value a double has exactly."""


def taken(value: Column, have: StructType, want: StructType) -> Column:
    """The declared columns of a struct; null where the struct is. Each has a type that ``fits``."""
    fields = (_taken(value, have, field).alias(field.name) for field in want)
    return F.when(value.isNotNull(), F.struct(*fields))


def _taken(value: Column, have: StructType, want: StructField) -> Column:
    own = field_of(have, want.name)
    if own is None:
        raise AssertionError(f"{want.name} is no column, and was accepted as one")
    found = value.getField(own.name)
    if isinstance(own.dataType, StructType) and isinstance(want.dataType, StructType):
        return taken(found, own.dataType, want.dataType)
    return found if own.dataType == want.dataType else found.cast(want.dataType)


def field_of(among: StructType, name: str) -> StructField | None:
    """The field of a name, as Spark compares names."""
    return next((field for field in among if field.name.lower() == name.lower()), None)


def fits(have: DataType, want: DataType) -> bool:
    """Whether a type holds every value of another one."""
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return fits(have.elementType, want.elementType)
    mine, its = have.simpleString(), want.simpleString()
    kinds = list(_DIGITS)
    if mine in _DIGITS and its in _DIGITS:
        return kinds.index(mine) <= kinds.index(its)
    if isinstance(want, DecimalType):
        whole = want.precision - want.scale
        if isinstance(have, DecimalType):
            return have.scale <= want.scale and have.precision - have.scale <= whole
        return mine in _DIGITS and _DIGITS[mine] <= whole
    return (its == "double" and mine in _DOUBLE) or _plain(mine) == _plain(its)


def _plain(kind: str) -> str:
    """A type's text without lengths of texts: a text holds what any char or varchar holds."""
    return re.sub(r"\b(?:var)?char\(\d+\)", "string", kind)
