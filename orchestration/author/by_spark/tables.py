"""Tables without rows in a session of their own: what Spark analyzes an SQL text over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from common.schema.ddl import Field
from common.sql.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Columns = Sequence[tuple[str, str]]
"""Names of columns, each with its type as Spark's SQL has it."""


def typed(field: Field) -> str:
    """The type of a field in Spark's SQL: names inside of it are quoted, which its short name lacks."""
    inner = [typed(each) for each in field.nested]
    if field.kind == "struct":
        members = zip(field.nested, inner, strict=True)
        return f"struct<{', '.join(f'{backquoted(each.name)}: {kind}' for each, kind in members)}>"
    return f"{field.kind}<{', '.join(inner)}>" if inner else field.type


def columns_of(frame: DataFrame) -> Columns:
    """The columns of a frame."""
    fields = cast("Any", frame)._jdf.schema().fields()  # noqa: SLF001  # PySpark has no type's text in SQL
    return [(str(field.name()), str(field.dataType().sql())) for field in fields]


def view_of(table: str) -> str:
    """The name of a table's view."""
    return backquoted(f"__{table.replace('.', '__')}")


def define(spark: SparkSession, table: str, columns: Columns) -> None:
    """Have the session know a table of these columns; it has no rows, and no files."""
    nulls = (f"CAST(NULL AS {kind}) AS {backquoted(column)}" for column, kind in columns)
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW {view_of(table)} AS SELECT {', '.join(nulls)} WHERE false"
    )  # names and types of declarations
