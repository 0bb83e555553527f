"""Groups and measures by SQL: null is a group, an unknown condition leaves out, a misfit is told by name."""

from __future__ import annotations

from typing import Any

import pytest

from common.declare import Aggregate
from common.errors import PipelineError
from gold.aggregate.stateful import grouped

ROWS = [("de", 1, 10.0), ("de", 2, 20.0), (None, 3, 5.0), (None, 4, None), ("fr", 5, -1.0), ("fr", 6, None)]
COUNT = {"orders": "count(*)"}


def rows(spark: Any, **declared: Any) -> set[tuple[Any, ...]]:
    """The aggregate's rows."""
    frame = spark.createDataFrame(ROWS, "country string, n int, amount double")
    gold = Aggregate("by_country", reads="silver.orders", **declared)
    return {tuple(row) for row in grouped(frame, gold).collect()}


def test_null_is_a_group_of_its_own(spark: Any) -> None:
    measures = {**COUNT, "total": "sum(amount)", "largest_n": "max(n)"}
    assert rows(spark, by=["country"], measures=measures) == {
        ("de", 2, 30.0, 2),
        (None, 2, 5.0, 4),
        ("fr", 2, -1.0, 6),
    }


def test_groups_may_be_expressions_and_a_null_condition_leaves_out(spark: Any) -> None:
    by = {"is_german": "country <=> 'de'", "parity": "n % 2"}
    assert rows(spark, by=by, measures=COUNT, where="amount > 0") == {
        (True, 1, 1),
        (True, 0, 1),
        (False, 1, 1),
    }


def test_no_expression_leaks_into_the_next_one(spark: Any) -> None:
    assert rows(spark, by={"low": "n < 3 or n > 5"}, measures={"one_in": "count_if(n = 1 or n = 6)"}) == {
        (True, 2),
        (False, 0),
    }


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        ({"by": {"c": "no_such"}, "measures": COUNT}, "by 'c'"),
        ({"by": ["country"], "measures": {**COUNT, "m": "sum(no_such)"}}, "measure 'm'"),
        ({"by": ["country"], "measures": {**COUNT, "m": "sum(country + true)"}}, "measure 'm'"),
        ({"by": ["country"], "measures": COUNT, "where": "no_such > 1"}, "where"),
    ],
)
def test_the_expression_that_does_not_fit_is_told_by_its_name(
    spark: Any, declared: dict[str, Any], place: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        rows(spark, **declared)
    assert [problem.place for problem in refused.value.problems] == [f"gold.by_country, {place}"]
