"""What differs between two frames, for values of every kind: no change is missed, and none is made up."""

from __future__ import annotations

from typing import Any

import pytest

from common.delta.changes import changes_between
from common.delta.delta_rs import ACTION

pytestmark = pytest.mark.long

VALUES = {
    "text": ("'a'", "'A'"),
    "absent": ("null", "1"),
    "number that is none": ("double('nan')", "0.5D"),
    "microseconds": ("timestamp'2026-11-01 10:00:00.000001'", "timestamp'2026-11-01 10:00:00.000002'"),
    "microseconds of a field": (
        "struct(timestamp'2026-11-01 10:00:00.000001' at)",
        "struct(timestamp'2026-11-01 10:00:00.000002' at)",
    ),
    "microseconds of an element": (
        "array(timestamp'2026-11-01 10:00:00.000001')",
        "array(timestamp'2026-11-01 10:00:00.000002')",
    ),
    "microseconds in a map": (
        "map('a', timestamp'2026-11-01 10:00:00.000001')",
        "map('a', timestamp'2026-11-01 10:00:00.000002')",
    ),
    "map": ("map('a', 1, 'b', 2)", "map('a', 1, 'b', 3)"),
    "map with a null": ("map('a', 1, 'b', null)", "map('a', 1)"),
    "map of maps": ("map('a', map(1, 1.5))", "map('a', map(1, 2.5))"),
    "maps in a list": ("array(map('a', 1), null)", "array(null, map('a', 1))"),
    "map in a field": ("struct(1 n, map('a', 1) m)", "struct(2 n, map('a', 1) m)"),
    "absent field": ("struct(1 n, map('a', 1) m)", "if(id < 0, struct(1 n, map('a', 1) m), null)"),
    "variant": ("parse_json('{\"a\": [1, 2]}')", "parse_json('{\"a\": [2, 1]}')"),
    "variant of another type": ("parse_json('\"1\"')", "parse_json('1')"),
    "variant without a value": ("parse_json('null')", "if(id < 0, parse_json('1'), null)"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_change_of_any_kind_is_found_and_no_equal_value_is_one(spark: Any, kind: str) -> None:
    one, other = VALUES[kind]
    before = spark.sql(f"select id, {one} v from range(3) union all select id, {other} from range(3, 4)")
    after = spark.sql(
        f"select id, {one} v from range(1) union all select id, {other} from range(1, 2)"
        f" union all select id, {one} from range(3, 5)"
    )
    found = {row.id: row[ACTION] for row in changes_between(before, after, ["id"]).collect()}
    assert found == {1: "updated", 2: "deleted", 3: "updated", 4: "inserted"}


def test_the_order_of_a_map_is_no_change(spark: Any) -> None:
    before = spark.sql("select 1 id, map('a', 1, 'b', null) v")
    after = spark.sql("select 1 id, map('b', null, 'a', 1) v")
    assert changes_between(before, after, ["id"]).collect() == []


def test_keys_may_be_null_and_columns_may_be_missing_before(spark: Any) -> None:
    before = spark.sql("select * from values (null, 1), (2, 1), (3, 1) t(id, gone)")
    after = spark.sql("select * from values (null, 'x'), (2, null), (4, null) t(id, more)")
    found = {row.id: row.asDict() for row in changes_between(before, after, ["id"]).collect()}
    assert found == {
        None: {"id": None, "more": "x", ACTION: "updated"},
        3: {"id": 3, "more": None, ACTION: "deleted"},
        4: {"id": 4, "more": None, ACTION: "inserted"},
    }
