"""Receipts of producers: what was acknowledged and what bronze has, also of a broker that loses records."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from common.config.paths import broker_dir
from common.config.settings import load_settings
from common.declare import Message, Pipeline
from common.declare.declared import copy_with
from orchestration.access.kafka.producer import Receipts, produce
from orchestration.access.kafka.receipts import Collector, Receipt, read_receipts
from orchestration.records.audit.audit import audit
from orchestration.records.audit.result import Account
from orchestration.run.job import open_broker
from orchestration.run.topic_checks import broker_asker, receipts_reader
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.orders import orders_pipeline


def pipeline_of(topic: str, receipts: str) -> Pipeline:
    made = orders_pipeline(topic)
    return copy_with(made, bronze=[copy_with(made.bronze[0], receipts=receipts)])


def messages(numbers: Sequence[int]) -> Iterator[Message]:
    """Events; one of ten has a key, and one of ten no value."""
    for n in numbers:
        value = json.dumps({"id": n, "ms": 1_700_000_000_000 + n}).encode()
        yield Message(f"k{n % 7}".encode() if n % 10 else None, value if n % 10 != 5 else None)


def account(engine: Engine) -> Account:
    ask = broker_asker(engine.pipeline, engine.settings, engine.layout)
    receipts = receipts_reader(engine.pipeline, engine.settings)
    (silver,) = engine.pipeline.silver
    return audit(
        engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0, ask=ask, receipts=receipts
    )


def test_what_was_acknowledged_is_what_was_read(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    """Two producers at once, so that neither has consecutive offsets; then receipts that are not true."""
    topic, receipts = new_topic(), new_topic()

    def run(numbers: Sequence[int], key: str | None) -> None:
        to = Receipts(receipts, Collector(), key)
        produce(messages(numbers), bootstrap_servers=broker, topic=topic, receipts=to, rate=500)

    both = [threading.Thread(target=run, args=(range(n, 3_000, 2), "secret")) for n in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    found, wrong = read_receipts(broker, receipts, {})
    assert (sum(one.records for one in found), wrong) == (3_000, {})
    assert any(len(one.offsets) > 1 for one in found)

    engine = Engine(spark, pipeline_of(topic, receipts), make_settings(tmp_path, broker), broker)
    engine.run()
    balanced = account(engine)
    assert balanced.faults == ()
    (note,) = [note for note in balanced.notes if "receipts" in note]
    assert note == (
        f"receipts in {receipts}: 3,000 records sent in {len(found)} receipts, and read as they were sent"
    )

    first = found[0]
    forged = [
        replace(first, producer="other bytes", sha256="0" * 64),
        replace(first, producer="not read yet", offsets=((10_000, 10_001),)),
        replace(first, producer="another topic of the name", topic_id="x", sha256="0" * 64),
    ]
    producer = Producer({"bootstrap.servers": broker})
    for one in forged:
        producer.produce(receipts, *reversed(one.message()))
    producer.produce(receipts, b"{}")
    assert producer.flush(30) == 0
    faulty = account(engine)
    assert [fault.name for fault in faulty.faults] == ["receipt", "receipt"]
    assert "producer other bytes has a receipt for" in faulty.faults[0].text
    assert faulty.faults[0].text.endswith(
        "bronze has a record at each offset, but other bytes than were sent"
    )
    assert faulty.faults[1].text == f"{receipts}: 1 of its records: its version is not 1"
    (note,) = [note for note in faulty.notes if "receipts" in note]
    assert note.endswith("; 1 are not as sent; 1 are of records not read yet; 1 are of records that are gone")

    key = tmp_path / "key"
    key.write_text("secret")
    signed = Engine(spark, engine.pipeline, make_settings(tmp_path, broker, f"kafka.receipts_key=file:{key}"))
    faults = account(signed).faults
    assert [(fault.name, fault.count) for fault in faults] == [("receipt", 1), ("receipt", 3)]
    assert faults[1].text == f"{receipts}: 3 of its records: it is not signed by kafka.receipts_key"


@pytest.mark.long
def test_records_that_the_broker_has_lost_behind_the_reader_are_named(spark: Any, tmp_path: Path) -> None:
    """Partitions go back to an older copy before bronze has read on, and fill up: no reader sees a hole."""
    settings = load_settings(
        file=Path(os.devnull),
        overrides=[f"data_dir={tmp_path / 'data'}", "kafka.heap_mb=256", "kafka.partitions=2"],
    )
    engine = Engine(spark, pipeline_of("orders", "orders.receipts"), settings)

    def send(numbers: Sequence[int]) -> None:
        to = Receipts("orders.receipts", Collector())
        produce(messages(numbers), bootstrap_servers=engine.broker, topic="orders", receipts=to)

    with open_broker(engine.pipeline, settings) as engine.broker:
        send(range(200))
        engine.run()
    folder = broker_dir(settings)
    parts = [one for one in folder.rglob("orders-*") if one.is_dir()]
    assert len(parts) == 2
    for part in parts:
        shutil.copytree(part, tmp_path / "older" / part.name)
    with open_broker(engine.pipeline, settings) as engine.broker:
        send(range(200, 300))
    for part in parts:
        shutil.rmtree(part)
        shutil.copytree(tmp_path / "older" / part.name, part)
    with open_broker(engine.pipeline, settings) as engine.broker:
        send(range(300, 500))
        engine.run()
        found = account(engine)
        told, _ = read_receipts(engine.broker, "orders.receipts", {})
    assert found.not_compared == ""
    assert {fault.name for fault in found.faults} == {"receipt"}
    lost = {receipt.producer for receipt in told if _is_lost(receipt, engine)}
    assert len(lost) == 1
    assert all(any(producer in fault.text for producer in lost) for fault in found.faults)
    assert len(found.faults) == 2


def _is_lost(receipt: Receipt, engine: Engine) -> bool:
    """Whether bronze has other records at the receipt's offsets, by a digest of our own."""
    import hashlib

    rows = {
        row["offset"]: row for row in engine.rows("bronze.orders") if row["partition"] == receipt.partition
    }
    digests = []
    for first, last in receipt.offsets:
        for offset in range(first, last + 1):
            key, value = rows[offset]["key"], rows[offset]["value"]
            text = ":".join("-" if one is None else bytes(one).hex().upper() for one in (key, value))
            digests.append(hashlib.sha256(text.encode()).hexdigest())
    return hashlib.sha256("".join(digests).encode()).hexdigest() != receipt.sha256
