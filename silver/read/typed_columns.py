"""Reads the typed columns that a bronze table keeps of its source, without a text in between. Pure.

A declared type takes a column only if it holds every value of the column's type, so that no value changes and
no row is rejected for its type: what does not fit is a mistake of the declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructField, StructType

from common.errors import nearest

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Integer types from the smallest, with the most digits of a value."""

_DOUBLE = {"tinyint", "smallint", "int", "float"}
"""Types whose every value a double has exactly."""


def faults(have: StructType, want: StructType, place: str = "") -> Iterator[str]:
    """Why declared columns do not take those of a source, in words.

    Args:
        have: The source's columns, as bronze has them.
        want: The declared ones.
        place: The path of the struct, with a dot behind it; empty for the row.
    """
    for field in want:
        path, own = f"{place}{field.name}", _named(have, field.name)
        if own is None:
            yield f"bronze has no column {path!r}; {nearest(field.name, [each.name for each in have])}"
        elif isinstance(own.dataType, StructType) and isinstance(field.dataType, StructType):
            yield from faults(own.dataType, field.dataType, f"{path}.")
        elif not _fits(own.dataType, field.dataType):
            is_, declared = own.dataType.simpleString(), field.dataType.simpleString()
            yield (
                f"column {path!r} is {is_} in bronze, and {declared} does not hold every value of it; "
                f"declare {is_}, and convert it in columns, such as try_cast({field.name} as {declared})"
            )


def taken(value: Column, have: StructType, want: StructType) -> Column:
    """The declared columns of a struct; null where the struct is. Call it where ``faults`` has none."""
    fields = (_taken(value, have, field).alias(field.name) for field in want)
    return F.when(value.isNotNull(), F.struct(*fields))


def _taken(value: Column, have: StructType, want: StructField) -> Column:
    own = _named(have, want.name)
    if own is None:
        raise AssertionError(f"{want.name} is no column, and was accepted as one")
    found = value.getField(own.name)
    if isinstance(own.dataType, StructType) and isinstance(want.dataType, StructType):
        return taken(found, own.dataType, want.dataType)
    return found if own.dataType == want.dataType else found.cast(want.dataType)


def _named(among: StructType, name: str) -> StructField | None:
    return next((field for field in among if field.name.lower() == name.lower()), None)


def _fits(have: DataType, want: DataType) -> bool:
    """Whether a type holds every value of another one."""
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return _fits(have.elementType, want.elementType)
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
