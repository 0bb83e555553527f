"""What becomes of a key, decided in the driver: the same as Spark decides, for drawn micro-batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows, rows_in_driver
from gold.upsert.outcome import (
    END,
    IN_DELETED,
    IN_TABLE,
    IS_DELETE,
    IS_REMOVED,
    MAY_BE_REMOVED,
    ROW,
    decide,
    reduced,
)
from tests.conftest import IN_DRIVER

pytestmark = pytest.mark.long

KEY, ORDER = ["k", "part"], ["version", "offset"]
COLUMNS = [*KEY, *ORDER, "value"]
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "part": pa.int32(),
        "version": pa.decimal128(9, 2),
        "offset": pa.int64(),
        "value": pa.list_(pa.string()),
    }
)
TYPES = "k string, part int, version decimal(9,2), offset bigint, value array<string>"

KEYS = st.tuples(st.sampled_from([None, "", "a", "B"]), st.sampled_from([None, 1]))
VERSIONS = st.none() | st.integers(-2, 2)
VERSION_ROW = st.tuples(KEYS, VERSIONS, st.booleans())


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[dict[str, Any]], ...]:
    """What came, and what the table and the one of deleted keys have: one row per key at most.

    Offsets tell all rows apart, but where a table has the very row that comes.
    """
    sides = [draw(st.lists(VERSION_ROW, min_size=least, max_size=14)) for least in (1, 0, 0)]
    came = [_row(key, version, at, ends=ends) for at, (key, version, ends) in enumerate(sides[0])]
    have = []
    for side in sides[1:]:
        rows = {key: _row(key, version, draw(st.integers(-3, 10)), ends=ends) for key, version, ends in side}
        again = draw(st.sampled_from([None, *came]))
        if again is not None:
            rows[again["k"], again["part"]] = again
        have.append([*rows.values()])
    return came, *have


def _row(key: tuple[Any, ...], version: int | None, offset: int, *, ends: bool) -> dict[str, Any]:
    value = [f"{version}", f"{offset}"]
    return {
        "k": key[0], "part": key[1], "version": version, "offset": offset, "value": value, IS_DELETE: ends,
    }  # fmt: skip


def by_spark(spark: Any, came: list[Any], table: list[Any], deleted: list[Any]) -> list[dict[str, Any]]:
    """What ``decide`` makes of rows that Spark compares."""
    others: dict[str, Rows | None] = {
        name: SparkRows(_frame(spark, rows, TYPES), len(rows))
        for name, rows in ((ROW, table), (END, deleted))
    }
    compared = SparkRows(came_rows(spark, came), len(came)).compare(others, key=KEY, order=ORDER)
    found: list[dict[str, Any]] = decide(compared, COLUMNS).frame.toArrow().to_pylist()
    return found


def in_driver(spark: Any, came: pa.Table, table: list[Any], deleted: list[Any]) -> list[dict[str, Any]]:
    """What ``decide`` makes of rows that the driver compares."""
    others: dict[str, Rows | None] = {
        name: rows_in_driver(spark, _arrow(rows), IN_DRIVER) for name, rows in ((ROW, table), (END, deleted))
    }
    compared = rows_in_driver(spark, came, IN_DRIVER).compare(others, key=KEY, order=ORDER)
    arrow = decide(compared, COLUMNS).arrow
    assert arrow is not None
    found: list[dict[str, Any]] = arrow.to_pylist()
    return found


def _arrow(rows: list[dict[str, Any]], *markers: str) -> pa.Table:
    schema = pa.schema([*SCHEMA, *((name, pa.bool_()) for name in markers)])
    return pa.Table.from_pylist([dict.fromkeys(markers, False) | each for each in _exact(rows)], schema)


def came_rows(spark: Any, came: list[Any]) -> Any:
    """What came, with its markers."""
    return _frame(spark, came, f"{TYPES}, {IS_DELETE} boolean, {IS_REMOVED} boolean", IS_DELETE, IS_REMOVED)


def _frame(spark: Any, rows: list[Any], types: str, *names: str) -> Any:
    return spark.createDataFrame(
        [tuple(each.get(name, False) for name in (*COLUMNS, *names)) for each in _exact(rows)], types
    )


def _exact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Versions as decimals."""
    from decimal import Decimal

    return [
        {**each, "version": None if each["version"] is None else Decimal(each["version"])} for each in rows
    ]


def text(rows: list[dict[str, Any]]) -> list[str]:
    """Rows, in an order of their own."""
    return sorted(map(repr, rows))


@settings(
    max_examples=max(3, settings.default.max_examples // 4),  # by `--draws`
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(batch=batches())
def test_the_driver_decides_as_spark_does(spark: Any, batch: tuple[list[dict[str, Any]], ...]) -> None:
    """Every key's row and its action, in the table and in the one of deleted keys; reduced or not."""
    came, table, deleted = batch
    by_executors = text(by_spark(spark, *batch))
    assert text(in_driver(spark, _arrow(came, IS_DELETE, IS_REMOVED), table, deleted)) == by_executors
    one_per_key = reduced(came_rows(spark, came), key=KEY, order=ORDER).toArrow()
    assert text(in_driver(spark, one_per_key, table, deleted)) == by_executors, "reduced by the executors"


def test_a_key_whose_row_may_be_removed_is_marked(spark: Any) -> None:
    """Only where the removed row is as new as the newest that came, or newer: then only the source knows."""
    rows = [
        ("older left", 2, False), ("older left", 1, True),
        ("newer left", 1, False), ("newer left", 2, True),
        ("all left", 1, True),
    ]  # fmt: skip
    types = f"k string, o int, {IS_REMOVED} boolean"
    frame = spark.createDataFrame(rows, types).withColumn(IS_DELETE, F.lit(False))
    found = {row["k"]: row for row in reduced(frame, key=["k"], order=["o"]).collect()}
    assert {key: row[MAY_BE_REMOVED] for key, row in found.items()} == {
        "older left": False, "newer left": True, "all left": True,
    }  # fmt: skip
    assert {key: row[IS_REMOVED] for key, row in found.items()} == {
        "older left": False, "newer left": False, "all left": True,
    }  # fmt: skip


def test_a_table_of_no_deleted_keys(spark: Any) -> None:
    """Its rows are inserted, replaced by newer ones, and left alone by older ones."""
    came = [_row(("new", 1), 1, 1, ends=False), _row(("newer", 1), 2, 2, ends=False)]
    came.append(_row(("older", 1), 0, 3, ends=False))
    table = [_row((key, 1), 1, 0, ends=False) for key in ("newer", "older")]
    for limits in (IN_DRIVER, NO_DRIVER):
        rows = SparkRows(came_rows(spark, came), None, limits).collected()
        before = SparkRows(_frame(spark, table, TYPES), None, limits).collected()
        found = decide(rows.compare({ROW: before, END: None}, key=KEY, order=ORDER), COLUMNS)
        done = {row["k"]: (row[IN_TABLE], row[IN_DELETED], row["value"]) for row in found.frame.collect()}
        assert done == {
            "new": ("inserted", None, ["1", "1"]),
            "newer": ("updated", None, ["2", "2"]),
            "older": (None, None, ["0", "3"]),
        }
