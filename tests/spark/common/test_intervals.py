"""Texts of intervals: which ones declarations and settings take, and how long they are."""

from __future__ import annotations

import pytest

from common.declare.intervals import length_of, parse_duration, parse_interval


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0 seconds", 0),
        ("1.001 seconds", 1_001),
        ("1 second", 1_000),
        (" 10  minutes ", 600_000),
        ("2 hours", 7_200_000),
        ("7 days", 604_800_000),
        ("1 week", 604_800_000),
        ("-5 minutes", -300_000),
        ("- 5 minutes", -300_000),
    ],
)
def test_an_interval_has_a_length(text: str, milliseconds: int) -> None:
    assert length_of(text).milliseconds == milliseconds
    assert length_of(text).seconds == milliseconds / 1_000


@pytest.mark.parametrize(
    "text", ["", "5", "5minutes", "5 s", "500 ms", "5 milliseconds", "1.5 minutes", "1 month", "-1 day"]
)
def test_a_declaration_refuses_other_texts(text: str) -> None:
    assert parse_interval(text) is None


@pytest.mark.parametrize(
    ("text", "spark"),
    [("2s", "2 seconds"), ("1.5s", "1.5 seconds"), ("500 ms", "500 milliseconds"), ("1hour", "1 hour")],
)
def test_a_duration_of_a_setting_becomes_what_spark_reads(text: str, spark: str) -> None:
    assert str(parse_duration(text)) == spark


@pytest.mark.parametrize("text", ["", "5", "1.5ms", "1.5 minutes", "1 month", "-1 second", "2 S"])
def test_a_setting_refuses_other_texts(text: str) -> None:
    assert parse_duration(text) is None
