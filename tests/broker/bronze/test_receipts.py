"""Receipts of producers: what was acknowledged and what bronze has, also of a broker that loses records."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from common.config.paths import broker_dir
from common.config.settings import load_settings
from common.declare import Message, Pipeline
from common.declare.declared import copy_with
from orchestration.access.kafka.producer import Receipts, produce
from orchestration.access.kafka.receipts import Collector, Receipt, record_digest
from orchestration.access.kafka.receipts_topic import read_receipts
from orchestration.records.audit.audit import audit
from orchestration.records.audit.result import Account
from orchestration.records.receipts.dismiss import dismiss
from orchestration.run.job import open_broker
from orchestration.run.topic_checks import broker_asker, receipts_reader
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.orders import orders_pipeline

pytestmark = pytest.mark.long


def pipeline_of(topic: str, receipts: str) -> Pipeline:
    made = orders_pipeline(topic)
    return copy_with(made, bronze=[copy_with(made.bronze[0], receipts=receipts)])


def messages(numbers: Sequence[int]) -> Iterator[Message]:
    """Events; one of ten has a key, and one of ten no value."""
    for n in numbers:
        value = json.dumps({"id": n, "ms": 1_700_000_000_000 + n}).encode()
        yield Message(f"k{n % 7}".encode() if n % 10 else None, value if n % 10 != 5 else None)


def account(engine: Engine, **options: Any) -> Account:
    ask = broker_asker(engine.pipeline, engine.settings, engine.layout)
    receipts = receipts_reader(engine.pipeline, engine.settings)
    (silver,) = engine.pipeline.silver
    return audit(
        engine.spark,
        engine.pipeline,
        silver,
        engine.layout,
        again_seconds=0,
        ask=ask,
        receipts=receipts,
        **options,
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
    given = read_receipts(broker, receipts, {})
    found = given.receipts
    assert (sum(one.records for one in found), given.wrong, given.is_cut) == (3_000, {}, False)
    assert any(len(one.offsets) > 1 for one in found)

    engine = Engine(spark, pipeline_of(topic, receipts), make_settings(tmp_path, broker), broker)
    engine.run()
    balanced = account(engine)
    assert balanced.faults == ()
    (note,) = [note for note in balanced.notes if "receipts" in note]
    assert note == (
        f"receipts in {receipts}: 3,000 records sent in {len(found)} receipts, and read as they were sent"
    )

    covered = f"{receipts}: each record of bronze has a receipt; the newest is of 2"
    assert any(covered in one for one in balanced.notes)

    run([3_000], "secret")  # not read yet
    first = found[0]
    forged = [
        replace(first, producer="other bytes", sha256="0" * 64),
        replace(first, producer="not there", offsets=((10_000, 10_001),)),
        replace(first, producer="another topic of the name", topic_id="x", sha256="0" * 64),
    ]
    put(broker, receipts, [*(one.message() for one in forged), (None, b"{}")])
    faulty = account(engine)
    assert [(fault.name, fault.count) for fault in faulty.faults] == [
        ("receipt", first.records),
        ("receipt", 2),
        ("receipt", 1),
    ]
    texts = bytes_differ, not_there, none = [fault.text for fault in faulty.faults]
    assert "producer other bytes has a receipt " in bytes_differ
    assert bytes_differ.endswith("bronze has a record at each offset, but other bytes than were sent")
    assert re.search(
        r"not there has a receipt \w{32} for 2 records; the topic ends at offset [\d,]+, bef", not_there
    )
    assert none == f"{receipts}: 1 of its records: its version is not 1 ({record_digest(None, b'{}')[:32]})"
    (note,) = [note for note in faulty.notes if "receipts" in note]
    assert note.endswith(
        "; 1 are not as sent; 1 are of records that the broker has lost; 1 are of records not read yet; "
        "1 are of records that are gone"
    )
    assert [fault.text for fault in account(engine, since="last").faults] == texts

    key = tmp_path / "key"
    key.write_text("secret")
    signed = Engine(spark, engine.pipeline, make_settings(tmp_path, broker, f"kafka.receipts_key=file:{key}"))
    faults = account(signed).faults
    assert [(fault.name, fault.count) for fault in faults] == [("receipt", 3), ("receipt", 1)]
    assert unnamed(faults[0].text) == f"{receipts}: 3 of its records: it is not signed by kafka.receipts_key"

    names = re.findall(r"\b[0-9a-f]{32}\b", " ".join(texts))
    read = receipts_reader(engine.pipeline, engine.settings)
    assert len(dismiss(engine.pipeline, engine.layout, read, names, "forged")) == 3
    for since in (None, "last"):
        settled = account(engine, since=since)
        assert settled.faults == ()
        assert any(f"{receipts}: 3 dismissed: " in note for note in settled.notes)
    since_last = [note for note in settled.notes if "each record of bronze since the audit of 2" in note]
    assert len(since_last) == 1


def test_who_has_no_key_can_neither_displace_a_receipt_nor_invent_one_nor_stop_the_audit(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written behind the genuine receipts, they are compared; one that is gone leaves a hole."""
    monkeypatch.setattr("orchestration.access.kafka.receipts.MOST_RECORDS", 100)
    topic, receipts = new_topic(), new_topic()
    to = Receipts(receipts, Collector(), "secret")
    produce(messages(range(1_200)), bootstrap_servers=broker, topic=topic, receipts=to)
    genuine = read_receipts(broker, receipts, {}, "secret").receipts
    assert {one.number for one in genuine if one.partition == genuine[0].partition} >= {1, 2, 3}
    key = tmp_path / "key"
    key.write_text("secret")
    settings = make_settings(tmp_path, broker, f"kafka.receipts_key=file:{key}")
    engine = Engine(spark, pipeline_of(topic, receipts), settings, broker)
    engine.run()
    assert account(engine).faults == ()

    put(broker, receipts, [forged for one in genuine for forged in forgeries(one)])
    assert set(read_receipts(broker, receipts, {}, "secret").receipts) == set(genuine)
    faulty = account(engine)
    texts = {unnamed(fault.text): fault.count for fault in faulty.faults}
    assert texts == {
        f"{receipts}: {len(genuine) * count:,} of its records: {why}": len(genuine) * count
        for why, count in {
            "it is not signed by kafka.receipts_key": 4,
            "it is no JSON": 2,
            "its offsets are missing or are no pairs of offsets": 1,
            "its signature is missing or has another form": 2,
            "it has no value, which deletes the receipt of its key from a compacted topic": 1,
        }.items()
    }
    (note,) = [note for note in faulty.notes if "receipts" in note]
    assert note.endswith(f"1,200 records sent in {len(genuine)} receipts, and read as they were sent")

    gone = next(one for one in genuine if one.number == 2)
    left = new_topic()
    put(broker, left, [one.with_signature("secret").message() for one in genuine if one != gone])
    lacking = account(Engine(spark, pipeline_of(topic, left), settings))
    spans = f"offsets {gone.offsets[0][0]:,} to {gone.offsets[-1][1]:,}"
    place = f"{topic}/{gone.partition}: {gone.records:,}, {spans}"
    without = f"{gone.records:,} records of bronze have no receipt, the oldest of 2"
    assert any(without in one and f" ({place}); " in one for one in lacking.notes)
    (fault,) = lacking.faults
    assert fault.text == (
        f"{left}: {topic}/{gone.partition}: producer {gone.producer} has later receipts, and its receipt "
        "with the number 2 is missing"
    )


