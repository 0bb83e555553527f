"""Functions for silver's columns whose text shows that they do not give one row per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.functions import explode_outer as exploded

from common.declare import Json, Pipeline, Silver, Topic
from orchestration.author.check.pipeline import check


def by_module(frame: Any) -> Any:
    return frame.select("_kafka", F.explode("tags"))


def by_name(frame: Any) -> Any:
    return frame.withColumn("tag", exploded("tags"))


def imported_inside(frame: Any) -> Any:
    from pyspark.sql import functions as functions_of_spark

    return frame.withColumn("tag", functions_of_spark.posexplode("tags"))


def by_sql(frame: Any) -> Any:
    return frame.selectExpr("_kafka", "id", "inline(items) as (a, b)").withColumn(
        "n", F.expr("stack(2, 1, 2)")
    )


def of_frames(frame: Any) -> Any:
    return frame.dropDuplicates(["id"]).limit(5)


def fine(frame: Any) -> Any:
    """No explode() here: explode is a word of the text alone."""
    odd = F.array_distinct("tags")
    return frame.withColumn("tags", F.transform(odd, F.upper)).drop("explode")


WRONG: dict[Callable[[Any], Any], list[str]] = {
    by_module: ["explode"],
    by_name: ["explode_outer"],
    imported_inside: ["posexplode"],
    by_sql: ["inline", "stack"],
    of_frames: ["dropDuplicates", "limit"],
    fine: [],
}


@pytest.mark.parametrize("function", WRONG)
def test_calls_that_change_the_number_of_rows_are_named_with_their_place(
    function: Callable[[Any], Any],
) -> None:
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id string, at timestamp, tags array<string>"),
        columns=function,
        key=["id"],
        event_time="at",
        watermark="1 day",
    )
    told = check(Pipeline("p", bronze=[Topic("orders")], silver=[silver]))
    assert {problem.place for problem in told} <= {"silver.orders, columns"}
    assert [problem.message.split("it calls ")[1].split("(")[0] for problem in told] == WRONG[function]
