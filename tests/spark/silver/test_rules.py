"""Every reason against a row, found in one pass; unknown is not good."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Avro, Json, Lookup, Protobuf, Rule, Silver
from common.errors import PipelineError
from silver.judge.reasons_and_verdict import check_rules, judge_rows, rule_marks, rules_version
from silver.query import rule_change_notice
from silver.read.column_names import REASONS, VERDICT, WARNED

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = """_kafka struct<timestamp: timestamp, ingested_at: timestamp, fault: string, value: binary>,
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
    frame = judge_rows(
        spark.createDataFrame(rows, SCHEMA),
        key=["id", "part"],
        event_time="at",
        max_future="1 hour",
        rules=rules,
    )
    return {row["case"]: row[REASONS] for row in frame.collect()}


def test_every_broken_rule_is_a_reason_and_a_good_row_has_none(spark: Any) -> None:
    rows = [((NOON, NOON, None, b"{}"), name, *values) for name, (values, _) in CASES.items()]
    found = judge(spark, rows, RULES[:2])
    assert found == {name: reasons for name, (_, reasons) in CASES.items()}


def test_what_could_not_be_parsed_has_its_fault_as_the_only_reason(spark: Any) -> None:
    rows = [
        ((NOON, NOON, "malformed_json", b"{"), "faulty", None, None, None, None),
        ((NOON, NOON, None, b"{}"), "fine", "a", 1, NOON, 1.0),
    ]
    assert judge(spark, rows, RULES) == {"faulty": ["malformed_json"], "fine": ["never"]}


def test_old_events_in_a_new_topic_are_bounded_by_a_column(spark: Any) -> None:
    """Kafka's timestamp is years after the events of a replay, and rejects no wrong clock among them."""
    server = datetime(2018, 5, 1, 12, tzinfo=UTC)
    schema = f"{SCHEMA}, at_server timestamp"
    rows = [
        ((NOON, NOON, None, b"{}"), "right clock", "a", 1, server + timedelta(minutes=59), 1.0, server),
        ((NOON, NOON, None, b"{}"), "wrong clock", "a", 1, server + timedelta(minutes=61), 1.0, server),
        ((NOON, NOON, None, b"{}"), "no server time", "a", 1, NOON, 1.0, None),
        ((NOON, NOON, None, b"{}"), "later than Kafka", "a", 1, NOON + timedelta(hours=2), 1.0, None),
        (
            (NOON, NOON, None, b"{}"),
            "wrong server",
            "a",
            1,
            NOON + timedelta(hours=2),
            1.0,
            NOON + timedelta(days=9),
        ),
    ]
    frame = judge_rows(
        spark.createDataFrame(rows, schema),
        key=["id", "part"],
        event_time="at",
        max_future="1 hour",
        rules=[],
        max_future_after="at_server",
    )
    late = ["future_event_time"]
    assert {row["case"]: row[REASONS] for row in frame.collect()} == {
        "right clock": [],
        "wrong clock": late,
        "no server time": [],
        "later than Kafka": late,
        "wrong server": late,
    }


