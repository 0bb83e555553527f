"""Compares the rows of a gold table with those that it must have, as multisets, by one shuffle.

Values that were computed again may differ in the last digits of a float: a sum depends on the order of its
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

from common.spark.literals import as_python_value, has_literal, literal
from orchestration.records.audit.gold.close_floats import is_close

SHOWN = 10
"""Most keys that one difference lists; its numbers cover all of them."""

_SAMPLED_VALUES = 2_000
PARTS = 20
"""Ranges that the values of a column are cut into; one of them is a sample."""

_WEIGHT = "__weight"
_FORMATS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How a table differs from what it must be."""

    changed: int  # keys whose row has other values
    missing: int  # keys that the table lacks
    extra: int  # keys that the table has and must not have, or has too often
    keys: tuple[str, ...]  # the first of them, as JSON, each with what it is

    @property
    def count(self) -> int:
        """Number of keys that differ."""
        return self.changed + self.missing + self.extra


def difference(
    have: DataFrame,
    want: DataFrame,
    *,
    key: Sequence[str],
    without: frozenset[str] = frozenset(),
    rounded: frozenset[str] = frozenset(),
) -> Difference | None:
    """How a table differs from what it must be; None if it does not.

    Args:
        want: The rows that it must have; columns that only one of the two has do not count.
        key: Columns that tell rows apart; empty: all columns do.
        without: Columns that do not count.
        rounded: Columns of which the last digits of floats may differ; those of others are copies.
    """
    names = [name for name in have.columns if name in want.columns and name not in without]
    kinds = {field.name: field.dataType for field in have.schema}
    both = _weighted(have, want, names, kinds)
    if both.isEmpty():
        return None
    both.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _by_key(_beyond_tolerance(both, names, _rounded(kinds, rounded)), key or names)
    finally:
        both.unpersist()


def _weighted(
    have: DataFrame, want: DataFrame, names: Sequence[str], kinds: Mapping[str, DataType]
) -> DataFrame:
    """The rows that one of two tables has more often: how much more often the first one has them."""
    typed = want.select(*(F.col(f"`{name}`").cast(kinds[name]).alias(name) for name in names))
    return (
        have.select(*_groupable(names, kinds), F.lit(1).alias(_WEIGHT))
        .unionAll(typed.select(*_groupable(names, kinds), F.lit(-1)))
        .groupBy(*_columns(names))
        .agg(F.sum(_WEIGHT).alias(_WEIGHT))
        .where(f"{_WEIGHT} <> 0")
    )


def open_rows(
    have: DataFrame,
    want: DataFrame,
    orders: Sequence[DataFrame],
    places: Sequence[DataFrame],
    *,
    rounded: frozenset[str] = frozenset(),
) -> int | None:
    """How many rows of a table are others than wanted, where only rows differ that are not in every way.

    None: the table lacks a row that every way has, or has more or fewer rows than there are in any order.

    Args:
        want: The rows by one way of computing them.
        orders: The rows by the same statement over rows in other orders.
        places: The rows by the statement with another number for rows of one place.
        rounded: Columns of which the last digits of floats may differ; those of others are copies.
    """
    names = [name for name in have.columns if name in want.columns]
    kinds = {field.name: field.dataType for field in have.schema}
    both = _weighted(have, want, names, kinds).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        floats = _rounded(kinds, rounded)
        differing = _beyond_tolerance(both, names, floats)
        numbers = {name: f"c{number}" for number, name in enumerate(names)}  # a name may be one of ours
        rough = [_rough(name) if name in floats else F.col(f"`{name}`") for name in names]
        rough = [value.alias(number) for value, number in zip(rough, numbers.values(), strict=True)]
        rows = differing.select(*rough, _WEIGHT, F.lit(-1).alias("__way"))
        for way, each in enumerate((want, *orders, *places)):
            typed = each.select(*(F.col(f"`{name}`").cast(kinds[name]).alias(name) for name in names))
            mine = zip(names, _groupable(names, kinds), strict=True)
            rough = [_rough(name) if name in floats else value for name, value in mine]
            rows = rows.unionAll(typed.select(*rough, F.lit(None).cast("bigint"), F.lit(way)))
        counts = [F.count_if(F.col("__way") == way) for way in range(1 + len(orders) + len(places))]
        of_row = rows.groupBy(*numbers.values()).agg(
            F.coalesce(F.sum(_WEIGHT), F.lit(0)).alias("w"),
            (F.least(*counts) - counts[0]).alias("least"),
            *(each.alias(f"n{way}") for way, each in enumerate(counts[: 1 + len(orders)])),
        )
        totals = [F.sum(f"n{way}") for way in range(1 + len(orders))]
        figures = F.count_if(F.col("w") < F.col("least")), F.sum("w"), F.sum(F.greatest("w", F.lit(0)))
        lacking, more, others, *sizes = of_row.agg(*figures, *totals).collect()[0]
        is_open = not lacking and min(sizes) <= sizes[0] + more <= max(sizes)
        return int(others) if is_open else None
    finally:
        both.unpersist()


