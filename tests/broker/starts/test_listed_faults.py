"""Faults of ``docs/run/failures.md`` on the side of Kafka that no other test stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from orchestration.records.audit.audit import audit
from tests.chaos.cuts import shop
from tests.support.engine import Engine

pytestmark = pytest.mark.long


def offsets(engine: Any) -> set[tuple[int, int]]:
    """Partitions and offsets in bronze, each once."""
    rows = engine.rows("bronze.orders")
    found = {(row["partition"], row["offset"]) for row in rows}
    assert len(found) == len(rows)
    return found


def balanced(engine: Any) -> bool:
    """Whether the audit finds every offset in its one place."""
    (silver,) = engine.pipeline.silver
    return audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0).faults == ()


def test_partitions_that_are_added_are_read_from_their_first_record(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    engine = shop.engine(spark, tmp_path, broker, topic)
    send(topic, shop.BEFORE)
    engine.run("bronze", "silver", "gold")
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.create_partitions([NewPartitions(topic, 6)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(6):
        value = shop.message(f"p{number}", 10 + number, 1).value
        producer.produce(topic, key=b"k", value=value, partition=number)
    assert producer.flush(30) == 0
    engine.run("bronze", "silver", "gold")
    assert {partition for partition, _ in offsets(engine)} >= {3, 4, 5}
    assert len(offsets(engine)) == len(shop.BEFORE) + 6
    assert {row["order_id"] for row in engine.rows("gold.latest")} >= {f"p{n}" for n in range(6)}
    assert balanced(engine)


def test_an_open_transaction_holds_its_partition_back_and_an_aborted_one_is_never_read(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Records behind it come once it has ended; none is lost, and the aborted one is in no table."""
    engine = shop.engine(spark, tmp_path, broker, topic)
    hanging = Producer({"bootstrap.servers": broker, "transactional.id": f"hanging-{topic}"})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(topic, key=b"k", value=shop.message("aborted", 1, 1).value, partition=0)
    hanging.flush(30)
    plain = Producer({"bootstrap.servers": broker})
    plain.produce(topic, key=b"k", value=shop.message("behind", 2, 1).value, partition=0)
    plain.produce(topic, key=b"k", value=shop.message("beside", 3, 1).value, partition=1)
    assert plain.flush(30) == 0
    engine.run("bronze", "silver", "gold")
    assert {row["order_id"] for row in engine.rows("silver.orders")} == {"beside"}
    assert balanced(engine)
    hanging.abort_transaction(30)
    engine.run("bronze", "silver", "gold")
    assert {row["order_id"] for row in engine.rows("silver.orders")} == {"behind", "beside"}
    # The offsets of the aborted record and of the transaction's end hold no readable record.
    (declared,) = engine.pipeline.bronze
    with_gaps = replace(engine.pipeline, bronze=[replace(declared, may_have_gaps=True)])
    assert balanced(Engine(spark, with_gaps, engine.settings, broker))
