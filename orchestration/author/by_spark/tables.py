"""Tables without rows in a session of their own: what Spark analyzes an SQL text over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from common.schema.ddl import Field, parse
from common.sql.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def typed(field: Field) -> str:
    """The type of a field in Spark's SQL: names inside of it are quoted, which its short name lacks."""
    inner = [typed(each) for each in field.nested]
    if field.kind == "struct":
        members = zip(field.nested, inner, strict=True)
        return f"struct<{', '.join(f'{backquoted(each.name)}: {kind}' for each, kind in members)}>"
    return f"{field.kind}<{', '.join(inner)}>" if inner else field.type


def fields_of(frame: DataFrame) -> Sequence[Field]:
    """The columns of a frame."""
    return parse(str(cast("Any", frame)._jdf.schema().toDDL()))  # noqa: SLF001  # PySpark gives no DDL


def view_of(table: str) -> str:
    """The name of a table's view."""
    return backquoted(f"__{table.replace('.', '__')}")


def nulls(fields: Iterable[Field]) -> str:
    """A SELECT list of columns of these names and types."""
    return ", ".join(f"CAST(NULL AS {typed(each)}) AS {backquoted(each.name)}" for each in fields)


def define(spark: SparkSession, table: str, fields: Iterable[Field]) -> None:
    """Have the session know a table of these columns; it has no rows, and no files."""
    spark.sql(f"CREATE OR REPLACE TEMP VIEW {view_of(table)} AS SELECT {nulls(fields)} WHERE false")
