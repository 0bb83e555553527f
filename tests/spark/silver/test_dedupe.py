"""Two rows have one key text exactly when their keys are equal."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from common.errors import PipelineError
from silver.judge.dedupe import check_types, key_text

T = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TEXTS = ["", "a", "b", "a,b", "b,c", 'a","b', "\\", '"', "null", "a\u0000", "Ł", "[", "]", "a\n", None]


def texts(spark: Any, rows: list[tuple[Any, ...]], schema: str, key: list[str]) -> list[str]:
    """Key texts of rows, in their order."""
    frame = spark.createDataFrame([(at, *row) for at, row in enumerate(rows)], f"__at int, {schema}")
    found = frame.select("__at", key_text(frame, key).alias("text")).collect()
    return [row["text"] for row in sorted(found, key=lambda row: row["__at"])]


def test_no_two_pairs_of_texts_run_into_one(spark: Any) -> None:
    pairs = list(itertools.product(TEXTS, TEXTS))
    found = texts(spark, pairs, "a string, b string", ["a", "b"])
    assert len(set(found)) == len(pairs)
    assert texts(spark, [("a", "b,c"), ("a,b", "c"), ("a", "b,c")], "a string, b string", ["a", "b"]) == [
        '["a","b,c"]',
        '["a,b","c"]',
        '["a","b,c"]',
    ]


def test_every_type_tells_its_nearest_values_apart(spark: Any) -> None:
    rows = [
        (T, date(2026, 3, 1), Decimal("1.10"), 1.0, b"\x00", 2**62, True),
        (
            T.replace(microsecond=123457),
            date(2026, 3, 2),
            Decimal("1.11"),
            1.0000000000000002,
            b"",
            2**62 + 1,
            False,
        ),
    ]
    names = ["t", "d", "c", "f", "b", "l", "o"]
    schema = "t timestamp, d date, c decimal(10,2), f double, b binary, l bigint, o boolean"
    frame = spark.createDataFrame(rows, schema)
    columns = [key_text(frame, [name]).alias(name) for name in names]
    one, other = frame.select(*columns).collect()
    assert [name for name in names if one[name] == other[name]] == []
    assert one["b"] == '["00"]'


def test_a_negative_zero_is_the_zero_that_it_equals(spark: Any) -> None:
    assert texts(spark, [(0.0,), (-0.0,), (0.5,)], "f double", ["f"]) == ['["0.0"]', '["0.0"]', '["0.5"]']
    assert texts(spark, [(-0.0,), (1.1,)], "f float", ["f"]) == ['["0.0"]', '["1.1"]']


def test_binary_that_is_no_text_is_told_apart(spark: Any) -> None:
    found = texts(spark, [(b"\xff",), (b"\xfe",), (b"\xef\xbf\xbd",)], "b binary", ["b"])
    assert found == ['["FF"]', '["FE"]', '["EFBFBD"]']


def test_a_key_of_many_values_and_an_event_time_that_is_none_are_refused_together(spark: Any) -> None:
    frame = spark.createDataFrame([], "id string, tags array<string>, at string, m map<string,int>")
    with pytest.raises(PipelineError) as refused:
        check_types(
            frame, key=["id", "tags", "m"], times={"event_time": "at"}, place="silver.orders", source="p.py:3"
        )
    assert [problem.place for problem in refused.value.problems] == [
        "silver.orders, key 'tags'",
        "silver.orders, key 'm'",
        "silver.orders, event_time 'at'",
    ]
    assert "array<string>" in str(refused.value)
    assert "try_to_timestamp" in str(refused.value)


def test_a_key_or_event_time_that_the_columns_function_does_not_make_is_told_by_name(spark: Any) -> None:
    frame = spark.createDataFrame([], "order_id string, ordered_at timestamp")
    with pytest.raises(PipelineError) as refused:
        check_types(frame, key=["id"], times={"event_time": "at"}, place="silver.orders", source="p.py:3")
    told = str(refused.value)
    assert "silver.orders, key 'id': is no column" in told
    assert "silver.orders, event_time 'at': is no column" in told
