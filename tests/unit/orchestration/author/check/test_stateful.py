"""What is wrong with a table of rows that a processor emits, told before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from common.declare import Json, Pipeline, Reading, Silver, Stateful, Topic
from common.errors import PipelineError
from gold.query import marks_of, why_undefined
from orchestration.author.check.gold import gold_scopes
from orchestration.author.check.pipeline import check

SILVER = Silver(
    "readings",
    reads="bronze.readings",
    value=Json("id string, device string, at timestamp"),
    columns={"id": "id", "device": "device", "at": "at"},
    key=["id"],
    event_time="at",
    watermark="1 day",
)


class Nothing(StatefulProcessor):  # type: ignore[misc]
    """Emits nothing."""


class Beginning(Nothing):
    """Begins with a table."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Take a row."""


def stateful(**changed: Any) -> Stateful:
    given: dict[str, Any] = {
        "reads": "silver.readings",
        "key": ["device"],
        "processor": Nothing,
        "output": "device string, since timestamp",
    }
    return Stateful("silent", **given | changed)


def problems(silver: Silver = SILVER, **changed: Any) -> list[str]:
    declared = Pipeline("p", bronze=[Topic("readings")], silver=[silver], gold=[stateful(**changed)])
    return [f"{one.place}: {one.message}" for one in check(declared)]


def test_what_is_right_passes() -> None:
    timed = {"event_time": "at", "watermark": "1 minute", "timers": "event_time"}
    assert problems() == problems(mode="update", **timed) == problems(timers="processing_time") == []
    (scope,) = gold_scopes(stateful(), {}).values()
    assert [field.name for field in scope.fields or ()] == ["device", "since"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"key": ["devise"]},
            "gold.silent: key 'devise' is no column of silver.readings; did you mean 'device'?",
        ),
        (
            {"event_time": "at_"},
            "gold.silent: event_time 'at_' is no column of silver.readings; did you mean 'at'?",
        ),
        ({"where": "devise = 'a'"}, "gold.silent, where: silver.readings has no 'devise'"),
        ({"output": "device strng"}, "gold.silent, output: "),
        ({"mode": "update", "output": "since timestamp"}, "gold.silent: key 'device' is no column of output"),
    ],
)
def test_columns_that_there_are_not(changed: Any, text: str) -> None:
    assert [one for one in problems(**changed) if one.startswith(text)], problems(**changed)


def test_the_table_with_the_initial_state() -> None:
    """It is named by its path; of that nothing is known before the job starts."""
    assert problems(initial="/lake/former", processor=Beginning) == []
    declared = stateful(initial="/lake/former", processor=Beginning)
    assert marks_of(declared).keys() == {"reads", "key", "output", "initial"}


def test_a_source_that_replaces_rows() -> None:
    (told,) = problems(replace(SILVER, keep="newest", dedupe="exact"))
    assert "cannot take back a row that is replaced there; read a table that keeps the first row" in told


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"processor": print}, "give a class that extends pyspark"),
        ({"watermark": "1 minute"}, "watermark needs event_time"),
        ({"event_time": "at", "watermark": "0 seconds"}, "watermark is 0 seconds"),
        ({"timers": "event_time"}, "give event_time and watermark"),
        ({"reading": Reading(changes="feed")}, "cannot take a row back"),
        ({"initial": "silver.readings", "processor": Beginning}, "name a Delta table by its path or URI"),
        ({"initial": "/lake/former"}, "handleInitialState, which .* does not have; write it"),
    ],
)
def test_what_it_cannot_be_is_refused_where_it_is_declared(changed: Any, text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        stateful(**changed)


def test_what_its_rows_mean() -> None:
    """Another key, output, mode or time is another table; another class has no text."""
    assert marks_of(stateful()).keys() == {"reads", "key", "output"}
    assert marks_of(stateful(processor=Beginning)) == marks_of(stateful())
    assert marks_of(stateful(mode="update", event_time="at", timers="processing_time")).keys() == {
        "reads", "key", "output", "mode", "event_time", "timers"
    }  # fmt: skip
    assert why_undefined(stateful()) == "a processor of the pipeline emits its rows"
    assert stateful().reads_in_order
    assert stateful().keeps_state