def _rounded(kinds: Mapping[str, DataType], rounded: frozenset[str]) -> list[str]:
    """The columns of floats whose last digits may differ."""
    names = {name.lower() for name in rounded}
    is_float = {name: isinstance(kind, FloatType | DoubleType) for name, kind in kinds.items()}
    return [name for name in kinds if is_float[name] and name.lower() in names]


def _rough(name: str) -> Column:
    """A float as a value that two computations of the same rows give alike: to nine digits."""
    return F.format_string("%.8e", F.col(f"`{name}`").cast("double"))


def _groupable(names: Sequence[str], kinds: Mapping[str, DataType]) -> list[Column]:
    return [comparable(name, kinds[name], "variant") for name in names]


def comparable(name: str, kind: DataType, *without: str) -> Column:
    """A column as a value that Spark can compare: as JSON where its type has one of these words in it."""
    column = F.col(f"`{name}`")
    is_text = any(word in kind.simpleString() for word in without)
    return F.to_json(F.struct(column), _FORMATS).alias(name) if is_text else column


def key_range(table: DataFrame, column: str, part: int) -> Column | None:
    """The condition of one of ``PARTS`` ranges, each with about as many of a column's values.

    None where the column has too few values, or a type whose values have no exact literal.
    """
    kind = table.schema[column].dataType
    if not has_literal(kind):
        return None
    value = F.col(f"`{column}`")
    some = table.select(value).where(value.isNotNull()).orderBy(F.rand()).limit(_SAMPLED_VALUES).distinct()
    ends = [row[0] for row in some.orderBy(value).select(as_python_value(value, kind)).collect()]
    if len(ends) < PARTS:
        return None
    first, last = len(ends) * part // PARTS, len(ends) * (part + 1) // PARTS
    # The first part also has null and what is smaller than all, the last what is greater.
    low = value >= literal(ends[first], kind) if part else F.lit(True)
    high = value < literal(ends[last], kind) if last < len(ends) else F.lit(True)
    return (low & high) if part else (high | value.isNull())


def _beyond_tolerance(rows: DataFrame, names: Sequence[str], rounded: Sequence[str]) -> DataFrame:
    """Rows that differ by more than the last digits of rounded floats, with their weights."""
    floats = [name for name in names if name in rounded]
    if not floats:
        return rows
    exact = [F.col(f"`{name}`").alias(f"__e{at}") for at, name in enumerate(names) if name not in floats]
    values = [F.col(f"`{name}`").cast("double").alias(f"v{at}") for at, name in enumerate(floats)]
    row = F.struct(F.struct(*values).alias("floats"), F.col(_WEIGHT).alias("weight"))
    own = F.struct(*_columns(names), F.col(_WEIGHT))
    groups = rows.groupBy(*exact).agg(
        F.collect_list(row).alias("__left"), F.collect_list(own).alias("__rows")
    )
    return groups.where(~_is_near(len(floats))).select(F.inline("__rows"))


def _is_near(floats: int) -> Column:
    """Whether the rows that are left of a group are alike, up to the last digits of their floats.

    They are compared rank by rank. In which column they are put in order first is tried in turn: where two
    values of it differ in their last digits only, the other columns decide.
    """

    def side(sign: int, first: int) -> Column:
        order = [first, *(at for at in range(floats) if at != first)]
        ranked = F.transform(
            "__left",
            lambda one: F.array_repeat(
                F.struct(*(one.floats[f"v{at}"].alias(f"v{at}") for at in order)),
                F.greatest(one.weight * sign, F.lit(0)).cast("int"),
            ),
        )
        return F.sort_array(F.flatten(ranked))

    def are_close(one: Column, other: Column) -> Column:
        pairs = [(one[f"v{at}"], other[f"v{at}"]) for at in range(floats)]
        return reduce(and_, (is_close(mine, theirs) for mine, theirs in pairs))

    ways = []
    for first in range(floats):
        have, want = side(1, first), side(-1, first)
        pairs = F.zip_with(have, want, are_close)
        ways.append((F.size(have) == F.size(want)) & F.forall(pairs, lambda is_same: is_same))
    return reduce(or_, ways)


def _by_key(rows: DataFrame, key: Sequence[str]) -> Difference | None:
    """What differs, counted by key."""
    text = F.to_json(F.struct(*_columns(key)), _FORMATS).alias("key")
    sides = (
        rows.select(text, _WEIGHT)
        .groupBy("key")
        .agg(F.max(_WEIGHT).alias("most"), F.min(_WEIGHT).alias("least"))
    )
    what = F.when(F.col("least") > 0, "extra").when(F.col("most") < 0, "missing").otherwise("changed")
    found = sides.select("key", what.alias("what")).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = {
            row["what"]: row["n"] for row in found.groupBy("what").agg(F.count("*").alias("n")).collect()
        }
        shown = found.orderBy("key").limit(SHOWN).collect()
    finally:
        found.unpersist()
    if not counts:
        return None
    keys = tuple(f"{row['key']} {row['what']}" for row in shown)
    return Difference(counts.get("changed", 0), counts.get("missing", 0), counts.get("extra", 0), keys)


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]
