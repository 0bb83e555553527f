"""Files whose records go into the bronze table of a topic: one silver table reads both."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.config.settings import Settings
from common.declare import Aggregate, Files, Json, Message, Pipeline, Silver, Topic
from orchestration.change.recover.carry_out import recover_all
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine


def order(number: int) -> bytes:
    """A line of JSON."""
    return json.dumps({"id": number, "at": f"2026-01-01T00:{number % 60:02d}:00Z"}).encode()


def write(folder: Path, name: str, numbers: Iterable[int]) -> None:
    """A file that was written an hour ago."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"".join(order(number) + b"\n" for number in numbers))
    os.utime(folder / name, (time.time() - 3_600,) * 2)


@pytest.fixture
def engine(spark: Any, settings: Settings, broker: str, topic: str, tmp_path: Path) -> Engine:
    """Orders of a topic, and of files from before it."""
    pipeline = Pipeline(
        name="shop",
        bronze=[
            Topic("orders", topics=[topic]),
            Files(
                "history",
                path=str(tmp_path / "export"),
                format="jsonl",
                into="bronze.orders",
                max_rows_per_trigger=5,
            ),
        ],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Json("id int, at timestamp"),
                columns={"id": "id", "at": "at", "source": "_kafka.topic"},
                key=["id"],
                event_time="at",
                watermark="2 days",
            )
        ],
        gold=[Aggregate("counts", "silver.orders", by=["source"], measures={"n": "count(*)"})],
    )
    return Engine(spark, pipeline, settings, broker)


def check(engine: Engine, topic: str, sent: Sequence[int], from_files: Sequence[int]) -> None:
    """Each record is in bronze, silver and gold once; the audit balances over both sources."""
    rows = Counter((row["topic"], row["value"]) for row in engine.rows("bronze.orders"))
    expected = Counter((topic, order(number)) for number in sent)
    assert rows == expected + Counter(("files:history", order(number)) for number in from_files)
    found = Counter((row["id"], row["source"]) for row in engine.rows("silver.orders"))
    assert found == Counter(
        [*((number, topic) for number in sent), *((number, "files:history") for number in from_files)]
    )
    counts = {row["source"]: row["n"] for row in engine.rows("gold.counts")}
    assert counts == {
        name: len(numbers) for name, numbers in ((topic, sent), ("files:history", from_files)) if numbers
    }
    assert engine.faults() == ()


@pytest.mark.long
def test_history_joins_a_topic_that_is_being_read(
    engine: Engine, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Files are added when the topic has been read for a while; both go on, through kills and restarts."""
    without = Engine(
        engine.spark, replace(engine.pipeline, bronze=engine.pipeline.topics), engine.settings, engine.broker
    )
    send(topic, [Message(b"k", order(number)) for number in range(100, 108)])
    without.run()
    check(without, topic, range(100, 108), ())
    write(tmp_path / "export", "1.jsonl", range(12))
    send(topic, [Message(b"k", order(number)) for number in range(108, 111)])
    assert run_through_crashes(engine.run, {1: True, 3: False}) == 2
    check(engine, topic, range(100, 111), range(12))
    write(tmp_path / "export", "2.jsonl", range(12, 14))
    send(topic, [Message(b"k", order(111))])
    engine.run()
    check(engine, topic, range(100, 112), range(14))


@pytest.mark.long
def test_a_lost_checkpoint_of_either_query_is_written_again(
    engine: Engine, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    write(tmp_path / "export", "1.jsonl", range(12))
    send(topic, [Message(b"k", order(number)) for number in range(100, 108)])
    engine.run()
    for query in ("bronze.history", "bronze.orders"):
        engine.remove(engine.checkpoint(query))
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: engine.spark)
    write(tmp_path / "export", "2.jsonl", range(12, 14))
    send(topic, [Message(b"k", order(108))])
    engine.run()
    check(engine, topic, range(100, 109), range(14))
