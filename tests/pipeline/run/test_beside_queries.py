"""Commands in the session of running queries: a replay, a compaction and a rebuild beside the stream."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Quality, RowCount, Rule, Topic
from orchestration.quality.versions import pin
from orchestration.run.serving.commands import (
    ACCOUNTS,
    ERASED,
    JUDGED,
    MAINTAINED,
    PINNED,
    REPLAYED,
    Commands,
)
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.shops import plain_silver

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
DEADLINE_SECONDS = 300.0
STRICT = plain_silver("orders", "id string, amount int, at timestamp", rules=[Rule("small", "amount < 100")])
BEFORE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[STRICT],
    gold=[Aggregate("total", reads="silver.orders", by=["id"], measures={"amount": "sum(amount)"})],
)
NOW = replace(BEFORE, silver=[replace(STRICT, rules=[])])


def record(offset: int, name: str, amount: int) -> tuple[Any, ...]:
    at = NOON + timedelta(minutes=offset)
    value = json.dumps({"id": name, "amount": amount, "at": NOON.isoformat()}).encode()
    return ("t", 0, offset, at, 0, at, None, value, None)


class Work(threading.Thread):
    """A command's work, in a thread of its own as the channel does it."""

    def __init__(self, commands: Commands, spark: Any) -> None:
        super().__init__()
        self.commands, self.session = commands, spark.newSession()
        self.results: dict[str, Any] = {}
        self.errors: list[BaseException] = []
        self.said: list[str] = []

    def run(self) -> None:
        """Every command once."""
        arguments: dict[str, dict[str, Any]] = {
            "replay": {"table": "silver.orders", "where": None, "with_new_rules": True, "dry_run": False},
            "maintain": {"tables": ["silver.orders", "silver.orders__quarantine"], "now": False},
            "rebuild": {"table": "gold.total"},
            "audit": {"table": None, "since": None, "gold": True},
        }
        try:
            for name, given in arguments.items():
                operation = self.commands.operations()[name]
                self.results[name] = operation(self.session, given, self.said.append)
        except BaseException as error:  # noqa: BLE001  # raised again in the test's own thread
            self.errors.append(error)


@pytest.mark.long
def test_commands_work_between_the_micro_batches_of_running_queries(spark: Any, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "none:1", "silver.trigger=asap", "gold.trigger=asap")
    earlier = Engine(spark, BEFORE, settings)
    earlier.append_bronze("bronze.orders", [record(0, "a", 1), record(1, "b", 500)])
    earlier.run("silver", "gold")
    engine = Engine(spark, NOW, settings)
    stop = StopSignal()
    supervisor = Supervisor(spark, stop, stop_timeout_seconds=60)
    wiring = Wiring(spark, NOW, settings, engine.layout, "")
    for layer in ("silver", "gold"):
        supervisor.start(wiring.streams(layer))  # type: ignore[arg-type]
    work = Work(Commands(wiring, supervisor), spark)
    deadline, sent = time.monotonic() + DEADLINE_SECONDS, 2

    def poll() -> None:
        nonlocal sent
        assert time.monotonic() < deadline, (sent, work.said, work.errors)
        if sent == 2:
            work.start()
            engine.append_bronze("bronze.orders", [record(2, "c", 3)])
            sent = 3
        elif sent == 3 and not work.is_alive():
            # An event that only the replay has written: the state of the stream does not know its key.
            engine.append_bronze("bronze.orders", [record(3, "b", 500), record(4, "d", 4)])
            sent = 5
        elif sent == 5 and len(engine.rows("silver.orders")) >= 4:
            totals = {row["id"]: row["amount"] for row in engine.rows("gold.total")}
            if totals == {"a": 1, "b": 500, "c": 3, "d": 4}:
                stop.request()

    supervisor.run(poll)
    assert work.errors == []
    replayed = REPLAYED.validate_python(work.results["replay"])
    assert (replayed.inserted, replayed.failed) == (1, 0)
    assert [one.table for one in MAINTAINED.validate_python(work.results["maintain"])] == [
        "silver.orders",
        "silver.orders__quarantine",
    ]
    assert "__before_" in work.results["rebuild"]["moved"]
    assert [one.faults for one in ACCOUNTS.validate_python(work.results["audit"])] == [()]
    assert Counter(row["id"] for row in engine.rows("silver.orders")) == Counter("abcd")
    assert engine.rows("silver.orders__quarantine") == []
    assert engine.faults() == ()


@pytest.mark.long
def test_records_are_erased_between_the_micro_batches_of_running_queries(spark: Any, tmp_path: Path) -> None:
    """Bronze waits while silver reads the rest of it; gold follows, and the audit balances."""
    pipeline = replace(
        NOW,
        gold=[
            Aggregate("total", reads="silver.orders", by=["id"], measures={"n": "count(*)"}, mode="recompute")
        ],
        quality=[Quality("silver.orders", [RowCount(min=1)])],
    )
    settings = make_settings(tmp_path, "none:1", "silver.trigger=asap", "gold.trigger=asap")
    engine = Engine(spark, pipeline, settings)
    engine.append_bronze("bronze.orders", [record(0, "a", 1), record(1, "b", 5), record(2, "a", 1)])
    stop = StopSignal()
    supervisor = Supervisor(spark, stop, stop_timeout_seconds=60)
    wiring = Wiring(spark, pipeline, settings, engine.layout, "")
    for layer in ("silver", "gold"):
        supervisor.start(wiring.streams(layer))  # type: ignore[arg-type]
    commands, found = Commands(wiring, supervisor), []
    given = {"table": "orders", "where": "id = 'a'"}

    def erase() -> None:
        operation, session = commands.operations()["erase"], spark.newSession()
        for is_plan in (True, False):
            done = operation(session, {**given, "plan": is_plan}, lambda text: None)
            found.append(ERASED.validate_python(done))

    work = threading.Thread(target=erase)
    deadline, step = time.monotonic() + DEADLINE_SECONDS, 0

    def poll() -> None:
        nonlocal step
        assert time.monotonic() < deadline, (step, found)
        totals = {row["id"]: row["n"] for row in engine.rows("gold.total")} if step else {}
        if step == 0 and len(engine.rows("silver.orders")) == 2:
            engine.append_bronze("bronze.orders", [record(3, "c", 1), record(4, "a", 1)])
            work.start()
            step = 1
        elif step == 1 and not work.is_alive():
            engine.append_bronze("bronze.orders", [record(5, "d", 1)])
            step = 2
        elif step == 2 and totals == {"b": 1, "c": 1, "d": 1}:
            stop.request()

    supervisor.run(poll)
    judged = commands.operations()["quality"](
        spark.newSession(),
        {"pinned": PINNED.dump_python(pin(engine.layout, "silver.orders"), mode="json"), "accept": False},
        lambda text: None,
    )
    assert [(one.table, one.is_met, one.rows) for one in JUDGED.validate_python(judged)] == [
        ("silver.orders", True, 3)
    ]
    assert [one.table for one in found] == ["silver.orders"] * 2
    assert found[1].records == 3
    assert Counter(row["id"] for row in engine.rows("silver.orders")) == Counter("bcd")
    assert Counter(row["offset"] for row in engine.rows("bronze.orders")) == Counter([1, 3, 5])
    assert engine.faults() == ()