def unnamed(text: str) -> str:
    """A fault without the names of the records that are none."""
    return re.sub(r" \([0-9a-f, …]+\)$", "", text)


def forgeries(genuine: Receipt) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Records with the key of a receipt, by somebody who has read it and has not the key that signs."""
    key, value = genuine.with_signature("secret").message()
    document = json.loads(value)
    yield genuine.message()
    yield replace(genuine, sha256="0" * 64).with_signature("another").message()
    yield key, json.dumps(document | {"sha256": "0" * 64}).encode()
    yield key, json.dumps(document | {"number": genuine.number + 1_000 if genuine.number else 1}).encode()
    yield key, b"[" * 200_000
    yield key, b"\xff"
    yield key, json.dumps(document | {"offsets": [[0, float("inf")]]}).encode()
    yield key, json.dumps(document | {"signature": 5}).encode()
    yield key, json.dumps(document | {"signature": "\u00fc"}).encode()
    yield key, None


def put(broker: str, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    """Send records to the first partition of a topic."""
    producer = Producer({"bootstrap.servers": broker})
    for key, value in records:
        producer.produce(topic, value, key, 0)
    assert producer.flush(30) == 0


def test_a_receipt_that_was_compacted_away_leaves_a_hole_in_the_numbers(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion is a fault while the topic has it, and the number that is missing is one for ever."""
    monkeypatch.setattr("orchestration.access.kafka.receipts.MOST_RECORDS", 50)
    topic, receipts = new_topic(), f"{new_topic()}.receipts"
    compacts = {
        "cleanup.policy": "compact",
        "segment.ms": "1",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "1",
    }
    client = AdminClient({"bootstrap.servers": broker})  # its results come only while it lives
    created = client.create_topics([NewTopic(receipts, 1, 1, config=compacts)])
    created[receipts].result(30)
    produce(
        messages(range(600)),
        bootstrap_servers=broker,
        topic=topic,
        receipts=Receipts(receipts, Collector()),
    )
    engine = Engine(spark, pipeline_of(topic, receipts), make_settings(tmp_path, broker), broker)
    engine.run()
    assert account(engine).faults == ()
    genuine = read_receipts(broker, receipts, {}).receipts
    gone = next(one for one in genuine if one.number == 2)
    put(broker, receipts, [(gone.message()[0], None)])
    (fault,) = account(engine).faults
    assert fault.text.startswith(f"{receipts}: 1 of its records: it has no value, which deletes the receipt")
    deadline = time.monotonic() + 120
    while (given := read_receipts(broker, receipts, {})).wrong or gone in given.receipts:
        assert time.monotonic() < deadline
        time.sleep(2)
        put(broker, receipts, [genuine[-1].message()])  # closes the segment before it
    assert set(given.receipts) == {*genuine} - {gone}
    assert not given.is_cut
    (fault,) = account(engine).faults
    assert fault.text.endswith(
        f"producer {gone.producer} has later receipts, and its receipt with the number 2 is missing"
    )


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
        cut = account(engine)
        before = read_receipts(engine.broker, "orders.receipts", {}).receipts
        send(range(300, 500))
        engine.run()
        found = account(engine)
        told = read_receipts(engine.broker, "orders.receipts", {}).receipts
    newest = {one for one in before if one.producer == before[-1].producer}
    assert {fault.name for fault in cut.faults} == {"receipt"}
    assert sum(fault.count for fault in cut.faults) == sum(one.records for one in newest) == 100
    places = {
        f"orders/{one.partition}, offsets {one.offsets[0][0]} to {one.offsets[-1][1]}" for one in newest
    }
    assert {fault.text.partition(": ")[0] for fault in cut.faults} == places
    assert all("the topic ends at offset" in fault.text for fault in cut.faults)
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
