"""CPU of tasks by executor and stage: what a run would take at least with a processor for each executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distribution.bench.cluster import task_log
from distribution.bench.cluster.scale_out import STREAMS


def task(stage: int, executor: str, seconds: float, result: int = 2_000) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Info": {"Executor ID": executor},
        "Task Metrics": {
            "Executor CPU Time": int(seconds * 1e9),
            "Executor Deserialize CPU Time": 0,
            "Result Size": result,
        },
    }


def test_each_stage_takes_as_long_as_its_busiest_executor(tmp_path: Path) -> None:
    events = [
        {"Event": "SparkListenerApplicationStart"},
        task(0, "0", 1.0),
        task(0, "0", 2.0),
        task(0, "1", 2.5, result=9_000),
        task(1, "1", 4.0),
        {**task(1, "0", 1.0), "Task Metrics": None},  # a task that was lost with its executor
    ]
    (tmp_path / "app").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    found = task_log.read(tmp_path)
    assert found.total == pytest.approx(9.5)
    assert found.critical == pytest.approx(3.0 + 4.0)
    assert found.by_executor == pytest.approx((6.5, 3.0))
    assert (found.tasks, found.largest_result) == (4, 9_000)


def test_the_skewed_streams_have_the_keys_that_they_say() -> None:
    share = {}
    for keys, stream in STREAMS.items():
        batch = stream.batch(0, 50_000)
        share[keys] = [np.bincount(found).max() / len(batch) for found in (batch.user, batch.product)]
    assert max(share["even keys"][0], 0.02) == 0.02
    assert share["Zipf 1.5"] == pytest.approx([0.38, 0.38], abs=0.02)
    assert share["one hot key"][0] == pytest.approx(0.5, abs=0.02)
    assert share["one hot key"][1] > 0.5
