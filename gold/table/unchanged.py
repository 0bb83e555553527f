"""Values that a change left as they were and that its record does not have: a placeholder, or null.

PostgreSQL's log has no large value (TOAST) that an update left unchanged; Debezium writes a text of its own
in its place: in a text column, base64 or hexadecimal where the source's column is binary. A source of partial
updates sends null. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType


@dataclass(frozen=True)
class Unchanged:
    """The columns in which a placeholder may stand for the value that the row has.

    Attributes:
        text: The placeholder; it stands in texts, bytes, and arrays of either.
        columns: Their names and types.
        nulls: Whether null is a placeholder too, in each column.
    """

    text: str | None
    columns: Mapping[str, DataType]
    nulls: bool = False

    @classmethod
    def of(
        cls, text: str | None, schema: StructType, without: Collection[str], *, nulls: bool = False
    ) -> Unchanged | None:
        """The columns of a schema besides some; ``None`` without a placeholder or such a column."""
        found = {field.name: field.dataType for field in schema if field.name not in without}
        if not nulls:
            found = {name: kind for name, kind in found.items() if text is not None and _holds_text(kind)}
        return cls(text, found, nulls) if found else None

    def is_in(self, name: str, value: Column) -> Column:
        """Whether a value of the column is a placeholder; never null."""
        is_null, kind = value.isNull() if self.nulls else F.lit(False), self.columns[name]
        if self.text is None or not _holds_text(kind):
            return is_null
        if isinstance(kind, ArrayType):
            inner = kind.elementType
            is_one = _is_text(self.text, value[0], inner)
            is_same = (F.size(value) == 1) & F.coalesce(is_one, F.lit(False))
        else:
            is_same = _is_text(self.text, value, kind)
        return is_null | F.coalesce(is_same, F.lit(False))


def _is_text(text: str, value: Column, kind: DataType) -> Column:
    raw = text.encode()
    if isinstance(kind, BinaryType):
        return value == F.lit(raw)
    return value.isin(text, base64.b64encode(raw).decode(), raw.hex())


def _holds_text(kind: DataType) -> bool:
    plain = kind.elementType if isinstance(kind, ArrayType) else kind
    return isinstance(plain, StringType | BinaryType)
