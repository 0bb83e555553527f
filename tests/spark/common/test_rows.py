"""One interface for rows: each operation on rows in the driver and on Spark's, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.rows.arrow_rows import ArrowRows
from common.rows.expressions import (
    Expression,
    column,
    contains,
    first_of,
    greater,
    greatest,
    if_else,
    is_in,
    is_null,
    is_true,
    text,
    timestamp,
    when,
)
from common.rows.latest_in_driver import NotComparableError
from common.rows.rows import ORDER, Rows
from common.rows.spark_rows import BytesRead, SparkRows, rows_in_driver
from tests.conftest import IN_DRIVER

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TYPES = (
    "k string, part int, n bigint, price decimal(9,2), at timestamp, until timestamp, flag boolean, "
    "`odd name` array<string>, inner struct<a: int, b: binary>, ratio double"
)
VALUES: list[tuple[Any, ...]] = [
    ("a", 1, 5, Decimal("1.50"), NOON, NOON, True, ["x", "y", "x"], (1, b"\xff"), 0.5),
    ("a", 1, None, None, None, None, None, None, None, None),
    ("b", None, -7, Decimal("-0.10"), NOON, NOON + timedelta(hours=1), False, [], (None, None), -0.0),
    (None, 2, 5, Decimal("2.00"), NOON - timedelta(days=9), NOON, True, ["z", None], (3, b""), 1.0),
    ("", None, 2**62, None, NOON, NOON + timedelta(microseconds=1), None, ["x"], (None, b"1"), None),
]


def both(spark: Any, values: Sequence[tuple[Any, ...]] = VALUES, types: str = TYPES) -> tuple[Rows, Rows]:
    """The same rows with Spark, and in the driver."""
    frame = spark.createDataFrame(list(values), types).coalesce(1)
    in_driver = SparkRows(frame, None, IN_DRIVER).collected()
    assert isinstance(in_driver, ArrowRows)
    return SparkRows(frame), in_driver


def content(rows: Rows) -> list[str]:
    """Rows by their values, in an order of their own; of rows in the driver also by their frame."""
    by_frame = sorted(map(repr, rows.frame.toArrow().to_pylist()))
    if rows.arrow is not None:
        assert sorted(map(repr, rows.arrow.to_pylist())) == by_frame
        assert rows.arrow.schema.names == list(rows.columns) == rows.frame.columns
    return by_frame


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.select({"b": column("inner", "b"), "new": column("odd name")}),
        lambda rows: rows.with_columns({"why": text("because"), "n": column("part")}),
        lambda rows: rows.with_columns({"mark": timestamp(1_772_366_400_123)}),
        lambda rows: rows.drop("inner"),
        lambda rows: rows.only(["odd name", "k"]),
        lambda rows: rows.renamed({"k": "K2", "odd name": "plain"}),
        lambda rows: rows.where(column("flag")),
        lambda rows: rows.where(~column("flag")).select({"n": column("n")}),
        lambda rows: rows.where(is_in(column("k"), ["a", ""]), 3).drop("ratio"),
        lambda rows: rows.with_limits(NO_DRIVER),
        lambda rows: rows.latest_per_key(key=["k"], order=["n", "part"]),
        lambda rows: rows.latest_per_key(key=["k", "part"], order=["n"], earliest=True),
        lambda rows: rows.latest_per_key(key=["k"], order=["ratio", "n"]),
        lambda rows: rows.narrowed_to(rows, ["k"]),
    ],
)  # fmt: skip
def test_an_operation_gives_the_same_rows(spark: Any, change: Callable[[Rows], Rows]) -> None:
    """Values, names and Spark's types."""
    there, here = map(change, both(spark))
    assert content(here) == content(there)
    assert here.schema.simpleString() == there.schema.simpleString()


EXPRESSIONS: dict[str, Expression] = {
    "flag": column("flag"),
    "not": ~column("flag"),
    "and": column("flag") & is_null(column("n")),
    "or": column("flag") | is_null(column("part")),
    "in": is_in(column("k"), ["a", "z"]),
    "null": is_null(column("inner", "a")),
    "true": is_true(column("flag")),
    "contains": is_true(contains(column("odd name"), "x")),
    "greater": greater(column("n"), column("part")),
    "greatest": is_null(greatest(column("n"), column("part"))),
    "if else": if_else(column("flag"), is_null(column("k")), is_null(column("part"))),
    "when": is_null(when(column("flag"), column("inner"))),
    "first of": is_in(first_of((column("flag"), "yes"), (is_null(column("flag")), "unknown")), ["unknown"]),
}


