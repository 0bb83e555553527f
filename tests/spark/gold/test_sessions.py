"""Which sessions a changed row concerns: those within a gap of it, and the edges of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER
from common.rows.spark_rows import SparkRows
from gold.aggregate.sessions import HIGH, LOW, linked, may_link, reach, spans, touched_sessions
from tests.conftest import IN_DRIVER

pytestmark = pytest.mark.long

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GAP = "10 minutes"
BY = ("k",)


def at(minutes: float) -> datetime:
    """A time, by its minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def minutes(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Rows, their times in minutes after noon."""
    noon = int(NOON.timestamp()) * 1_000_000
    kinds = dict(frame.dtypes)
    plain = [(F.unix_micros(c) - noon) / 60_000_000 if kinds[c] == "timestamp" else F.col(c) for c in columns]
    return sorted((tuple(row) for row in frame.select(*plain).collect()), key=repr)


def touched(spark: Any, *times: tuple[str | None, float]) -> Any:
    """Changed rows."""
    return spark.createDataFrame([(k, at(t)) for k, t in times], "k string, window_start timestamp")


def table(spark: Any, *sessions: tuple[str | None, float, float]) -> Any:
    """Sessions from their first row to their last."""
    rows = [(k, at(first), at(last + 10), 1) for k, first, last in sessions]
    return spark.createDataFrame(rows, "k string, window_start timestamp, window_end timestamp, n int")


def test_changed_rows_close_to_each_other_are_one_span(spark: Any) -> None:
    found = spans(touched(spark, ("a", 0), ("a", 9), ("a", 40), ("b", 5), (None, 1), (None, 2)), BY, GAP)
    assert minutes(found, "k", LOW, HIGH) == [
        ("a", 0.0, 9.0),
        ("a", 40.0, 40.0),
        ("b", 5.0, 5.0),
        (None, 1.0, 2.0),
    ]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (20, []),
        (9.9, [-5.0]),
        (10, [-5.0]),  # a gap after the last row at 0: still one session
        (10.1, []),
        (29.9, []),
        (30, [40.0]),
        (34.9, [40.0]),
        (45, [40.0]),
        (60, [40.0]),
        (60.1, []),
    ],
)
def test_sessions_within_a_gap_are_linked(spark: Any, time: float, expected: list[float]) -> None:
    """Of its own group only, whichever way."""
    there = table(spark, ("a", -5, 0), ("a", 40, 50), ("b", -100, 100), (None, -100, 100))
    with SparkRows(spans(touched(spark, ("a", time)), BY, GAP), None, IN_DRIVER).kept() as changed:
        found = linked(there.where(may_link(changed, GAP)), changed, BY, GAP)
        assert [row[1] for row in minutes(found, "k", "window_start")] == expected
        time_ranges = minutes(reach(changed.frame, found, BY, GAP), LOW, HIGH)
    ends = {-5.0: 0.0, 40.0: 50.0}
    assert time_ranges == sorted(
        [(float(time), float(time)), *((low, ends[low]) for low in expected)], key=repr
    )


def test_a_row_between_two_sessions_concerns_both_and_what_they_become(spark: Any) -> None:
    there = table(spark, ("a", 0, 0), ("a", 15, 20), (None, 7, 7))
    result = table(spark, ("a", 0, 20))
    with SparkRows(spans(touched(spark, ("a", 8), (None, 7)), BY, GAP), None, NO_DRIVER).kept() as changed:
        sessions = touched_sessions(linked(there, changed, BY, GAP), result, BY)
        all_of_them = minutes(sessions, "k", "window_start")
    assert all_of_them == [
        ("a", 0.0),
        ("a", 15.0),
        (None, 7.0),
    ]


def test_without_groups_all_rows_are_one(spark: Any) -> None:
    with SparkRows(
        spans(touched(spark, ("a", 0), ("b", 5), ("c", 30)), (), GAP), None, NO_DRIVER
    ).kept() as changed:
        assert minutes(changed.frame, LOW, HIGH) == [(0.0, 5.0), (30.0, 30.0)]
        assert minutes(linked(table(spark, ("a", -9, -8)), changed, (), GAP), "window_start") == [(-9.0,)]