def test_the_future_begins_after_the_earlier_of_kafkas_clock_and_ours(spark: Any) -> None:
    """A producer whose clock is wrong cannot vouch for its own events."""
    later, event = NOON + timedelta(days=1), NOON + timedelta(hours=2)
    rows = [
        ((later, NOON, None, b"{}"), "its clock is ahead", "a", 1, event, 1.0),
        ((NOON, later, None, b"{}"), "read a day after", "a", 1, event, 1.0),
        ((later, later, None, b"{}"), "both are later", "a", 1, event, 1.0),
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


VERBS = [
    Rule("sets_aside", "part <> 1", on_fail="quarantine"),
    Rule("stops", "part <> 2 and id <> 'stop'", on_fail="fail"),
    Rule("leaves_out", "amount <> 0", on_fail="drop"),
    Rule("leaves_out_too", "amount < 100", on_fail="drop"),
    Rule("warns", "id <> 'odd'", on_fail="warn"),
]
VERDICTS: dict[str, tuple[tuple[Any, ...], str, list[str], list[str]]] = {
    "good": (("a", 0, NOON, 5.0), "accept", [], []),
    "only warned": (("odd", 0, NOON, 5.0), "accept", [], ["warns"]),
    "set aside": (("odd", 1, NOON, 5.0), "quarantine", ["sets_aside"], ["warns"]),
    "left out": (("a", 0, NOON, 0.0), "drop", ["leaves_out"], []),
    "left out twice": (("odd", 0, NOON, None), "drop", ["leaves_out", "leaves_out_too"], ["warns"]),
    "set aside before left out": (("a", 1, NOON, 0.0), "quarantine", ["sets_aside", "leaves_out"], []),
    "no event time before left out": (
        ("a", 0, None, 0.0),
        "quarantine",
        ["null_event_time", "leaves_out"],
        [],
    ),
    "stopped": (("a", 2, NOON, 5.0), "fail", ["stops"], []),
    "stopped before all": (
        (*("stop", 1, None), 0.0),
        "fail",
        ["null_event_time", "sets_aside", "stops", "leaves_out"],
        [],
    ),
    "unknown is not good": (
        (None, None, NOON, 5.0),
        "fail",
        ["null_key", "sets_aside", "stops"],
        ["warns"],
    ),
}


def test_the_gravest_verb_decides_and_every_reason_stays(spark: Any) -> None:
    """First fail, then quarantine, then drop; an unreadable value and a tombstone break no rule."""
    rows = [((NOON, NOON, None, b"{}"), name, *case[0]) for name, case in VERDICTS.items()]
    rows += [
        ((NOON, NOON, "not_utf8", b"{"), "unreadable", None, None, None, None),
        ((NOON, NOON, None, None), "tombstone", None, None, None, None),
    ]
    frame = spark.createDataFrame(rows, SCHEMA)
    found = judge_rows(frame, key=["id", "part"], event_time="at", max_future="1 hour", rules=VERBS).collect()
    assert {row["case"]: (row[VERDICT], row[REASONS], row[WARNED]) for row in found} == {
        **{name: tuple(case[1:]) for name, case in VERDICTS.items()},
        "unreadable": ("quarantine", ["not_utf8"], []),
        "tombstone": ("tombstone", [], []),
    }


def test_a_tombstone_that_is_kept_has_a_key_and_a_time_and_is_asked_no_rule(spark: Any) -> None:
    rows = [
        ((NOON, NOON, None, None), "by its record", "a", 1, NOON, None),
        ((NOON, NOON, None, None), "of no key", None, 1, NOON, None),
        ((NOON, NOON, None, b"{}"), "a value", "a", 1, NOON, 5.0),
    ]
    frame = spark.createDataFrame(rows, SCHEMA)
    found = judge_rows(
        frame, key=["id", "part"], event_time="at", max_future="1 hour", rules=VERBS, keep_tombstones=True
    ).collect()
    told = {row["case"]: (row[VERDICT], row[REASONS]) for row in found}
    assert told["by its record"] == ("accept", [])
    assert told["of no key"] == ("quarantine", ["null_key"])


def test_a_rule_version_names_what_decides_a_rows_fate_and_nothing_else(tmp_path: Path) -> None:
    """A file counts by what is in it, not by its name alone."""
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id string, at timestamp"),
        columns={"order_id": "id", "at": "at"},
        key=["order_id"],
        event_time="at",
        watermark="1 hour",
        rules=[Rule("known", "order_id like 'o%'")],
    )
    first = rules_version(silver)
    assert re.fullmatch("[0-9a-f]{12}", first)
    same = replace(silver, name="other", watermark="2 hours", late="keep", unknown_fields="rescue")
    assert rules_version(same) == first
    changed = [
        replace(silver, value=Json("id string, at timestamp", strict=False)),
        replace(silver, value=Json("id string, at timestamp", framing="registry")),
        replace(silver, columns={"order_id": "upper(id)", "at": "at"}),
        replace(silver, columns={"at": "at", "order_id": "id"}, key=["order_id", "at"]),
        replace(silver, max_future="2 hours"),
        replace(silver, max_future_after="at_server"),
        replace(silver, rules=[Rule("known", "order_id like 'o%'", on_fail="drop")]),
        replace(silver, rules=[]),
        replace(silver, where="id like 'o%'"),
        replace(silver, lookups=[Lookup("kinds", "gold.kinds", on={"kind": "order_id"})]),
    ]
    (tmp_path / "a.json").write_text("{}")
    by_file = replace(silver, value=Json(str(tmp_path / "a.json")))
    changed.append(by_file)
    versions = [rules_version(each) for each in changed]
    (tmp_path / "a.json").write_text("[]")
    assert len({first, *versions, rules_version(by_file)}) == len(changed) + 2


