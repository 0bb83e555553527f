"""Expressions over columns, each for Spark and for Arrow: what a writer does with rows is one text.

Booleans have three values, as in SQL: ``&``, ``|`` and ``~`` of null are null where the operands decide
nothing. For what a pipeline declares there is Spark's SQL; these are the engine's own few operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from common.sql.quoting import backquoted

Values = Any
"""An Arrow array or chunked array, one value per row."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One value per row."""

    spark: Callable[[], Column]  # makes Spark's column
    arrow: Callable[[pa.Table], Values]  # computes the values over an Arrow table

    def __and__(self, other: Expression) -> Expression:
        return Expression(
            lambda: self.spark() & other.spark(),
            lambda rows: pc.and_kleene(self.arrow(rows), other.arrow(rows)),
        )

    def __or__(self, other: Expression) -> Expression:
        return Expression(
            lambda: self.spark() | other.spark(),
            lambda rows: pc.or_kleene(self.arrow(rows), other.arrow(rows)),
        )

    def __invert__(self) -> Expression:
        return Expression(lambda: ~self.spark(), lambda rows: pc.invert(self.arrow(rows)))


def column(name: str, field: str | None = None) -> Expression:
    """A column; or one field of a struct column, null where the struct is null."""
    quoted = backquoted(name)
    if field is None:
        return Expression(lambda: F.col(quoted), lambda rows: rows[name])
    return Expression(lambda: F.col(quoted).getField(field), lambda rows: pc.struct_field(rows[name], field))


def text(value: str) -> Expression:
    """The same text in each row. The column is nullable, also in a table that is created from it."""
    return Expression(lambda: F.when(F.lit(True), F.lit(value)), lambda rows: pa.repeat(value, rows.num_rows))


def timestamp(milliseconds: int) -> Expression:
    """The same time in each row, by its milliseconds since the epoch."""
    at = pa.scalar(milliseconds * 1000, pa.timestamp("us", "UTC"))
    return Expression(
        lambda: F.timestamp_millis(F.lit(milliseconds).cast("bigint")),
        lambda rows: pa.repeat(at, rows.num_rows),
    )


def is_in(value: Expression, values: Sequence[str]) -> Expression:
    """Whether a text is one of some; null for null."""
    known = pa.array(values, pa.string())

    def in_arrow(rows: pa.Table) -> Values:
        texts = value.arrow(rows)
        return pc.if_else(pc.is_valid(texts), pc.is_in(texts, known), pa.scalar(None, pa.bool_()))

    return Expression(lambda: value.spark().isin(*values), in_arrow)


def is_null(value: Expression) -> Expression:
    """Whether a value is null; never null itself."""
    return Expression(lambda: value.spark().isNull(), lambda rows: pc.is_null(value.arrow(rows)))


def is_true(value: Expression) -> Expression:
    """Whether a boolean is true; null is not."""
    return Expression(
        lambda: F.coalesce(value.spark(), F.lit(False)),
        lambda rows: pc.fill_null(value.arrow(rows), False),
    )


def contains(values: Expression, item: str) -> Expression:
    """Whether a list has an item, once or more often."""
    return Expression(
        lambda: F.array_contains(values.spark(), item), lambda rows: _contains(values.arrow(rows), item)
    )


def greater(left: Expression, right: Expression) -> Expression:
    """Whether one value is greater than another."""
    return Expression(
        lambda: left.spark() > right.spark(), lambda rows: pc.greater(left.arrow(rows), right.arrow(rows))
    )


def greatest(left: Expression, right: Expression) -> Expression:
    """The greater of two values; where one is null, the other."""
    return Expression(
        lambda: F.greatest(left.spark(), right.spark()),
        lambda rows: pc.max_element_wise(left.arrow(rows), right.arrow(rows)),
    )


def if_else(condition: Expression, value: Expression, other: Expression) -> Expression:
    """One of two values of a plain type; a condition that is null counts as false."""
    return Expression(
        lambda: F.when(condition.spark(), value.spark()).otherwise(other.spark()),
        lambda rows: pc.if_else(
            pc.fill_null(condition.arrow(rows), False), value.arrow(rows), other.arrow(rows)
        ),
    )


def when(condition: Expression, value: Expression) -> Expression:
    """A value of any type where a condition is true, else null."""

    def kept(rows: pa.Table) -> Values:
        positions = pa.array(np.arange(rows.num_rows))
        return value.arrow(rows).take(pc.if_else(condition.arrow(rows), positions, None))

    return Expression(lambda: F.when(condition.spark(), value.spark()), kept)


def first_of(*cases: tuple[Expression, str]) -> Expression:
    """The text of the first condition that is true; null where none is."""

    def in_spark() -> Column:
        chosen = F.lit(None).cast("string")
        for condition, value in reversed(cases):
            chosen = F.when(condition.spark(), F.lit(value)).otherwise(chosen)
        return chosen

    def in_arrow(rows: pa.Table) -> Values:
        chosen = pa.nulls(rows.num_rows, pa.string())
        for condition, value in reversed(cases):
            chosen = pc.if_else(pc.fill_null(condition.arrow(rows), False), value, chosen)
        return chosen

    return Expression(in_spark, in_arrow)


def _contains(lists: pa.ChunkedArray, item: str) -> pa.ChunkedArray:
    chunks = []
    for chunk in lists.chunks:
        with_item = pc.list_parent_indices(chunk).filter(pc.equal(pc.list_flatten(chunk), item))
        rows = pa.array(np.arange(len(chunk), dtype=with_item.type.to_pandas_dtype()))
        chunks.append(pc.is_in(rows, pc.unique(with_item)))
    return pa.chunked_array(chunks, pa.bool_())
