"""Processors of one's own equal a replay of the same processor in plain Python, over restarts and replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from common.declare import Pipeline, Stateful, Topic
from common.delta import table as delta_table
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine

pytestmark = pytest.mark.long

START = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = (
    "device string, at timestamp, step string, _kafka_topic string, _kafka_partition int, "
    "_kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
QUIET_MS = 10 * 60_000
GAP = timedelta(minutes=5)
STEPS = ("view", "cart", "pay")


class Silence(StatefulProcessor):
    """An alert for each device that has sent nothing for ten minutes of event time."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.newest = handle.getValueState("newest", "ms bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        known = self.newest.get()
        newest = max([row.at for row in rows] + ([] if known is None else [_time(known[0])]))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.newest.update((_ms(newest),))
        self.handle.registerTimer(_ms(newest) + QUIET_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        (newest,) = self.newest.get()
        self.newest.clear()
        yield Row(device=key[0], silent_since=_time(newest))

    def close(self) -> None:
        pass


class Funnel(StatefulProcessor):
    """How far each device came: view, cart, pay, each after the other."""

    def init(self, handle: Any) -> None:
        self.reached = handle.getValueState("reached", "steps int, ms bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        steps, since = self.reached.get() or (0, 0)
        for row in rows:
            if steps < len(STEPS) and row.step == STEPS[steps]:
                steps, since = steps + 1, _ms(row.at)
                yield Row(device=key[0], steps=steps, since=row.at)
        self.reached.update((steps, since))

    def close(self) -> None:
        pass


class Sessions(StatefulProcessor):
    """A row per session of a device; a session ends after five minutes, or with a payment."""

    def init(self, handle: Any) -> None:
        self.open = handle.getListState("open", "ms bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        times = [_time(ms) for (ms,) in self.open.get()]
        for row in rows:
            if times and row.at - times[-1] > GAP:
                yield _session(key, times)
                times = []
            times.append(row.at)
            if row.step == "pay":
                yield _session(key, times)
                times = []
        self.open.clear()
        if times:
            self.open.appendList([(_ms(at),) for at in times])

    def close(self) -> None:
        pass


def _session(key: Any, times: list[datetime]) -> Row:
    return Row(device=key[0], began=times[0], ended=times[-1], events=len(times))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


_TIMED = {"event_time": "at", "watermark": "1 minute"}
SILENCE = Stateful(
    "silence",
    reads="silver.clicks",
    key=["device"],
    processor=Silence,
    output="device string, silent_since timestamp",
    timers="event_time",
    **_TIMED,
)
FUNNEL = Stateful(
    "funnel",
    reads="silver.clicks",
    key=["device"],
    processor=Funnel,
    output="device string, steps int, since timestamp",
    mode="update",
    where="step <> 'late'",
    event_time="at",
)
SESSIONS = Stateful(
    "sessions",
    reads="silver.clicks",
    key=["device"],
    processor=Sessions,
    output="device string, began timestamp, ended timestamp, events int",
    event_time="at",
)
PIPELINE = Pipeline(name="shop", bronze=[Topic("clicks")], gold=[SILENCE, FUNNEL, SESSIONS])

# Rounds of (device, minute, step); a run of the queries, which is a restart, after each.
ROUNDS: tuple[tuple[tuple[str, int, str], ...], ...] = (
    (("a", 2, "cart"), ("a", 0, "view"), ("b", 1, "view"), ("a", 3, "pay"), ("c", 3, "pay")),
    (("b", 4, "cart"), ("a", 12, "view"), ("c", 5, "view")),
    (("b", 13, "pay"), ("a", 14, "cart"), ("c", 2, "late"), ("c", 40, "cart"), ("d", 90, "view")),
)


def lived(spark: Any, folder: Path, gold: Sequence[Stateful], run: Callable[[Engine], object]) -> Engine:
    """The tables after all rounds, over a silver table that gets the rows of one at a time."""
    made = Engine(spark, replace(PIPELINE, gold=gold), make_settings(folder, "none:1"))
    empty = spark.createDataFrame([], SCHEMA).schema
    delta_table.ensure(spark, "silver.clicks", made.path("silver.clicks"), empty, {})
    offset = 0
    for events in ROUNDS:
        rows = []
        for device, minute, step in events:
            offset += 1
            rows.append((device, START + timedelta(minutes=minute), step, "t", 0, offset, START, START))
        made.append("silver.clicks", rows, SCHEMA)
        run(made)
    return made


def events() -> Iterator[list[tuple[str, datetime, str]]]:
    """The events of each round, in event-time order."""
    for given in ROUNDS:
        yield sorted((device, START + timedelta(minutes=minute), step) for device, minute, step in given)


def sessions() -> Counter[tuple[Any, ...]]:
    """In plain Python: appended once each, in the order of event time within a micro-batch."""
    open_: dict[str, list[datetime]] = {}
    expected: Counter[tuple[Any, ...]] = Counter()
    for given in events():
        for device, at, step in given:
            times = open_.setdefault(device, [])
            if times and at - times[-1] > GAP:
                expected[device, times[0], times[-1], len(times)] += 1
                times.clear()
            times.append(at)
            if step == "pay":
                expected[device, times[0], times[-1], len(times)] += 1
                times.clear()
    assert sum(expected.values()) > 4
    return expected


def funnel() -> Counter[tuple[Any, ...]]:
    """In plain Python: several rows of a key in one micro-batch, and a key without a row in a later one."""
    reached: dict[str, tuple[int, datetime]] = {}
    for given in events():
        for device, at, step in given:
            steps = reached.get(device, (0, START))[0]
            if steps < len(STEPS) and step == STEPS[steps]:
                reached[device] = (steps + 1, at)
    expected = Counter((device, *each) for device, each in reached.items())
    assert expected["a", 3, START + timedelta(minutes=3)] == 1
    return expected


def silence() -> Counter[tuple[Any, ...]]:
    """The timer of c at 0:15 was put off by its row of 0:40; that of d does not expire."""
    quiet = [("a", 14), ("b", 13), ("c", 40)]
    return Counter((device, START + timedelta(minutes=minute)) for device, minute in quiet)


EXPECTED = {"gold.sessions": sessions(), "gold.funnel": funnel(), "gold.silence": silence()}


def compare(engine: Engine, gold: Stateful) -> None:
    """The table has the rows of the replay, and a row that is too late is counted once."""
    assert Counter(tuple(row.values()) for row in engine.rows(gold.table)) == EXPECTED[gold.table]
    late = sum(one["counts"].get("late", 0) for one in engine.commits(gold.table))
    assert late == (gold.watermark is not None)


def test_processors_equal_a_replay_over_restarts(spark: Any, tmp_path: Path) -> None:
    """The micro-batch of one is replayed."""

    def run(engine: Engine) -> None:
        if engine.version("silver.clicks") == len(ROUNDS):
            for gold in PIPELINE.gold:
                engine.undo_last_commit(gold.table)
        engine.run("gold")

    engine = lived(spark, tmp_path, PIPELINE.gold, run)
    for gold in (SILENCE, FUNNEL, SESSIONS):
        compare(engine, gold)


@pytest.mark.parametrize("gold", PIPELINE.gold, ids=lambda gold: gold.name)
def test_processors_equal_a_replay_where_they_are_killed_between_every_two_writes(
    spark: Any, tmp_path: Path, gold: Stateful
) -> None:
    """Before and after each: each run but the last of a round ends at a write."""
    crashed: list[int] = []

    def run(engine: Engine) -> None:
        crashes = {write: write % 2 == 1 for write in range(16)}
        crashed.append(run_through_crashes(lambda: engine.run("gold"), crashes))

    engine = lived(spark, tmp_path, [gold], run)
    compare(engine, gold)
    assert sum(crashed) == 2 * len(engine.commits(gold.table))
