"""A query waits while its disk has too little free space, and goes on by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Topic
from common.machine.files.free_space import FreeSpace
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine


def test_a_query_waits_for_space_and_goes_on(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No disk has the floor free at first; nothing is written, nothing fails. Then the floor is lower."""
    table = Aggregate("by_key", reads="silver.orders", by=["k"], measures={"orders": "count(*)"})
    pipeline = Pipeline("shop", bronze=[Topic("orders")], gold=[table])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    engine.append("silver.orders", [("a",), ("b",), ("a",)], "k string")
    supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
    supervisor.gate.free_space = FreeSpace([str(tmp_path)], 2**40)
    waited: list[int] = []

    def make_room() -> None:
        if supervisor.is_retried("gold.by_key") and not waited:
            waited.append(len(engine.rows("gold.by_key")))
            supervisor.gate.free_space = FreeSpace([str(tmp_path)], 1)

    wiring = Wiring(spark, pipeline, engine.settings, engine.layout, "")
    supervisor.start(wiring.streams("gold"), available_now=True)
    supervisor.run(make_room)
    assert {row["k"]: row["orders"] for row in engine.rows("gold.by_key")} == {"a": 2, "b": 1}
    assert waited == [0]
    printed = capsys.readouterr().err
    assert f"gold.by_key failed: the disk of {tmp_path} has " in printed
    assert "gold.by_key waits and is restarted" in printed
    assert "gold.by_key: works again" in printed
