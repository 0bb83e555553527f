"""The state of a query on the local disk: snapshots are written, old changes deleted, and both are loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from orchestration.access.declaration.load_file import load_pipeline
from tests.support.processes import EXAMPLE, example_on, medallion

pytestmark = pytest.mark.long

PART, PARTS = 40, 16
STATE = "spark.conf.spark.sql.streaming.stateStore"


def test_snapshots_take_the_place_of_old_changes(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Many small micro-batches; the next start loads the state from a snapshot, and knows each duplicate."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    events = list(islice(sample(7), PART * PARTS))
    settings = (
        f"kafka.bootstrap_servers={broker}",
        f"bronze.max_offsets_per_trigger={PART}",
        "silver.max_files_per_trigger=1",
        "driver.batch_rows=0",
        "spark.shuffle_partitions=1",
        "spark.state_store=rocksdb",
        f"{STATE}.maintenanceInterval=1s",
        f"{STATE}.minDeltasForSnapshot=2",
        "spark.conf.spark.sql.streaming.minBatchesToRetain=3",
    )
    with medallion(tmp_path, example_on(tmp_path, topic), *settings) as commands:
        send(topic, events)
        filled = commands.start("backfill")
        assert filled.code() == 0, filled.stderr
        state = Path(commands.layout.checkpoint_path("silver.quakes")) / "state" / "0" / "0"
        snapshots = sorted(int(file.stem) for file in state.glob("*.zip"))
        changes = sorted(int(file.stem) for file in state.glob("*.changelog"))
        assert snapshots, sorted(file.name for file in state.iterdir())
        assert changes[0] > 1, "old changes are deleted"
        logs = "".join(file.read_text() for file in commands.layout.log.glob("*.log"))
        assert "error while performing maintenance" not in logs
        before = rows(commands.run("query", "SELECT count(*) AS n FROM silver.quakes", "--json").stdout)
        send(topic, events)  # all of them again
        again = commands.start("backfill")
        assert again.code() == 0, again.stderr
        after = rows(commands.run("query", "SELECT count(*) AS n FROM silver.quakes", "--json").stdout)
        assert before == after > 0
        audited = commands.start("audit", "--json")
        assert audited.code() == 0, audited.stderr


def rows(text: str) -> int:
    """The count that a query prints."""
    return int(json.loads(text)[0]["n"])