@pytest.mark.parametrize("name", ["a.avsc", "a.desc", "a.binpb"])
def test_a_changed_file_of_a_schema_changes_the_rules_and_is_told(tmp_path: Path, name: str) -> None:
    """Descriptors are bytes that are no text."""
    schema = str(tmp_path / name)
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Avro(schema) if name == "a.avsc" else Protobuf(schema, "shop.Order"),
        columns={"order_id": "id", "at": "at"},
        key=["order_id"],
        event_time="at",
        watermark="1 hour",
    )
    (tmp_path / name).write_bytes(b"{}" if name == "a.avsc" else b"\xff\1")
    first, last = rules_version(silver), {"batch_id": 7, "judged_by": dict(rule_marks(silver))}
    assert rule_change_notice(silver, last) is None
    (tmp_path / name).write_bytes(b"[]" if name == "a.avsc" else b"\xff\2")
    assert rules_version(silver) != first
    assert "value has changed since micro-batch 7" in (rule_change_notice(silver, last) or "")


def test_what_has_changed_of_the_rules_is_named() -> None:
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id string, at timestamp"),
        columns={"order_id": "id", "at": "at"},
        key=["order_id"],
        event_time="at",
        watermark="1 hour",
        rules=[Rule("known", "order_id like 'o%'"), Rule("short", "length(order_id) < 9")],
    )
    rules = [Rule("known", "order_id like 'O%'"), Rule("long", "length(order_id) > 2")]
    changed = replace(silver, rules=rules, max_future="2 hours", watermark="2 hours")
    last = {"batch_id": 7, "judged_by": dict(rule_marks(silver))}
    notice = rule_change_notice(changed, last)
    assert notice is not None
    assert notice.startswith(
        "silver.orders: max_future has changed, rule 'known' has changed, rule 'long' is new, "
        "rule 'short' is gone since micro-batch 7. "
    )
    assert rule_change_notice(replace(silver, name="other", watermark="2 hours"), last) is None
    assert rule_change_notice(changed, {"batch_id": 7}) is None


def test_a_new_condition_where_is_named_and_what_it_left_out_before_too() -> None:
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id string, at timestamp"),
        columns={"order_id": "id", "at": "at"},
        key=["order_id"],
        event_time="at",
        watermark="1 hour",
    )
    before, after = replace(silver, where="id like 'o%'"), replace(silver, where="id like 'O%'")

    def notice(old: Silver, new: Silver) -> str:
        return rule_change_notice(new, {"batch_id": 7, "judged_by": dict(rule_marks(old))}) or ""

    assert notice(silver, before).startswith("silver.orders: where is new since micro-batch 7. ")
    assert notice(before, after).startswith("silver.orders: where has changed since micro-batch 7. ")
    assert notice(before, silver).startswith("silver.orders: where is gone since micro-batch 7. ")
    assert "Records that the former condition left out are not read again" in notice(before, after)
    assert notice(after, after) == ""
