"""What a backfill runs by its options, at which pace, and where bronze stops."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.config.settings import Settings
from common.delta.micro_batch import MicroBatch
from common.errors import PipelineError, UsageError
from common.streaming.query import Stream
from orchestration.access.progress.record_range import parse_range
from orchestration.change.backfill.pace import Limits, Pace
from orchestration.change.backfill.run import Request
from tests.conftest import make_settings
from tests.support.oracles.plan_shop import BASE


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_settings(tmp_path, "none:1")


def test_options_choose_layers_and_tables(settings: Settings) -> None:
    whole = Request.of(BASE, settings, None, None, None, None)
    assert (whole.layers, whole.options) == (("bronze", "silver", "gold"), "")
    assert whole.tables(BASE)[:4] == ("bronze.orders", "bronze.others", "silver.orders", "silver.exact")
    one = Request.of(BASE, settings, None, "silver.exact", None, 500)
    assert (one.layers, one.tables(BASE)) == (("silver",), ("silver.exact",))
    assert one.options == "--table silver.exact --max-records-per-second 500"
    records = parse_range("orders/0=5", None)
    bronze = Request.of(BASE, settings, "bronze", None, records, None)
    assert (bronze.layers, bronze.options) == (("bronze",), "--layer bronze --from orders/0=5")


def test_options_that_do_not_fit_are_refused(settings: Settings) -> None:
    records = parse_range("2026-01-05T10:00Z", None)
    for layer, table in (("silver", None), (None, "gold.latest")):
        with pytest.raises(UsageError, match=r"medallion restate .* medallion rebuild"):
            Request.of(BASE, settings, layer, table, records, None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="leave --layer out"):
        Request.of(BASE, settings, "gold", "silver.exact", None, None)
    with pytest.raises(PipelineError):
        Request.of(BASE, settings, None, "silver.none", None, None)


def _paced(limits: Limits, counts: list[int], stopped: list[str], *, stopping: bool = False) -> Stream:
    frame: Any = None
    stream = Stream("shop", "bronze.orders", frame, lambda rows, batch: None, "", "1 second")
    stream = replace(stream, again=lambda: stream)
    pace = Pace(limits, lambda: counts.pop(0), lambda: stopping, lambda: stopped.append("stop"))
    return pace.of(stream)


def _batch(batch_id: int, **ends: int) -> MicroBatch:
    positions = {"orders": {name.removeprefix("p"): end for name, end in ends.items()}}
    return MicroBatch("shop", "bronze.orders", "q", batch_id, (positions,))


def test_a_query_waits_until_its_rows_are_not_more_than_the_rate_allows() -> None:
    frame: Any = None
    paced = _paced(Limits(100), [0, 30, 30], [])
    began = time.monotonic()
    for number in range(3):
        paced.write(frame, _batch(number, p0=number))
    assert 0.6 <= time.monotonic() - began < 3
    assert Limits(100).batch_records == 1000
    stopping = _paced(Limits(1), [1000], [], stopping=True)
    stopping.write(frame, _batch(0, p0=0))  # a run that ends does not wait


def test_bronze_stops_at_the_first_micro_batch_that_reaches_all_offsets() -> None:
    frame: Any = None
    stopped: list[str] = []
    paced = _paced(Limits(stops={"bronze.orders": {"orders": {0: 5, 1: 5}}}), [], stopped)
    paced.write(frame, _batch(0, p0=9, p1=4))
    assert stopped == []
    assert paced.again is not None
    paced.again().write(frame, _batch(1, p0=9, p1=5))  # also after a restart
    assert stopped == ["stop"]
