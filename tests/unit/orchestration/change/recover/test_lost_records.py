"""A silver table that is filled again must not lose rows whose records are nowhere else."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from common.config.paths import Layout
from common.declare import Topic
from common.errors import BrokerError
from common.streaming.topic_identity import BrokerTopic
from orchestration.change.recover.lost_records import lost_records
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
