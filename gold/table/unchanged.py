"""Values that a change left as they were and that its record does not have: a placeholder, or null.

PostgreSQL's log has no large value (TOAST) that an update left unchanged; Debezium writes a text of its own
in its place, which has a form in each type (`_is_placeholder`). A source of partial updates sends null. Pure.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
)


@dataclass(frozen=True)
class Unchanged:
    """The columns in which a placeholder may stand for the value that the row has."""

    # The placeholder; it stands in texts, bytes, maps of texts, and arrays of texts, bytes, numbers and
    # dates.
    text: str | None
    columns: Mapping[str, DataType]  # their names and types
    nulls: bool = False  # whether null is a placeholder too, in each column

    @classmethod
    def of(
        cls, text: str | None, schema: StructType, without: Collection[str], *, nulls: bool = False
    ) -> Unchanged | None:
        """The columns of a schema besides some; ``None`` without a placeholder or such a column."""
        found = {field.name: field.dataType for field in schema if field.name not in without}
        if not nulls:
            found = {name: kind for name, kind in found.items() if text is not None and _has_form(kind)}
        return cls(text, found, nulls) if found else None

    def is_in(self, name: str, value: Column) -> Column:
        """Whether a value of the column is a placeholder; never null."""
        is_null, kind = value.isNull() if self.nulls else F.lit(False), self.columns[name]
        if self.text is None or not _has_form(kind):
            return is_null
        return is_null | F.coalesce(_is_placeholder(self.text, value, kind), F.lit(False))


def _has_form(kind: DataType) -> bool:
    """Whether a placeholder has a form in values of a type."""
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType | BinaryType | NumericType | DateType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return isinstance(kind, StringType | BinaryType)


def _is_placeholder(text: str, value: Column, kind: DataType) -> Column:
    """Whether a value has the form that Debezium gives the placeholder in its type; null for null.

    Arrays of numbers (and dates, which are days) have the bytes of the text, a number each; other arrays have
    the placeholder as each element; a map has it as its only key and value.
    """
    if isinstance(kind, BinaryType):
        return value == F.lit(text.encode())
    if isinstance(kind, MapType):
        return (F.size(value) == 1) & (F.element_at(value, text) == text)
    if not isinstance(kind, ArrayType):
        return value.isin(*_texts(text))
    inner = kind.elementType
    if isinstance(inner, StringType | BinaryType):
        return (F.size(value) > 0) & F.forall(
            value, lambda one: F.coalesce(_is_placeholder(text, one, inner), F.lit(False))
        )
    numbers = F.transform(value, F.unix_date) if isinstance(inner, DateType) else value
    return numbers.cast("array<double>") == F.array(*(F.lit(float(byte)) for byte in text.encode()))


def _texts(text: str) -> tuple[str, ...]:
    """The placeholder as a text: itself; of bytes; of a uuid; and each other form of it, written as JSON."""
    raw = text.encode()
    as_uuid = str(UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3))
    nested = ({text: text}, [text], list(raw), [as_uuid])
    written = (json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in nested)
    return (text, base64.b64encode(raw).decode(), raw.hex(), as_uuid, *written)
