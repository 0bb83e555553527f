"""A backfill that begins late, stops early and reads slowly; what it leaves out is in the audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from common.declare import Json, Message, Pipeline, Silver, Topic
from common.errors import UsageError
from orchestration.access.progress.record_range import parse_range
from orchestration.change.backfill import run as backfill
from orchestration.change.backfill.run import Plan, Request
from orchestration.change.backfill.runs import RunRecord
from orchestration.records.audit.audit import audit
from orchestration.run.job import Job
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine


def _pipeline(topic: str) -> Pipeline:
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id int"),
        columns={"id": "id", "at": "_kafka.timestamp"},
        key=["id"],
        event_time="at",
        watermark="7 days",
    )
    return Pipeline(name="shop", bronze=[Topic("orders", topics=[topic])], silver=[silver])


def _run(engine: Engine, begin: str | None = None, end: str | None = None, **options: Any) -> Plan:
    """Run a backfill in the test's session; its plan."""
    settings, pipeline, layout = engine.settings, engine.pipeline, engine.layout
    records = None if begin is None and end is None else parse_range(begin, end)
    given = {"layer": None, "table": None, "rate": None} | options
    request = Request.of(pipeline, settings, given["layer"], given["table"], records, given["rate"])
    stop = StopSignal()
    supervisor = Supervisor(engine.spark, stop, stop_timeout_seconds=60)
    wiring = Wiring(engine.spark, pipeline, settings, layout, engine.broker)
    job = Job(request.layers, wiring, supervisor, stop, only=request.table)
    shown: list[Plan] = []
    backfill.run(job, request, RunRecord(layout.backfills, request.options), shown.append)
    return shown[0]


def _offsets(engine: Engine) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in engine.rows("bronze.orders"):
        found.setdefault(row["partition"], []).append(row["offset"])
    return {number: sorted(offsets) for number, offsets in found.items()}


@pytest.mark.long
def test_a_first_load_begins_later_and_the_audit_counts_what_is_left_out(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    engine = Engine(spark, _pipeline(topic), make_settings(tmp_path, broker), broker)
    send(topic, [Message(b"%d" % n, b'{"id": %d}' % n) for n in range(60)])
    _run(engine, "2099-01-01T00:00Z")  # beyond the newest record: nothing is read, so it can be corrected
    assert engine.rows("bronze.orders") == []
    begin = f"{topic}/0=3,{topic}/1=5"
    killed = mock.patch.object(backfill, "catch_up", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        _run(engine, begin)
    planned = _run(engine, begin, layer="bronze")
    read = _offsets(engine)
    assert (read[0][0], read[1][0], read[2][0]) == (3, 5, 0)
    rows = sum(map(len, read.values()))
    assert [(one.table, one.effort.rows) for one in planned.reads] == [("bronze.orders", rows)]
    assert rows == 60 - 8
    again = _run(engine, begin)  # the same again: bronze has read all, silver reads it
    assert [(one.table, one.effort.rows) for one in again.reads] == [
        ("bronze.orders", 0),
        ("silver.orders", rows),
    ]
    versions = {table: engine.version(table) for table in ("bronze.orders", "silver.orders", "ops.gaps")}
    _run(engine, begin)
    assert {table: engine.version(table) for table in versions} == versions
    found = audit(spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, again_seconds=0)
    assert (found.faults, found.offsets, found.totals["gaps"], found.totals["silver"]) == ((), 60, 8, rows)
    send(topic, [Message(b"%d" % n, b'{"id": %d}' % n) for n in range(60, 70)])
    _run(engine)
    last = audit(
        spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, since="last", again_seconds=0
    )
    assert (last.faults, last.offsets, last.totals["gaps"]) == ((), 70, 8)
    with pytest.raises(UsageError, match=r"has begun.*medallion restate silver\.orders.*medallion rebuild"):
        _run(engine, f"{topic}/0=4")


@pytest.mark.long
def test_bronze_stops_where_it_is_to_stop_and_goes_on_from_there(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    settings = make_settings(tmp_path, broker, "bronze.max_offsets_per_trigger=9")
    engine = Engine(spark, _pipeline(topic), settings, broker)
    send(topic, [Message(b"%d" % n, b'{"id": %d}' % n) for n in range(60)])
    end = ",".join(f"{topic}/{number}=4" for number in range(3))
    with pytest.raises(UsageError, match=f"--to {topic}/7: .* no such partition; there are 0, 1, 2"):
        _run(engine, None, f"{topic}/7=4")
    planned = _run(engine, None, end)
    assert planned.reads[0].effort.rows == 12
    read = _offsets(engine)
    assert all(len(offsets) >= 4 for offsets in read.values())
    assert sum(map(len, read.values())) < 60
    versions = [engine.version(table) for table in ("bronze.orders", "silver.orders")]
    assert engine.rows("silver.orders")
    _run(engine, None, end)
    assert [engine.version(table) for table in ("bronze.orders", "silver.orders")] == versions
    _run(engine, rate=10_000)
    assert sum(map(len, _offsets(engine).values())) == 60
    assert engine.faults() == ()
