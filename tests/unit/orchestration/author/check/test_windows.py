"""What is known of windows before Spark starts: their column, and the names they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from common.declare import Aggregate, Json, Pipeline, Quality, Session, Silver, Topic, Window
from common.declare import Expect as Expectation
from common.errors import PipelineError
from orchestration.author.check.pipeline import check

ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp, day date"),
    columns={"id": "id", "ordered_at": "at", "day": "day"},
    key=["id"],
    event_time="ordered_at",
    watermark="1 day",
)


def aggregate(**changed: Any) -> Aggregate:
    given = {"by": ["day"], "measures": {"orders": "count(*)"}, "window": Window("ordered_at", "1 hour")}
    return Aggregate("hourly", reads="silver.orders", **given | changed)


def told(gold: Aggregate, *quality: Quality) -> list[str]:
    pipeline = Pipeline("p", bronze=[Topic("orders")], silver=[ORDERS], gold=[gold], quality=quality)
    return [f"{each.place}: {each.message}" for each in check(pipeline)]


@pytest.mark.parametrize(
    "window", [Window("ordered_at", "1 hour", "5 minutes"), Session("ORDERED_AT", "1 hour")]
)
@pytest.mark.parametrize("by", [None, ["day"]])
def test_windows_with_and_without_other_groups_are_right(
    window: Window | Session, by: list[str] | None
) -> None:
    assert told(aggregate(window=window, by=by)) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"window": Window("orderd_at", "1 hour")},
            "gold.hourly, window: on 'orderd_at' is no column of silver.orders; did you mean 'ordered_at'?",
        ),
        ({"window": Session("day", "1 hour")}, "gold.hourly, window: on 'day' is of type date; a window is"),
        (
            {"by": {"Window_Start": "day"}},
            "gold.hourly: column 'Window_Start' has the name of a column that the window gives the table",
        ),
        (
            {"measures": {"window_end": "max(ordered_at)"}},
            "gold.hourly: column 'window_end' has the name of a column that the window gives the table",
        ),
    ],
)
def test_a_windows_column_and_names_are_checked(changed: dict[str, Any], message: str) -> None:
    (found,) = told(aggregate(**changed))
    assert found.startswith(message)


LENGTH = "unix_timestamp(window_end) - unix_timestamp(window_start)"


@pytest.mark.parametrize("mode", ["complete", "recompute"])
@pytest.mark.parametrize("window", [Window("ordered_at", "1 hour"), Session("ordered_at", "30 minutes")])
def test_a_measure_may_name_the_bounds_of_its_window(window: Window | Session, mode: str) -> None:
    measures = {
        "rate": f"count(*) / ({LENGTH})",
        "last_day": "date(Window_End)",
        "both": "count(*) + year(`window_start`)",
    }
    assert told(aggregate(window=window, mode=mode, measures=measures)) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"measures": {"x": "count(*) + window_stat"}}, "did you mean 'window_start'?"),
        (
            {"measures": {"x": "count(*) / (unix_seconds(window_start) - unix_seconds(window_end))"}},
            "/ by 0 stops",
        ),
        ({"measures": {"x": "date(ordered_at)"}}, "has no aggregate"),
        ({"measures": {"x": "count(*) / (hour(window_end) - hour(window_start))"}}, "/ by 0 stops"),
        (
            {"measures": {"x": f"count(*) / ({LENGTH})"}, "window": Window("ordered_at", "0.5 seconds")},
            "/ by 0 stops the query",
        ),
        ({"measures": {"x": f"count(*) / ({LENGTH})"}, "window": None}, "has no 'window_end'"),
        (
            {"measures": {"x": "max(window_end)"}, "window": Session("ordered_at", "1 hour")},
            "'window_end' is inside of an aggregate, where it is a bound of one row's session",
        ),
    ],
)
def test_bounds_that_are_wrong_in_a_measure_are_told(changed: dict[str, Any], message: str) -> None:
    assert message in told(aggregate(**changed))[0]


def test_without_a_window_its_names_are_free() -> None:
    assert told(aggregate(window=None, measures={"window_end": "max(ordered_at)"})) == []


def test_a_windows_columns_are_the_tables() -> None:
    def suite(column: str) -> Quality:
        return Quality(
            "gold.hourly", [Expectation("expect_column_values_to_not_be_null", {"column": column})]
        )

    assert told(aggregate(), suite("window_start"), suite("window_end")) == []
    assert told(aggregate(window=None), suite("window_start")) != []


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Window("at", "5 minutes", "301 seconds"),
            "slide '301 seconds' is longer than size '5 minutes'",
        ),
        (lambda: Window("at", "0 days"), "size and slide must be longer than 0 seconds"),
        (lambda: Window("at", "1 week", "0.0 seconds"), "size and slide must be longer than 0 seconds"),
        (
            lambda: Window("at", "1 week", "1 second"),
            "a row would belong to 604,800 windows of 1 week that start",
        ),
        (
            lambda: Window("at", "1 week", offset="-7 days"),
            "offset '-7 days' must be shorter than slide '1 week'",
        ),
        (lambda: Window("at", "0.0000009 seconds"), "size and slide must be longer than 0"),
        (lambda: Session("at", "0.0000009 seconds"), "gap must be longer than 0 seconds, by a microsecond"),
        (lambda: Session("at", "0 hours"), "gap must be longer than 0 seconds"),
    ],
)
def test_windows_that_cannot_be_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        build()
    assert refused.value.problems[0].message.startswith(message)
    assert Window("at", "1 week", "7 days").slide == "7 days"
