"""Tables without rows in a session of their own: what Spark analyzes an SQL text over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from common.schema.ddl import Field, parse
from common.sql.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def view_of(table: str) -> str:
    """What a table is called in Spark's SQL."""
    return backquoted(table)


def define(spark: SparkSession, table: str, fields: Iterable[Field]) -> None:
    """Have a session know a table of these columns, without rows and files."""
    columns = ", ".join(f"CAST(NULL AS {_typed(each)}) AS {backquoted(each.name)}" for each in fields)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW {view_of(table)} AS SELECT {columns} WHERE false")


def fields_of(frame: DataFrame) -> Sequence[Field]:
    """The columns of a frame."""
    return parse(frame.schema.toDDL())


def _typed(field: Field) -> str:
    """The type of a field in Spark's SQL: names inside of it are quoted, which its short name lacks."""
    inner = [_typed(each) for each in field.nested]
    if field.kind == "struct":
        members = zip(field.nested, inner, strict=True)
        return f"struct<{', '.join(f'{backquoted(each.name)}: {kind}' for each, kind in members)}>"
    return f"{field.kind}<{', '.join(inner)}>" if inner else field.type
