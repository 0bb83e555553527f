"""Four queries of one process: a data error, an operator error, an error that passes, and none at all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Pipeline, Rule, Silver, Topic
from common.delta import table as delta_table
from common.errors import MedallionError
from common.machine.processes import free_port
from orchestration.access.progress.query_states import read_state
from orchestration.run.failures import restart_notices
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.shops import plain_silver

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
DEADLINE_SECONDS = 300.0


def silver(name: str, reads: str, rules: tuple[Rule, ...] = ()) -> Silver:
    return plain_silver(name, "id string, at timestamp", reads=f"bronze.{reads}", rules=rules)


PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("returns")],
    silver=[
        silver("plain", "orders"),
        silver("strict", "orders", (Rule("not_b", "id <> 'b'", on_fail="fail"),)),
        silver("throttled", "orders"),
        silver("returns", "returns"),
    ],
)


def records(ids: str, first: int = 0) -> list[tuple[Any, ...]]:
    """Bronze rows, one per letter."""
    return [
        ("t", 0, n, at, 0, at, None, json.dumps({"id": name, "at": at.isoformat()}).encode(), None)
        for n, name in enumerate(ids, first)
        for at in [NOON + timedelta(minutes=n)]
    ]


def ids(engine: Engine, table: str) -> list[str]:
    return sorted(row["id"] for row in engine.rows(table))


@pytest.fixture(name="refused")
def _refused(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The first two writes of silver.throttled fail as a store's client does: by an error of the JVM."""
    real, tries = delta_table.append, [0]

    def append(*args: Any, **kwargs: Any) -> None:
        if args[2].query == "silver.throttled" and tries[0] < 2:
            tries[0] += 1
            jvm: Any = spark._jvm
            jvm.java.net.Socket("127.0.0.1", free_port())
        real(*args, **kwargs)

    monkeypatch.setattr(delta_table, "append", append)
    return lambda: tries[0]


def test_each_failure_ends_as_its_cause_says_and_the_others_go_on(
    spark: Any, tmp_path: Path, refused: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(restart_notices, "say", lambda text, **_: said.append(text))
    settings = make_settings(tmp_path, "none:1", "silver.trigger=asap", "driver.batch_rows=0")
    engine = Engine(spark, PIPELINE, settings)
    engine.append_bronze("bronze.orders", records("a"))
    engine.append_bronze("bronze.returns", records("xy"))
    stop, states = StopSignal(), tmp_path / "queries"
    policy = RestartPolicy(first_pause=0.2, longest_pause=0.4)
    supervisor = Supervisor(spark, stop, stop_timeout_seconds=60, policy=policy, states=states)
    supervisor.start(Wiring(spark, PIPELINE, settings, engine.layout, "").streams("silver"))
    steps = iter(
        [
            lambda: (
                all(ids(engine, f"silver.{name}") == ["a"] for name in ("plain", "strict", "throttled"))
                and ids(engine, "silver.returns") == ["x", "y"]
            ),
            lambda: len([text for text in said if "stays stopped" in text]) == 2,
            lambda: all(ids(engine, f"silver.{name}") == ["a", "b", "c"] for name in ("plain", "throttled")),
        ]
    )
    step, deadline = next(steps), time.monotonic() + DEADLINE_SECONDS

    def poll() -> None:
        nonlocal step
        assert time.monotonic() < deadline, (said, [query.query.status for query in supervisor.queries])
        if not step():
            return
        following = next(steps, None)
        if following is None:
            stop.request()
            return
        if refused() == 2 and not any("stays stopped" in text for text in said):
            path = engine.path("bronze.returns")
            spark.sql(f"alter table delta.`{path}` unset tblproperties ('delta.appendOnly')")
            spark.sql(f"delete from delta.`{path}` where offset = 0")
            engine.append_bronze("bronze.returns", records("z", 2))
            engine.append_bronze("bronze.orders", records("b", 1))
        else:
            engine.append_bronze("bronze.orders", records("c", 2))
        step = following

    with pytest.raises(MedallionError) as raised:
        supervisor.run(poll)
    assert raised.value.cause_kind in {"data", "operator"}
    found = {
        name: read_state(states, f"silver.{name}") for name in ("plain", "strict", "throttled", "returns")
    }
    assert {name: state and (state.state, state.kind) for name, state in found.items()} == {
        "plain": None,
        "strict": ("failed", "data"),
        "throttled": ("works", "transient"),
        "returns": ("failed", "operator"),
    }
    throttled = found["throttled"]
    assert throttled is not None
    assert [one.subject for one in throttled.last_restarts] == ["the network"] * 2
    assert ids(engine, "silver.throttled") == ["a", "b", "c"]  # each once
    assert ids(engine, "silver.strict") == ["a"]
    assert ids(engine, "silver.returns") == ["x", "y"]
