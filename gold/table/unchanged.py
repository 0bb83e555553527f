"""Values that a change left as they were and that its record does not have: a placeholder stands for them.

PostgreSQL's log has no large value (TOAST) that an update left unchanged; Debezium writes a text of its own
in its place: in a text column, base64 or hexadecimal where the source's column is binary. Pure.
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
        text: The placeholder.
        columns: Their names and types; texts, bytes, and arrays of either.
    """

    text: str
    columns: Mapping[str, DataType]

    @classmethod
    def of(cls, text: str | None, schema: StructType, without: Collection[str]) -> Unchanged | None:
        """The columns of a schema besides some; ``None`` without a placeholder or such a column."""
        found = {field.name: field.dataType for field in schema if field.name not in without}
        found = {name: kind for name, kind in found.items() if _holds_text(kind)}
        return cls(text, found) if text is not None and found else None

    def is_in(self, name: str, value: Column) -> Column:
        """Whether a value of the column is the placeholder; never null."""
        kind = self.columns[name]
        if isinstance(kind, ArrayType):
            inner = kind.elementType
            is_same = (F.size(value) == 1) & F.coalesce(self._is_one(value[0], inner), F.lit(False))
        else:
            is_same = self._is_one(value, kind)
        return F.coalesce(is_same, F.lit(False))

    def _is_one(self, value: Column, kind: DataType) -> Column:
        raw = self.text.encode()
        if isinstance(kind, BinaryType):
            return value == F.lit(raw)
        return value.isin(self.text, base64.b64encode(raw).decode(), raw.hex())


def _holds_text(kind: DataType) -> bool:
    plain = kind.elementType if isinstance(kind, ArrayType) else kind
    return isinstance(plain, StringType | BinaryType)
