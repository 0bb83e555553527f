"""Mistakes of sources with typed columns, and of the columns that silver reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.declare import Bytes, Columns, DeltaTable, Files, Json, Pipeline, Silver, Stream, Topic
from common.declare.declared import copy_with
from common.errors import PipelineError
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import check


def silver(**changes: Any) -> Silver:
    """Orders of the table."""
    given: dict[str, Any] = {
        "name": "orders",
        "reads": "bronze.history",
        "value": Columns("id bigint, customer string, at timestamp"),
        "columns": ["id", "at"],
        "key": ["id"],
        "event_time": "at",
        "watermark": "1 day",
    }
    return Silver(**given | changes)


def problems(bronze: Any, table: Silver) -> list[str]:
    """What a check finds, each with its place."""
    found = check(Pipeline(name="shop", bronze=[bronze], silver=[table]))
    return [f"{one.place}: {one.message}" for one in found]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingVersion": 3}, "did you mean 'starting_version'"),
        ({"changes": "append"}, "'appends'"),
        ({"starting_version": -1}, "versions begin at 0"),
        ({"starting_version": 1, "starting_timestamp": "2026-01-01"}, "a start is chosen one way"),
        ({"starting_timestamp": "yesterday"}, "is no time such as"),
        ({"max_files_per_trigger": 0}, "at least 1"),
        ({"max_bytes_per_trigger": "many"}, "write it like '512m'"),
        ({"trigger": "follow"}, "has no table to follow"),
        ({"event_time_order": " "}, "name the column of event time"),
        ({"event_time_order": True}, "event_time_order: name the source's column of event time"),
        ({"event_time_order": "at", "starting_version": 1}, "keep one"),
        ({"withEventTimeOrder": True}, 'event_time_order="…"'),
        ({"keep": "0 days"}, "keeps nothing"),
        ({"path": " "}, "path is empty"),
    ],
)
def test_a_wrong_attribute_is_named_with_the_right_one(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PipelineError) as raised:
        DeltaTable(**{"name": "history", "path": "/lake/orders"} | given)
    assert text in str(raised.value)


def test_columns_are_checked_by_the_declared_types() -> None:
    table = DeltaTable("history", "/lake/orders")
    assert problems(table, silver()) == []
    assert problems(table, silver(value=Columns(), columns=["id", "anything", "at"])) == []
    (found,) = problems(table, silver(columns={"id": "id", "c": "custmer", "at": "at"}))
    assert "custmer" in found
    assert "did you mean 'customer'?" in found
    (found,) = problems(table, silver(value=Columns("id bigit, at timestamp")))
    assert "bigint" in found


def test_bytes_and_typed_columns_are_not_mixed_up() -> None:
    table, topic = DeltaTable("history", "/lake/orders"), Topic("history")
    for value in (Json("id bigint, at timestamp"), Bytes()):
        columns = {"id": "1", "at": "_kafka.timestamp"}
        (found,) = problems(table, silver(value=value, columns=columns))
        assert found.startswith("silver.orders, value: bronze.history keeps typed columns")
        assert found.endswith("write value=Columns()")
    (found,) = problems(topic, silver())
    assert "bronze.history has bytes; write their format" in found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("kafka", "has a declaration of its own: Topic"),
        ("delta", "has a declaration of its own: DeltaTable"),
        ("parquet", "has a declaration of its own: Files"),
        ("text", "has a declaration of its own: Files"),
        ("orc", "has a declaration of its own: Files"),
        ("", "format is empty"),
    ],
)
def test_a_format_with_a_better_declaration_is_refused(kind: str, text: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Stream("sensor", format=kind)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (
            "rate",
            {"rowPerSecond": "5"},
            "option 'rowPerSecond' is none of rate; did you mean 'rowsPerSecond'?",
        ),
        ("rate", {"rowsPerBatch": "5"}, "option 'rowsPerBatch' is none of rate"),
        ("rate-micro-batch", {"rowsPerBatch": "5", "startTime": "0"}, "did you mean 'startTimestamp'?"),
        ("rate-micro-batch", {}, "needs the option rowsPerBatch"),
        ("socket", {"host": "gate", "port": "9999"}, "say replayable=False"),
        ("socket", {"host": "gate"}, "socket needs the option port"),
        ("socket", {"host": "gate", "port": "x"}, "it must be a whole number of at least 1"),
        ("socket", {"host": "gate", "includeTimestamp": "1"}, "write 'true' or 'false'"),
        ("socket", {"hosts": "gate"}, "did you mean 'host'?"),
    ],
)
def test_a_wrong_option_of_sparks_own_sources_is_a_mistake(
    kind: str, options: dict[str, str], text: str
) -> None:
    """Spark passes over an option that it does not know; a connector's are its own."""
    with pytest.raises(PipelineError) as raised:
        Stream("history", format=kind, options=options)
    assert text in str(raised.value)
    Stream("history", format="rate", options={"ROWSPERSECOND": "5", "rampUpTime": "1s"})
    Stream("history", format="mqtt", options={"rowPerSecond": "5"})


def test_a_source_that_does_not_replay_is_noted() -> None:
    for replayable, count in ((True, 0), (False, 1)):
        stream = Stream("history", format="mqtt", replayable=replayable)
        pipeline = Pipeline(name="shop", bronze=[stream], silver=[silver()])
        assert check(pipeline) == ()
        assert sum("gives no row again" in note for note in notes(pipeline)) == count


def test_a_feed_whose_changes_nothing_tells_apart_is_noted(tmp_path: Path) -> None:
    """A deletion would be an event like any other."""
    feed = DeltaTable("history", str(tmp_path), changes="feed")
    value = Columns("id bigint, at timestamp, _change_type string")
    for changes, count in (
        ({}, 1),
        ({"where": "_change_type = 'insert'"}, 0),
        ({"columns": ["id", "at", "_change_type"]}, 0),
    ):
        pipeline = Pipeline("shop", bronze=[feed], silver=[silver(value=value, **changes)])
        assert sum("names _change_type" in note for note in notes(pipeline)) == count
    appends = Pipeline("shop", bronze=[copy_with(feed, changes="appends")], silver=[silver()])
    assert notes(appends) == ()


def test_a_folder_that_is_not_there_is_noted_and_no_mistake(tmp_path: Path) -> None:
    for source in (
        Files("history", str(tmp_path / "gone"), "jsonl"),
        DeltaTable("history", path=str(tmp_path / "gone")),
    ):
        pipeline = Pipeline(name="shop", bronze=[source], silver=[])
        assert any("gone is not there" in note for note in notes(pipeline))
        there = Pipeline(name="shop", bronze=[copy_with(source, path=str(tmp_path))], silver=[])
        assert not any("is not there" in note for note in notes(there))
    remote = Pipeline(name="shop", bronze=[Files("history", "s3a://lake/gone", "jsonl")], silver=[])
    assert notes(remote) == ()