@pytest.mark.long
def test_expressions_have_one_value_in_both(spark: Any) -> None:
    """Of every row, null included; and the same number of rows for which each is true."""
    there, here = both(spark)
    values = [rows.select(EXPRESSIONS).frame.toArrow().to_pylist() for rows in (there, here)]
    arrow = here.select(EXPRESSIONS).arrow
    assert arrow is not None
    assert arrow.to_pylist() == values[0] == values[1]
    assert here.count_where(EXPRESSIONS) == there.count_where(EXPRESSIONS)
    nothing = [rows.where(is_in(column("k"), ["nowhere"])) for rows in (there, here)]
    assert {*nothing[0].count_where(EXPRESSIONS).values()} == {0}
    assert nothing[1].count_where(EXPRESSIONS) == nothing[0].count_where(EXPRESSIONS)


@pytest.mark.long
def test_counts_are_the_same(spark: Any) -> None:
    """Of rows, by value, and of nulls."""
    there, here = both(spark)
    assert here.count == there.count == len(VALUES)
    for name in ("k", "part", "flag"):
        assert here.count_by(name) == there.count_by(name)
    for name in here.columns:
        assert here.null_count(name) == there.null_count(name)


@pytest.mark.long
def test_bounds_let_the_same_rows_through(spark: Any) -> None:
    """All rows that have one of the keys, and few others."""
    there, here = both(spark)
    table = spark.range(-10, 10).selectExpr(
        "if(id = 9, null, id) n", "if(id % 2 = 0, 'a', 'c') k", "timestamp_seconds(id * 3600 + 1772366400) at"
    )
    for key in (["n"], ["k"], ["at"], ["n", "k"], ["ratio"]):
        found = [table.where(reduce(and_, rows.bounds(key), F.lit(True))).collect() for rows in (there, here)]
        assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))
    assert not here.bounds(["ratio"])


def test_ranges_of_time_are_the_same(spark: Any) -> None:
    there, here = (rows.where(~is_null(column("at"))) for rows in both(spark))
    assert sorted({*here.time_ranges("at", "until")}) == sorted(there.time_ranges("at", "until"))


@pytest.mark.long
def test_rows_that_spark_alone_compares_are_handed_over(spark: Any) -> None:
    """Of types that are not plain, and against rows that are not in the driver."""
    there, here = both(spark)
    want = content(
        there.compare({"other": there, "none": None}, key=["k", "part"], order=["ratio"])
        .drop("other")
        .drop(ORDER)
    )
    for other in (here, there):
        compared = here.compare({"other": other, "none": None}, key=["k", "part"], order=["ratio"])
        assert isinstance(compared, SparkRows)
        assert content(compared.drop("other").drop(ORDER)) == want


def test_what_the_driver_cannot_compute_spark_does(spark: Any) -> None:
    """By the second function; which rows that are with Spark go to at once."""
    there, here = both(spark)

    def refuse(rows: Rows) -> Rows:
        raise NotComparableError

    assert here.compute(lambda rows: rows.only(["k"]), refuse).columns == ("k",)
    assert here.compute(refuse, lambda rows: rows.only(["n"])).columns == ("n",)
    assert list(there.compute(refuse, lambda rows: rows.only(["n"])).columns) == ["n"]


KEYS = st.tuples(st.sampled_from(["", "a", "B"]), st.sampled_from([1, 2]))
ROW = st.tuples(KEYS, st.none() | st.integers(-2, 2), st.integers(0, 3))
SIDES = st.tuples(
    st.lists(ROW, min_size=1, max_size=10), st.lists(ROW, max_size=8), st.lists(ROW, max_size=8)
)


DRAWN = pa.schema({"k": pa.string(), "part": pa.int32(), "version": pa.int32(), "at": pa.int32()})


def drawn_rows(spark: Any, side: Sequence[tuple[Any, ...]]) -> tuple[Rows, Rows]:
    """The same rows with Spark, and in the driver."""
    frame = spark.createDataFrame(list(side), "k string, part int, version int, at int")
    arrow = pa.Table.from_pylist([dict(zip(DRAWN.names, row, strict=True)) for row in side], DRAWN)
    return SparkRows(frame, len(side)), rows_in_driver(spark, arrow, IN_DRIVER)


