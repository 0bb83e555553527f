"""A row on which SQL throws is set aside by the column's name; the others, and the stream, go on."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Json, Rule
from silver.judge.reasons_and_verdict import judge_rows
from silver.read.column_names import META, REASONS
from silver.read.declared_columns import parse_values, select_expressions

COLUMNS = {
    "id": "id",
    "n": "cast(t as int)",
    "twice": "cast(t as int) + cast(t as int)",
    "share": "1 / d + get(a, 0)",
    "first": "a[0]",
    "later": "n * 9223372036854775807",
    "none": "cast(null as string)",
}
VALUES: list[tuple[bytes, str | None]] = [
    (b'{"id":"a","t":"1","d":2,"a":[1],"n":1}', None),
    (b'{"id":"b","t":"x","d":2,"a":[1],"n":1}', "n"),
    (b'{"id":"c","t":"2147483647","d":2,"a":[1],"n":1}', "twice"),
    (b'{"id":"d","t":"1","d":0,"a":[1],"n":1}', "share"),
    (b'{"id":"e","t":"1","d":2,"a":[],"n":1}', "first"),
    (b'{"id":"f","t":"1","d":2,"a":[1],"n":2}', "later"),
    (b"{}", None),
]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    """The values read and selected, in one task."""
    rows = [("t", 0, at, None, 0, None, b"k", value, None) for at, (value, _) in enumerate(VALUES)]
    rows.append(("t", 0, len(rows), None, 0, None, b"k", b"{", None))
    value = Json("id string, t string, d int, a array<int>, n bigint")
    bronze = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    return select_expressions(parse_values(bronze, value), COLUMNS, "silver.s", "")


def test_a_column_that_throws_faults_its_row_and_no_other(frame: Any) -> None:
    told = [tuple(row) for row in frame.select(f"{META}.fault", f"{META}.fault_field", "id").collect()]
    expected = [("column_failed" if name else None, name) for _, name in VALUES]
    assert [row[:2] for row in told] == [*expected, ("malformed_json", None)]
    rows = frame.where(F.col(f"{META}.fault").isNull()).drop(META).collect()
    nothing = (None,) * 7
    assert [tuple(row) for row in rows] == [("a", 1, 2, 1.5, 1, 9223372036854775807, None), nothing]


def test_a_window_of_no_time_is_null_and_its_row_stays(spark: Any) -> None:
    """Spark leaves such a row out, and every row that could not be read with it."""
    values = [b'{"id": "a", "t": "2026-03-01T12:34:56Z"}', b'{"id": "b"}', b"{", b'{"id": "d", "t": "x"}']
    rows = [("t", 0, at, None, 0, None, b"k", value, None) for at, value in enumerate(values)]
    columns = {
        "id": "id",
        "at": "try_to_timestamp(t)",
        "hour": "window(try_to_timestamp(t), '1 hour')",
        "day": "cast(window(try_to_timestamp(t), '1 hour').start as date)",
    }
    parsed = parse_values(spark.createDataFrame(rows, SCHEMA), Json("id string, t string"))
    selected = select_expressions(parsed, columns, "silver.s", "")
    assert selected.schema["hour"].dataType.simpleString() == "struct<start:timestamp,end:timestamp>"
    rule = Rule("of_the_hour", "window(at, '1 hour').start = hour.start")
    found = judge_rows(selected, key=["id"], event_time="at", max_future="1 hour", rules=[rule])
    place = F.col(f"{META}.offset").alias("place")
    told = found.select(place, "id", F.col("hour.start").cast("string"), "day", REASONS).orderBy("place")
    assert [tuple(row) for row in told.collect()] == [
        (0, "a", "2026-03-01 12:00:00", date(2026, 3, 1), []),
        (1, "b", None, None, ["null_event_time", "of_the_hour"]),
        (2, None, None, None, ["malformed_json"]),
        (3, "d", None, None, ["null_event_time", "of_the_hour"]),
    ]


def test_a_rule_that_throws_is_broken(frame: Any) -> None:
    rules = [Rule("by_number", "1 / (first - 1) > 0"), Rule("known", "id is not null")]
    times = frame.withColumn("at", F.timestamp_micros(F.lit(0)))
    found = judge_rows(times, key=["id"], event_time="at", max_future="1 hour", rules=rules)
    assert [row[0] for row in found.select(REASONS).collect()] == [
        ["by_number"],
        *[["column_failed"]] * 5,
        ["null_key", "by_number", "known"],
        ["malformed_json"],
    ]
