"""Time travel and RESTORE: a version is the state after one micro-batch, and no RESTORE goes unnoticed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Aggregate, Custom, Pipeline, Topic, Upsert
from common.delta.lease.local_leases import Leases
from common.errors import CheckpointMismatchError, LeaseHeldError, UsageError
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.shops import plain_silver

SCHEMA = (
    "k string, version int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)
BATCHES = [[("a", 1), ("b", 1)], [("a", 2), ("c", 1)], [("b", 2), ("c", 2)]]
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[plain_silver("orders", "k string, version int, at timestamp", key=["k", "version"])],
    gold=[
        Upsert("latest", reads="silver.orders", key=["k"], newest_by=["version"]),
        Aggregate("counts", reads="silver.orders", by=["k"], measures={"n": "count(*)"}),
    ],
)


def state(table: str, batches: int) -> Counter[tuple[Any, ...]]:
    """What a table is after some micro-batches."""
    rows = [row for rows in BATCHES[:batches] for row in rows]
    if table == "gold.counts":
        return Counter(list(Counter(k for k, _ in rows).items()))
    return Counter(dict(sorted(rows)).items())


def found(engine: Engine, table: str, version: int | None = None) -> Counter[tuple[Any, ...]]:
    """A table's rows, without Kafka's coordinates, by delta-rs."""
    rows = DeltaTable(engine.path(table), version=version).to_pyarrow_table().to_pylist()
    return Counter(tuple(v for name, v in row.items() if not name.startswith("_")) for row in rows)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Three micro-batches."""
    settings = make_settings(tmp_path_factory.mktemp("restore"), "none:1", "gold.max_files_per_trigger=1")
    engine = Engine(spark, PIPELINE, settings)
    for number, rows in enumerate(BATCHES):
        full = [(*row, "t", 0, 10 * number + place, None, None) for place, row in enumerate(rows)]
        engine.append("silver.orders", full, SCHEMA)
        engine.run("gold")
    return engine


@pytest.mark.long
@pytest.mark.parametrize("table", ["gold.latest", "gold.counts"])
def test_each_version_is_the_state_after_one_micro_batch(ran: Engine, table: str) -> None:
    """By ``VERSION AS OF``; the commit says which micro-batch it was."""
    for version in (1, 2, 3):
        assert found(ran, table, version) == state(table, version)
        rows = ran.spark.sql(f"SELECT * FROM delta.`{ran.path(table)}` VERSION AS OF {version}")
        assert rows.count() == sum(state(table, version).values())
    assert [one["batch_id"] for one in ran.commits(table)] == [0, 1, 2]


@pytest.mark.long
def test_a_restored_table_is_refused_and_made_anew_or_put_back(ran: Engine) -> None:
    path = ran.path("gold.latest")
    ran.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert found(ran, "gold.latest") == state("gold.latest", 1)
    with pytest.raises(CheckpointMismatchError, match=r"version 4 .* medallion rebuild gold\.latest"):
        ran.run("gold")
    # As the message says: put back what it was, and the job goes on as if nothing had been.
    ran.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 3")
    ran.run("gold")
    assert found(ran, "gold.latest") == state("gold.latest", 3)
    DeltaTable(path).restore(2)
    with pytest.raises(CheckpointMismatchError, match="version 6 "):
        ran.run("gold")
    with (
        Leases(ran.layout.leases, ["gold.latest"], "run-gold"),
        pytest.raises(LeaseHeldError, match=r"gold\.latest is being written by run-gold"),
    ):
        refill(PIPELINE, ran.layout, "gold.latest")
    moved = refill(PIPELINE, ran.layout, "gold.latest")
    assert moved is not None
    assert (Path(moved) / "commits" / "2").exists()
    assert not ran.checkpoint("gold.latest").exists()
    assert refill(PIPELINE, ran.layout, "gold.latest") is None
    assert found(ran, "gold.latest") == state("gold.latest", 2)  # people read it until it is filled anew
    ran.run("gold")
    assert found(ran, "gold.latest") == state("gold.latest", 3)
    ran.run("gold")  # the RESTORE in its history is the former checkpoint's


@pytest.mark.long
def test_what_cannot_be_made_anew_is_refused(ran: Engine) -> None:
    custom = Custom("own", reads="silver.orders", write=lambda rows, gold: None, tables={"own": "a int"})
    declared = Pipeline("shop", bronze=PIPELINE.bronze, silver=PIPELINE.silver, gold=[custom])
    for table, told in {
        "bronze.orders": "is bronze",
        "silver.orders": "is silver",
        "gold.own": "own",
    }.items():
        with pytest.raises(UsageError, match=f"{table} .*{told}"):
            refill(declared, ran.layout, table)