@pytest.mark.long
@settings(
    max_examples=max(3, settings.default.max_examples // 4),  # by `--draws`
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=SIDES)
def test_rows_compare_with_tables_as_drawn(spark: Any, drawn: tuple[list[Any], ...]) -> None:
    """Each key's latest row, and whether it is newer than those of tables; and keys that no table has."""
    sides = [[(*key, version, at) for key, version, at in side] for side in drawn]
    mine = drawn_rows(spark, sides[0])
    one, two = (drawn_rows(spark, [*{row[:2]: row for row in side}.values()]) for side in sides[1:])
    key, order = ["k", "part"], ["version", "at"]
    newer = {name: greater(column(ORDER), column(name)) for name in ("one", "two")}
    found = []
    for rows, *others in zip(mine, one, two, strict=True):
        compared = rows.compare(dict(zip(newer, others, strict=True)), key=key, order=order)
        compared = compared.select({name: column(name) for name in (*key, *order)} | newer)
        first = rows.latest_per_key(key=key, order=order, earliest=True)
        lacking = first.keys_not_in(others, key=key, itself=["at"])
        tables = [each.frame.toArrow() if each.arrow is None else each.arrow for each in (compared, lacking)]
        found.append([sorted(map(repr, table.to_pylist())) for table in tables])
    assert found[0] == found[1]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("limits", "in_driver"),
    [
        (IN_DRIVER, True),
        (NO_DRIVER, False),
        (DriverLimits(rows=4), False),
        (DriverLimits(rows=5), True),
        (DriverLimits(rows=5, batch_bytes=10), False),
    ],
)
def test_where_rows_are_kept(spark: Any, limits: DriverLimits, *, whole: bool, in_driver: bool) -> None:
    """In the driver within its limits; what is computed from others is Spark's too."""
    frame = spark.createDataFrame(VALUES, TYPES)
    with SparkRows(frame, None, limits).kept(whole=whole) as rows:
        assert (rows.arrow is not None) is in_driver
        assert rows.count == len(VALUES)
        assert content(rows) == content(SparkRows(frame))
        assert rows.limits == (limits if in_driver else NO_DRIVER)
        with rows.derive(frame.select("k")).kept() as derived:
            assert (derived.arrow is not None) is in_driver


def test_rows_with_a_type_that_arrow_lacks_are_spark_s(spark: Any) -> None:
    """The elements of ``array()`` are void, and never null."""
    given = SparkRows(spark.sql("select id, array() as none from range(3)"), limits=IN_DRIVER)
    with given.kept() as rows:
        assert rows.arrow is None
        assert sorted(row.id for row in rows.frame.collect()) == [0, 1, 2]


def test_rows_that_are_likely_few_and_are_not_are_spark_s(spark: Any) -> None:
    """They came by one job, and are not computed again."""
    retries: list[int] = []
    rows = SparkRows(spark.createDataFrame(VALUES, TYPES), None, DriverLimits(rows=2))
    with rows.kept(whole=True, expected=2, before_retry=lambda: retries.append(1)) as kept:
        assert kept.arrow is None
        assert kept.count == len(VALUES)
        assert len(content(kept)) == len(VALUES)
    assert not retries


@pytest.mark.parametrize(
    ("batch_bytes", "besides", "in_driver"), [(2**20, 0, True), (2**20, 2**18, False), (1024, 0, False)]
)
def test_a_batch_that_reads_much_is_spark_s(
    spark: Any, tmp_path: Any, batch_bytes: int, besides: int, *, in_driver: bool
) -> None:
    """By the size of its files, and of what is read besides; so is what one task would compute of it."""
    path = str(tmp_path / "t")
    spark.range(1000).write.parquet(path)
    frame = spark.read.parquet(path)
    limits = DriverLimits(rows=9_999, batch_bytes=batch_bytes)
    rows = SparkRows(frame, None, limits, BytesRead(frame)).with_files(frame, besides)
    assert (rows.collected().arrow is not None) is in_driver
    with rows.kept() as kept, rows.derive(frame.distinct()).kept() as derived:
        assert (kept.arrow is not None) is in_driver
        assert (derived.arrow is not None) is in_driver
        assert kept.count == derived.count == 1000
    with rows.kept(whole=True) as whole:
        assert whole.arrow is not None or batch_bytes == 1024, "all executors have computed it"


@pytest.mark.parametrize(("most", "where"), [(5, "driver"), (4, "Spark")])
def test_few_rows_are_computed_in_the_driver_and_more_with_spark(spark: Any, most: int, where: str) -> None:
    """Without a word of the caller on which rows are few."""
    rows = SparkRows(spark.createDataFrame(VALUES, TYPES), None, DriverLimits(rows=most))
    ways = {way: lambda rows, way=way: rows.with_columns({"way": text(way)}) for way in ("driver", "Spark")}
    computed = rows.compute(ways["driver"], ways["Spark"])
    assert {row.way for row in computed.frame.collect()} == {where}
    assert (computed.arrow is not None) is (where == "driver")


def test_keys_in_the_driver_bring_the_rows_that_have_them(spark: Any) -> None:
    """Rows with Spark are narrowed to them; others are there already."""
    there, here = both(spark)
    keys = here.where(is_in(column("k"), ["b"])).only(["k"])
    narrowed = there.narrowed_to(keys, ["k"])
    assert narrowed.arrow is not None
    assert content(narrowed) == content(there.where(is_in(column("k"), ["b"])))
    assert here.narrowed_to(keys, ["k"]) is here
    assert there.narrowed_to(there.only(["k"]), ["k"]) is there
