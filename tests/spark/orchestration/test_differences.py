"""What an audit takes for a difference: nothing of a copy, the last digits of what was computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Aggregate, Pipeline, Session, Topic, Window
from gold.table.context import Context
from orchestration.records.audit.gold.compare import comparable, difference, open_rows
from orchestration.records.audit.gold.state import Excuse
from orchestration.records.audit.gold.touched import untouched
from tests.conftest import make_settings

pytestmark = pytest.mark.long

A_LITTLE = "2.5D * (1 + 1e-12D)"
TIME = "timestamp'2026-03-01 12:00:00.123456Z'"
LATER = "timestamp'2026-03-01 12:00:00.123457Z'"

DOCUMENT = "parse_json('[1]')"

CASES: list[tuple[str, str, bool, bool]] = [
    ("2.5D", A_LITTLE, False, False),
    ("2.5D", A_LITTLE, True, True),
    ("2.5D", "2.5D * (1 + 1e-6D)", True, False),
    ("double('NaN')", "double('NaN')", False, True),
    ("0.0D", "-0.0D", False, True),
    (f"map('a', {TIME})", f"map('a', {TIME})", False, True),
    (f"map('a', {TIME})", f"map('a', {LATER})", False, False),
    (
        f"map('a', cast({TIME} as timestamp_ntz))",
        f"map('a', cast({LATER} as timestamp_ntz))",
        False,
        False,
    ),
    (f"struct({TIME} as at, {DOCUMENT} as m)", f"struct({LATER} as at, {DOCUMENT} as m)", False, False),
    (
        f"to_variant_object(struct({TIME} as at))",
        f"to_variant_object(struct({LATER} as at))",
        False,
        False,
    ),
]
"""One value, another one, whether it is rounded, whether they are the same."""


def test_a_value_is_the_same_or_it_is_not(spark: Any) -> None:
    for one, other, is_rounded, is_same in CASES:
        have, want = (spark.sql(f"select 'k' as k, {sql} as Value") for sql in (one, other))
        columns = frozenset({"value"} if is_rounded else ())
        found = difference(have, want, key=["k"], rounded=columns)
        assert (found is None) == is_same, (one, other)
        if TIME in one:  # as silver's values are compared, where they are in a map or variant
            texts = [
                rows.select(comparable("Value", rows.schema["Value"].dataType, "map<", "variant")).collect()
                for rows in (have, want)
            ]
            assert (texts[0] == texts[1]) == is_same, (one, other)
        assert (open_rows(have, want, [want], [], rounded=columns) == 0) == is_same, (one, other)


def test_only_groups_of_rows_that_came_too_late_or_were_taken_away_are_left_out(
    spark: Any, tmp_path: Path
) -> None:
    """A row that was only written again touches no group, nor does one that the condition leaves out."""
    settings = make_settings(tmp_path, "none:1")
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")])
    context = Context(spark, pipeline, settings, Layout.of(pipeline, settings))
    path = context.path("silver.orders")
    rows = [("a", 1, True), ("a", 2, True), (None, 3, True), ("c", 4, True), ("d", 5, False)]
    spark.createDataFrame(rows, "k string, n int, counts boolean").coalesce(1).write.format("delta").save(
        path
    )
    DeltaTable(path).update({"n": "n + 1"}, predicate="n in (1, 5)")
    DeltaTable(path).delete("k is null")
    gold = Aggregate(
        "sums", reads="silver.orders", by={"name": "upper(k)"}, measures={"n": "sum(n)"}, where="counts"
    )
    groups = spark.createDataFrame([("A",), ("C",), ("D",), (None,)], "name string")
    rest = untouched(context, gold, Excuse("", {"silver.orders": (1, 2)}))
    assert rest is not None
    assert sorted(row.name for row in rest(groups).collect()) == ["C", "D"]
    hourly = replace(gold, window=Window("at", "1 hour"), mode="update", watermark="1 day")
    ends = spark.sql("select timestamp_millis(n) as window_end from values (1000), (1001) as t(n)")
    rest = untouched(context, hourly, Excuse("", {}, 1000))
    assert rest is not None
    assert [row.window_end.microsecond for row in rest(ends).collect()] == [1000]
    sessions = replace(hourly, window=Session("at", "1 hour"), mode="append")
    assert untouched(context, sessions, Excuse("", {}, 1000)) is None
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    assert untouched(context, gold, Excuse("", {"silver.orders": (1, 2)})) is None
