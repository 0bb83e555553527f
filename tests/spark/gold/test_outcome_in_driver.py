"""What becomes of a key, told in the driver: the same as Spark tells, for drawn micro-batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from common.rows.materialized import Settled, local
from gold.upsert.outcome_in_driver import is_few, newest
from gold.upsert.outcome_in_driver import outcome as told
from gold.upsert.outcome_in_spark import ENDS, GONE, IN_DELETED, IN_TABLE, STRAY, meeting, outcome, reduced

KEY, ORDER = ["k", "part"], ["version", "offset"]
COLUMNS = [*KEY, *ORDER, "value"]
TYPES = "k string, part int, version decimal(9,2), offset bigint, value array<string>"
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "part": pa.int32(),
        "version": pa.decimal128(9, 2),
        "offset": pa.int64(),
        "value": pa.list_(pa.string()),
    }
)

KEYS = st.tuples(st.sampled_from([None, "", "a", "B"]), st.sampled_from([None, 1]))
VERSIONS = st.none() | st.integers(-2, 2)
ROW = st.tuples(KEYS, VERSIONS, st.booleans())


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[dict[str, Any]], ...]:
    """What came, and what the table and the one of deleted keys have: one row per key at most.

    Offsets tell all rows apart, but where a table has the very row that comes.
    """
    sides = [draw(st.lists(ROW, min_size=least, max_size=14)) for least in (1, 0, 0)]
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
        "k": key[0], "part": key[1], "version": version, "offset": offset, "value": value, ENDS: ends,
    }  # fmt: skip


def by_spark(spark: Any, came: list[Any], table: list[Any], deleted: list[Any]) -> list[dict[str, Any]]:
    """As ``gold.upsert.outcome_in_spark`` tells it."""
    met = meeting(
        reduced_rows(spark, came),
        _frame(spark, table, TYPES),
        _frame(spark, deleted, TYPES),
        key=KEY,
        order=ORDER,
        keys=len(came),
    )
    found: list[dict[str, Any]] = outcome(met, COLUMNS, key=KEY, order=ORDER).toArrow().to_pylist()
    return found


def reduced_rows(spark: Any, came: list[Any]) -> Any:
    """What came as ``gold.upsert.outcome_in_spark`` reduces it."""
    rows = _frame(spark, came, f"{TYPES}, {ENDS} boolean, {GONE} boolean", ENDS, GONE)
    return reduced(rows, key=KEY, order=ORDER)


def _frame(spark: Any, rows: list[Any], types: str, *names: str) -> Any:
    return spark.createDataFrame(
        [tuple(each.get(name, False) for name in (*COLUMNS, *names)) for each in _exact(rows)], types
    )


def in_driver(came: list[Any], table: list[Any], deleted: list[Any]) -> list[dict[str, Any]]:
    """As the driver tells it."""
    rows = pa.Table.from_pylist(_exact(came), pa.schema([*SCHEMA, (ENDS, pa.bool_())]))
    return in_driver_of(rows, table, deleted)


def in_driver_of(rows: pa.Table, table: list[Any], deleted: list[Any]) -> list[dict[str, Any]]:
    """The same of rows that are there."""
    have = {
        IN_TABLE: pa.Table.from_pylist(_exact(table), SCHEMA),
        IN_DELETED: pa.Table.from_pylist(_exact(deleted), SCHEMA),
    }
    found: list[dict[str, Any]] = told(rows, have, COLUMNS, key=KEY, order=ORDER).to_pylist()
    return found


def _exact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Versions as decimals."""
    from decimal import Decimal

    return [
        {**each, "version": None if each["version"] is None else Decimal(each["version"])} for each in rows
    ]


def text(rows: list[dict[str, Any]]) -> list[str]:
    """Rows, in an order of their own."""
    return sorted(map(repr, rows))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=batches())
def test_the_driver_tells_what_spark_tells(spark: Any, batch: tuple[list[dict[str, Any]], ...]) -> None:
    """Every key's row and what is to be done with it, in the table and in the one of deleted keys."""
    by_executors = text(by_spark(spark, *batch))
    assert text(in_driver(*batch)) == by_executors
    came, table, deleted = batch
    again = newest(local(spark, reduced_rows(spark, came).toArrow()))
    assert again is not None
    assert text(in_driver_of(again, table, deleted)) == by_executors, "reduced by the executors"


def test_a_key_whose_row_has_left_is_sparks(spark: Any) -> None:
    """Whatever else there is: only the source knows which row it has now."""
    rows = [(*row, is_gone) for row, is_gone in ((("a", 1, 2, 5), True), (("a", 1, 1, 6), False))]
    types = f"k string, part int, version int, offset bigint, {GONE} boolean"
    frame = spark.createDataFrame(rows, types).withColumn(ENDS, F.lit(False))
    left = local(spark, reduced(frame, key=KEY, order=ORDER).toArrow())
    assert newest(left) is None
    assert newest(Settled(left.frame, 1)) is None


def test_a_table_of_no_deleted_keys() -> None:
    """Its rows are inserted, replaced by newer ones, and left alone by older ones."""
    came = [_row(("new", 1), 1, 1, ends=False), _row(("newer", 1), 2, 2, ends=False)]
    came.append(_row(("older", 1), 0, 3, ends=False))
    rows = pa.Table.from_pylist(_exact(came), pa.schema([*SCHEMA, (ENDS, pa.bool_())]))
    table = [_row((key, 1), 1, 0, ends=False) for key in ("newer", "older")]
    have = {IN_TABLE: pa.Table.from_pylist(_exact(table), SCHEMA)}
    found = told(rows, have, COLUMNS, key=KEY, order=ORDER)
    done = {row["k"]: (row[IN_TABLE], row[IN_DELETED], row["value"]) for row in found.to_pylist()}
    assert done == {
        "new": ("inserted", None, ["1", "1"]),
        "newer": ("updated", None, ["2", "2"]),
        "older": (None, None, ["0", "3"]),
    }


def test_what_spark_looks_after() -> None:
    """Rows that left, operations that nobody knows, and keys that the driver does not compare."""
    rows = pa.table({"k": ["a"], "o": [1], GONE: [False], STRAY: [False]})
    assert is_few(rows, ["k"], ["o"])
    assert is_few(rows.slice(0, 0), ["k"], ["o"])
    for mark in (GONE, STRAY):
        at = rows.column_names.index(mark)
        assert not is_few(rows.set_column(at, mark, pa.array([True])), ["k"], ["o"])
    assert not is_few(rows.set_column(0, "k", pa.array([1.0])), ["k"], ["o"])
