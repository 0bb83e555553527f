"""Windows that are open at the end of a run: said, closed once by a flush, and a later event is late."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Session, Topic, Window
from orchestration.change.backfill.tail import flush, tails
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
MEASURES = {"n": "count(*)"}
WINDOWS = Aggregate(
    "windows",
    "silver.orders",
    measures=MEASURES,
    window=Window("at", "10 minutes"),
    mode="append",
    watermark="20 minutes",
)
SESSIONS = Aggregate(
    "sessions",
    "silver.orders",
    by=["k"],
    measures=MEASURES,
    window=Session("at", "5 minutes"),
    mode="append",
    watermark="20 minutes",
)
OPEN = Aggregate("groups", "silver.orders", by=["k"], measures=MEASURES)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=[WINDOWS, SESSIONS, OPEN])


def rows(*minutes: int) -> list[tuple[Any, ...]]:
    return [("a", NOON + timedelta(minutes=minute)) for minute in minutes]


def windows(engine: Engine, gold: Aggregate = WINDOWS) -> Counter[tuple[int, int]]:
    """Minutes from noon to the start of each window, and its rows."""
    found = engine.rows(gold.table)
    return Counter((int((one["window_start"] - NOON).total_seconds() // 60), one["n"]) for one in found)


def test_open_windows_are_closed_once_and_a_later_event_is_late(spark: Any, tmp_path: Path) -> None:
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    engine.append("silver.orders", rows(1, 2, 14, 38), "k string, at timestamp")
    queries = engine.run("gold")
    assert windows(engine) == Counter({(0, 2): 1})  # up to the watermark, 12:18
    left = {one.table: one for one in tails(PIPELINE, queries)}
    assert (left["gold.windows"].rows, bool(left["gold.windows"].holds_back)) == (2, True)
    assert left["gold.groups"].holds_back == ""
    assert not flush(engine.layout, OPEN)
    for gold in (WINDOWS, SESSIONS):
        assert flush(engine.layout, gold)
        assert not flush(engine.layout, gold)  # the micro-batch is planned
    engine.run("gold")
    assert windows(engine) == Counter({(0, 2): 1, (10, 1): 1, (30, 1): 1})
    assert windows(engine, SESSIONS) == Counter({(1, 2): 1, (14, 1): 1, (38, 1): 1})
    versions = [engine.version(gold.table) for gold in (WINDOWS, SESSIONS)]
    assert not any(flush(engine.layout, gold) for gold in (WINDOWS, SESSIONS))
    engine.run("gold")
    assert [engine.version(gold.table) for gold in (WINDOWS, SESSIONS)] == versions
    engine.append("silver.orders", rows(39), "k string, at timestamp")
    engine.append("silver.orders", rows(75), "k string, at timestamp")
    engine.run("gold")
    late = [one["counts"]["late"] for one in engine.commits("gold.windows") if "counts" in one]
    assert sum(late) == 1
    assert flush(engine.layout, WINDOWS)
    engine.run("gold")
    assert windows(engine) == Counter({(0, 2): 1, (10, 1): 1, (30, 1): 1, (70, 1): 1})
