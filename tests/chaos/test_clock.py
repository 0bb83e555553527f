"""A wall clock that is set back a day, or forward a year, changes no table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestration.records.audit.audit import audit
from tests.chaos.cuts import one_cycle, shop
from tests.chaos.cuts.recorded import build_library

_DAY = 86_400


@pytest.mark.long
@pytest.mark.parametrize("seconds", [-_DAY, 365 * _DAY])
def test_a_clock_that_jumps_between_two_runs_changes_nothing(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path, seconds: int
) -> None:
    """The second run is a process whose clock is another one."""
    moved, usual = tmp_path / "moved", tmp_path / "usual"
    for folder in (moved, usual):
        folder.mkdir()
    send(topic, shop.BEFORE)
    for folder in (moved, usual):
        shop.engine(spark, folder, broker, topic).run("bronze", "silver", "gold")
    send(topic, shop.NEW)
    clock = {"LD_PRELOAD": str(build_library(tmp_path, "clock")), "CLOCK_SHIFT": str(seconds)}
    process = one_cycle.run(moved, broker, topic, {**os.environ, **clock})
    assert process.returncode == 0, process.stderr[-2000:]
    engine = shop.engine(spark, usual, broker, topic)
    engine.run("bronze", "silver", "gold")
    found = shop.engine(spark, moved, broker, topic)
    assert shop.content(found) == shop.content(engine)
    edge = max if seconds > 0 else min  # the rows of the process are the newest or the oldest by their clock
    at, usually = (edge(row["ingested_at"] for row in each.rows("bronze.orders")) for each in (found, engine))
    assert abs((at - usually).total_seconds() - seconds) < _DAY / 2
    (silver,) = found.pipeline.silver
    assert audit(spark, found.pipeline, silver, found.layout, again_seconds=0).faults == ()
