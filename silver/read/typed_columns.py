"""Whether the typed columns that a bronze table keeps of its source have the declared types. Pure.

A declared type takes a column only if it holds every value of the column's type, so that no value changes and
no row is rejected for its type: what does not fit is a mistake of the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import StructType

from common.errors import nearest
from common.rows.typed_columns import field_of, fits


def faults(have: StructType, want: StructType, place: str = "") -> Iterator[str]:
    """Why declared columns do not take those of a source, in words.

    Args:
        have: The source's columns, as bronze has them.
        place: The path of the struct, with a dot behind it; empty for the row.
    """
    for field in want:
        path, own = f"{place}{field.name}", field_of(have, field.name)
        if own is None:
            yield f"bronze has no column {path!r}; {nearest(field.name, [each.name for each in have])}"
        elif isinstance(own.dataType, StructType) and isinstance(field.dataType, StructType):
            yield from faults(own.dataType, field.dataType, f"{path}.")
        elif not fits(own.dataType, field.dataType):
            is_, declared = own.dataType.simpleString(), field.dataType.simpleString()
            yield (
                f"column {path!r} is {is_} in bronze, and {declared} does not hold every value of it; "
                f"declare {is_}, and convert it in columns, such as try_cast({field.name} as {declared})"
            )
