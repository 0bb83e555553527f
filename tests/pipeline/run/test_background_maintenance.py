"""Compaction between the micro-batches of running queries: no row lost or read twice, and few files."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Aggregate, Pipeline, Topic, Upsert
from common.delta.maintenance.compaction import delete_old_files
from orchestration.run.background_maintenance import BackgroundMaintenance
from orchestration.run.maintenance import reason_to_keep_files
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.shops import plain_silver

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
COMMITS, DEADLINE_SECONDS = 24, 300.0
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[plain_silver("orders", "id string, customer string, at timestamp")],
    gold=[
        Aggregate("by_customer", reads="silver.orders", by=["customer"], measures={"orders": "count(*)"}),
        Upsert("latest", reads="silver.orders", key=["customer"], newest_by=["at"]),
    ],
)


def records(commit: int) -> list[tuple[Any, ...]]:
    """Two bronze rows; the second is a duplicate of a row of the commit before."""
    rows: list[tuple[Any, ...]] = []
    for place, n in enumerate((commit, max(0, commit - 1))):
        at = NOON + timedelta(minutes=n)
        value = json.dumps({"id": f"o{n}", "customer": f"c{n % 5}", "at": at.isoformat()}).encode()
        rows.append(("t", 0, 2 * commit + place, at, 0, at, None, value, None))
    return rows


def delete_replaced_files(spark: Any, engine: Engine) -> None:
    """What maintenance does once a day, with a retention of a second."""
    for table in ("bronze.orders", "silver.orders"):
        path = Path(engine.path(table))
        spark.sql(
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
            "('delta.deletedFileRetentionDuration' = 'interval 1 second')"
        )
        time.sleep(1.1)
        before = len(list(path.rglob("*.parquet")))
        assert reason_to_keep_files(PIPELINE, engine.layout, table) == ""
        delete_old_files(spark, str(path))
        assert len(list(path.rglob("*.parquet"))) < before, table


@pytest.mark.long
@pytest.mark.parametrize("in_driver", [True, False])
def test_tables_are_compacted_while_their_queries_run(spark: Any, tmp_path: Path, *, in_driver: bool) -> None:
    settings = make_settings(
        tmp_path,
        "none:1",
        "silver.trigger=asap",
        "gold.trigger=asap",
        "gold.compact_every=0",
        "maintenance.small_files=4",
        "maintenance.cpu_share=0.5",
        f"driver.batch_rows={1000 if in_driver else 0}",
    )
    engine = Engine(spark, PIPELINE, settings)
    engine.append_bronze("bronze.orders", records(0))
    stop = StopSignal()
    supervisor = Supervisor(spark, stop, stop_timeout_seconds=60)
    wiring = Wiring(spark, PIPELINE, settings, engine.layout, "")
    for layer in ("silver", "gold"):
        supervisor.start(wiring.streams(layer))  # type: ignore[arg-type]
    maintenance = BackgroundMaintenance(
        PIPELINE,
        engine.layout,
        PIPELINE.tables,
        turns=supervisor.turns,
        settings=settings.maintenance,
        limits=settings.driver_limits,
    )
    session, sent, deadline = spark.newSession(), 1, time.monotonic() + DEADLINE_SECONDS

    def poll() -> None:
        nonlocal sent
        assert time.monotonic() < deadline, (sent, engine.version("silver.orders"))
        maintenance.look(session)
        if len(engine.rows("silver.orders")) < sent:
            return
        if sent < COMMITS:
            engine.append_bronze("bronze.orders", records(sent))
            sent += 1
        elif sum(row["orders"] for row in engine.rows("gold.by_customer")) == COMMITS:
            stop.request()

    supervisor.run(poll)
    compacted = [one for one in engine.commits("silver.orders") if one.get("by") == "compaction"]
    assert len(compacted) >= 2
    for table in ("bronze.orders", "silver.orders"):
        assert len(engine.files(table)) <= 3 * 4, table
    expected = Counter(f"o{n}" for n in range(COMMITS))
    assert Counter(row["id"] for row in engine.rows("silver.orders")) == expected
    assert engine.faults() == ()
    engine.run("silver", "gold")  # a query may lag behind those that the loop waits for
    delete_replaced_files(session, engine)
    assert engine.faults() == ()
    # The next start compares checkpoints and tables, and reads on from where the last one ended.
    engine.append_bronze("bronze.orders", records(COMMITS))
    engine.run("silver", "gold")
    expected[f"o{COMMITS}"] += 1
    assert Counter(row["id"] for row in engine.rows("silver.orders")) == expected
    counts = {row["customer"]: row["orders"] for row in engine.rows("gold.by_customer")}
    assert counts == Counter(f"c{n % 5}" for n in range(COMMITS + 1))
    assert {row["customer"]: row["id"] for row in engine.rows("gold.latest")} == {
        f"c{n % 5}": f"o{n}" for n in range(COMMITS - 4, COMMITS + 1)
    }
