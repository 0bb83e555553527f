"""A query that follows a table begins as soon as that has a commit, on a real Spark; else it only waits.

By itself it would look once an hour here, so what it sees in time it was woken for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from common.declare.intervals import FOLLOW
from common.delta.micro_batch import MicroBatch
from common.streaming import query as streaming
from common.streaming import wake_up as waking_module
from common.streaming.query import Gate, RunningQuery, Stream, start
from common.streaming.wake_up import CommitNotifier

UPSTREAM = "bronze.orders"
DEADLINE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _no_look_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "POLL_INTERVAL", "1 hour")


def await_that(fact: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


class Follower:
    """A query that reads a table of numbers, and what it has seen of them, batch by batch."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.table = str(folder / "table")
        self.notifier = CommitNotifier()
        self.batches: list[list[int]] = []
        self.began = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._running: list[RunningQuery] = []
        self.put(0)

    def put(self, *numbers: int) -> None:
        """One commit to the table, of which nobody is told."""
        rows = self.spark.createDataFrame([(number,) for number in numbers], "n int")
        rows.coalesce(1).write.format("delta").mode("append").save(self.table)

    def start(self, *, available_now: bool = False) -> RunningQuery:
        """Start it."""

        def write(frame: Any, batch: MicroBatch) -> None:
            self.began.set()
            assert self.may_go_on.wait(DEADLINE_SECONDS)
            self.batches.append([row[0] for row in frame.collect()])

        stream = Stream(
            pipeline="shop",
            name="silver.orders",
            frame=self.spark.readStream.format("delta").load(self.table),
            write=write,
            checkpoint=str(self.folder / "checkpoint"),
            trigger=FOLLOW,
            reads=(UPSTREAM,),
        )
        query = start(self.spark, stream, Gate(), self.notifier, available_now=available_now)
        self._running.append(query)
        return query

    def start_upstream(self) -> Callable[[int], None]:
        """A query that feeds the table; hands out what gives it a number."""
        source = self.folder / "source"
        source.mkdir()

        def write(frame: Any, batch: MicroBatch) -> None:
            self.put(*(int(row[0]) for row in frame.collect()))

        frame = self.spark.readStream.text(str(source))
        stream = Stream("shop", UPSTREAM, frame, write, str(self.folder / "upstream"), "100 milliseconds")
        self._running.append(start(self.spark, stream, Gate(), self.notifier))

        def give(number: int) -> None:
            draft = self.folder / f"{number}.draft"
            draft.write_text(f"{number}\n", encoding="utf-8")
            draft.rename(source / f"{number}.txt")

        return give

    def await_waiting(self) -> None:
        """Return once it waits for its next trigger, which it does a moment after a look for data."""
        query = self._running[-1]
        message = "Waiting for next trigger"
        await_that(lambda: query.query.status["message"] == message, "it waits for its next trigger")

    def end(self) -> None:
        """Stop what runs."""
        self.may_go_on.set()
        for query in self._running:
            query.stop()


@pytest.fixture(name="follower")
def _follower(spark: Any, tmp_path: Path) -> Iterator[Follower]:
    made = Follower(spark, tmp_path)
    yield made
    made.end()


def test_a_commit_of_a_query_of_the_process_is_seen_at_once(follower: Follower) -> None:
    """And not for another reason: a commit of which nobody is told is not."""
    follower.start()
    await_that(lambda: follower.batches == [[0]], "what was there is read")
    give = follower.start_upstream()
    for number in (1, 2, 3):
        give(number)
        await_that(lambda seen=number: follower.batches[-1] == [seen], f"{number} is read")  # type: ignore[misc]
    follower.put(4)
    time.sleep(2)
    assert follower.batches == [[0], [1], [2], [3]]
    give(5)
    await_that(lambda: sorted(follower.batches[-1]) == [4, 5], "both are read")


@pytest.mark.long
def test_a_wake_while_a_micro_batch_runs_is_not_lost(follower: Follower) -> None:
    follower.may_go_on.clear()
    follower.start()
    assert follower.began.wait(DEADLINE_SECONDS)
    follower.put(1)
    follower.notifier.notify([UPSTREAM])
    follower.may_go_on.set()
    await_that(lambda: follower.batches == [[0], [1]], "the commit during the micro-batch is read")


def test_a_stop_ends_the_wait_and_is_no_failure(follower: Follower) -> None:
    query = follower.start()
    await_that(lambda: follower.batches == [[0]], "what was there is read")
    follower.await_waiting()
    stopping = threading.Thread(target=query.stop, daemon=True)
    stopping.start()
    stopping.join(DEADLINE_SECONDS)
    assert not stopping.is_alive()
    assert not query.is_active
    assert query.failure() is None
    assert query.query.exception() is None


@pytest.mark.long
def test_a_query_that_waits_does_nothing_and_a_wake_for_nothing_is_one_look(
    follower: Follower, spark: Any
) -> None:
    """By the CPU time of its own thread, over three seconds."""
    query = follower.start()
    await_that(lambda: follower.batches == [[0]], "what was there is read")
    follower.await_waiting()
    thread = query.query._jsq.streamingQuery().queryExecutionThread().getId()
    threads = spark._jvm.java.lang.management.ManagementFactory.getThreadMXBean()

    def cpu_seconds_of_idling() -> float:
        before = threads.getThreadCpuTime(thread)
        time.sleep(3)
        return float(threads.getThreadCpuTime(thread) - before) / 1e9

    time.sleep(0.5)  # what follows a micro-batch is done
    assert cpu_seconds_of_idling() < 0.02
    follower.notifier.notify([UPSTREAM])
    looking = cpu_seconds_of_idling()
    assert 0 < looking < 1
    assert cpu_seconds_of_idling() < 0.02
    assert follower.batches == [[0]]


def test_a_commit_of_another_process_is_seen_by_a_look(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "POLL_INTERVAL", "500 milliseconds")
    follower.start()
    await_that(lambda: follower.batches == [[0]], "what was there is read")
    follower.put(1)
    await_that(lambda: follower.batches == [[0], [1]], "the commit is read")


@pytest.mark.long
def test_a_spark_that_keeps_its_clock_is_said_and_the_query_looks_by_itself(
    follower: Follower, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streaming, "POLL_INTERVAL", "500 milliseconds")
    monkeypatch.setattr(waking_module, "_CLOCK", "noSuchField")
    follower.start()
    told = "silver.orders: cannot be woken, and looks for new commits every 2 seconds instead: "
    assert told in capsys.readouterr().err
    await_that(lambda: follower.batches == [[0]], "what was there is read")
    give = follower.start_upstream()
    give(1)
    await_that(lambda: follower.batches == [[0], [1]], "the commit is read")


@pytest.mark.long
def test_a_bounded_run_ends_as_ever(follower: Follower, capsys: pytest.CaptureFixture[str]) -> None:
    query = follower.start(available_now=True)
    assert query.query.awaitTermination(int(DEADLINE_SECONDS))
    assert follower.batches == [[0]]
    assert query.failure() is None
    assert not capsys.readouterr().err
