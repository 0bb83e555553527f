"""Every reason against a row, found in one pass; unknown is not good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.declare import Rule
from common.errors import PipelineError
from silver.rules import REASONS, check_rules, judged

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = """_kafka struct<timestamp: timestamp, ingested_at: timestamp, fault: string>,
    case string, id string, part int,
    at timestamp, amount double"""
RULES = [Rule("amount_positive", "amount > 0"), Rule("amount_small", "amount < 100"), Rule("never", "false")]

CASES: dict[str, tuple[tuple[Any, ...], list[str]]] = {
    "good": (("a", 1, NOON, 5.0), []),
    "a rule is false": (("a", 1, NOON, 500.0), ["amount_small"]),
    "a rule is null": (("a", 1, NOON, None), ["amount_positive", "amount_small"]),
    "a key column is null": (("a", None, NOON, 5.0), ["null_key"]),
    "no event time": (("a", 1, None, 5.0), ["null_event_time"]),
    "at the bound": (("a", 1, NOON + timedelta(hours=1), 5.0), []),
    "beyond the bound": (("a", 1, NOON + timedelta(hours=1, microseconds=1), 5.0), ["future_event_time"]),
    "long ago": (("a", 1, datetime(1970, 1, 1, tzinfo=UTC), 5.0), []),
    "several": ((None, 1, datetime(9999, 1, 1, tzinfo=UTC), -1.0), ["null_key", "future_event_time"]),
    "all": ((None, None, None, None), ["null_key", "null_event_time", "amount_positive", "amount_small"]),
}
CASES["several"][1].append("amount_positive")


def judge(spark: Any, rows: Sequence[tuple[Any, ...]], rules: Sequence[Rule]) -> dict[str, list[str]]:
    """Reasons by case."""
    frame = judged(
        spark.createDataFrame(rows, SCHEMA),
        key=["id", "part"],
        event_time="at",
        max_future="1 hour",
        rules=rules,
    )
    return {row["case"]: row[REASONS] for row in frame.collect()}


def test_every_broken_rule_is_a_reason_and_a_good_row_has_none(spark: Any) -> None:
    rows = [((NOON, NOON, None), name, *values) for name, (values, _) in CASES.items()]
    found = judge(spark, rows, RULES[:2])
    assert found == {name: reasons for name, (_, reasons) in CASES.items()}


def test_what_could_not_be_parsed_has_its_fault_as_the_only_reason(spark: Any) -> None:
    rows = [
        ((NOON, NOON, "malformed_json"), "faulty", None, None, None, None),
        ((NOON, NOON, None), "fine", "a", 1, NOON, 1.0),
    ]
    assert judge(spark, rows, RULES) == {"faulty": ["malformed_json"], "fine": ["never"]}


def test_the_future_begins_after_the_earlier_of_kafkas_clock_and_ours(spark: Any) -> None:
    """A producer whose clock is wrong cannot vouch for its own events."""
    later, event = NOON + timedelta(days=1), NOON + timedelta(hours=2)
    rows = [
        ((later, NOON, None), "its clock is ahead", "a", 1, event, 1.0),
        ((NOON, later, None), "read a day after", "a", 1, event, 1.0),
        ((later, later, None), "both are later", "a", 1, event, 1.0),
    ]
    assert judge(spark, rows, []) == {
        "its clock is ahead": ["future_event_time"],
        "read a day after": ["future_event_time"],
        "both are later": [],
    }


def test_every_rule_that_is_no_condition_over_the_columns_is_told_by_its_name(spark: Any) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    rules = [*RULES, Rule("typo", "amout > 1"), Rule("cut_off", "amount +"), Rule("no_condition", "id")]
    with pytest.raises(PipelineError) as refused:
        check_rules(frame, rules, "silver.orders")
    told = refused.value.problems
    assert [each.place for each in told] == [
        f"silver.orders, rule {name!r}" for name in ("typo", "cut_off", "no_condition")
    ]
    assert "`amount`" in told[0].message
    assert "is a string, not a boolean" in told[2].message
    assert all("test_rules.py:" in each.source for each in told)
