"""A silver table that is filled again must not lose rows whose records are nowhere else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from common.config.paths import Layout
from common.declare import Topic
from common.delta.match.source_match import Source, last_commits
from common.errors import BrokerError, CheckpointMismatchError
from common.machine.storage_folder import StorageFolder
from common.streaming.topic_identity import BrokerTopic
from orchestration.change.recover.lost_records import lost_records
from orchestration.change.recover.remedies import plan
from tests.support.oracles.orders import orders_pipeline

PIPELINE = orders_pipeline("orders", watermark="1 hour")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Bronze has read 45 and 50 offsets of two partitions."""
    found = Layout(str(tmp_path), str(tmp_path / "checkpoints"), tmp_path)
    log = Path(found.table_path("bronze.orders"), "_delta_log")
    log.mkdir(parents=True)
    own = {"query": "bronze.orders", "query_id": "q", "batch_id": 0}
    own["positions"] = [{"orders": {"0": 45, "1": 50}}]
    info = {"timestamp": 1, "operation": "WRITE", "userMetadata": json.dumps(own)}
    (log / f"{0:020}.json").write_text(json.dumps({"commitInfo": info}), encoding="utf-8")
    return found


def commit(path: str, version: int, query: str, position: Mapping[str, Any], **facts: Any) -> None:
    """A commit of a query's first micro-batches, in a table that delta-rs can open."""
    own = {"query": query, "query_id": "q", "batch_id": version, "positions": [position], **facts}
    told = CommitProperties(custom_metadata={"userMetadata": json.dumps(own)})
    write_deltalake(path, pa.table({"n": [version]}), mode="append", commit_properties=told)


def test_a_refill_that_would_lose_rows_is_refused_by_the_command_that_was_named(tmp_path: Path) -> None:
    """Bronze is an older copy, and Kafka has deleted what it lacks: silver's rows are all that is left."""
    layout = Layout(str(tmp_path), str(tmp_path / "checkpoints"), tmp_path)
    paths = {table: layout.table_path(table) for table in ("bronze.orders", "silver.orders")}
    source, end = Source("bronze.orders", paths["bronze.orders"]), {"reservoirVersion": 2, "index": -1}
    for version, read in enumerate((45, 60)):
        commit(source.path, version, source.table, {"orders": {"0": read}})
        if not version:
            shutil.copytree(source.path, tmp_path / "older")
    commit(paths["silver.orders"], 0, "silver.orders", end, source_commits=last_commits((end,), [source]))
    for folder, content in (("offsets", f"v1\n{{}}\n{json.dumps(end)}"), ("commits", "v1\n{}")):
        StorageFolder(layout.checkpoint_path("silver.orders")).write(f"{folder}/0", content.encode())
    StorageFolder(layout.checkpoint_path("silver.orders")).write("metadata", b'{"id":"q"}')
    shutil.rmtree(source.path)
    shutil.move(tmp_path / "older", source.path)
    recovered = partial(plan, PIPELINE, layout, None, only="silver.orders")
    with pytest.raises(
        CheckpointMismatchError, match=r"Kafka has deleted offsets 45 to 54 .* would lose them"
    ):
        recovered(ask=lambda topic, names: {"orders": BrokerTopic("A", {0: 55}, {0: 90})})
    steps = recovered(ask=lambda topic, names: {"orders": BrokerTopic("A", {0: 45}, {0: 90})})
    assert [(step.query, step.kind) for step in steps] == [("silver.orders", "refill")]


@pytest.mark.parametrize(
    ("first", "lost"),
    [
        ({0: 0, 1: 0}, []),
        ({0: 45, 1: 50}, []),
        ({0: 60, 1: 50}, ["Kafka has deleted offsets 45 to 59 of topic orders, partition 0"]),
    ],
)
def test_what_kafka_has_deleted_before_bronze_reads_it_again_is_lost(
    layout: Layout, first: Mapping[int, int], lost: list[str]
) -> None:
    def ask(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
        assert tuple(names) == ("orders",)
        return {"orders": BrokerTopic("A", first, {0: 90, 1: 90})}

    assert lost_records(PIPELINE, layout, PIPELINE.silver[0], ask) == (lost, [])


def test_a_topic_that_is_gone_and_a_broker_that_does_not_answer_are_told(layout: Layout) -> None:
    def away(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
        raise BrokerError("the embedded broker is not running. Start it")

    lost, unknown = lost_records(PIPELINE, layout, PIPELINE.silver[0], away)
    assert lost == []
    assert "was not asked: the embedded broker is not running" in unknown[0]
    lost, unknown = lost_records(PIPELINE, layout, PIPELINE.silver[0], lambda topic, names: {})
    assert len(lost) == 2
    assert "is gone" in lost[0]
