"""Receipts where Kafka loses what it has acknowledged: a torn transaction, and retention."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message as Report
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from common.declare import Message, Pipeline
from common.declare.declared import copy_with
from orchestration.access.kafka.producer import Receipts, produce
from orchestration.access.kafka.receipts import Collector
from orchestration.change.recover.carry_out import accept_all_gaps
from orchestration.records.audit.audit import audit
from orchestration.records.audit.result import Account
from orchestration.run.topic_checks import broker_asker, receipts_reader
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.orders import orders_pipeline


def pipeline_of(topic: str, receipts: str, **attributes: Any) -> Pipeline:
    made = orders_pipeline(topic)
    return copy_with(made, bronze=[copy_with(made.bronze[0], receipts=receipts, **attributes)])


def messages(first: int, end: int) -> Iterator[Message]:
    return (Message(b"%d" % n, b'{"id": %d, "ms": 1700000000000}' % n) for n in range(first, end))


def account(engine: Engine) -> Account:
    ask = broker_asker(engine.pipeline, engine.settings, engine.layout)
    receipts = receipts_reader(engine.pipeline, engine.settings)
    (silver,) = engine.pipeline.silver
    return audit(
        engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0, ask=ask, receipts=receipts
    )


def note_of(found: Account) -> str:
    (note,) = [note for note in found.notes if note.startswith("receipts in")]
    return note


class Transactions:
    """A producer in transactions, which sends receipts inside of them or beside them."""

    def __init__(self, broker: str, topic: str, receipts: str, name: str) -> None:
        self.topic, self.receipts, self.collector = topic, receipts, Collector(producer=name)
        self.client = Producer({"bootstrap.servers": broker, "transactional.id": topic})
        self.client.init_transactions(30)
        self.client.begin_transaction()

    def send(self, first: int, end: int) -> list[tuple[bytes, bytes]]:
        """Send records in a transaction; the receipts, when the broker has acknowledged them."""
        to = Receipts(self.receipts, self.collector)

        def acknowledged(error: object, report: Report) -> None:
            assert error is None
            to.acknowledged(report)

        for key, value in messages(first, end):
            self.client.produce(self.topic, value, key, on_delivery=acknowledged)
        assert self.client.flush(30) == 0
        return list(to.due(is_end=True))


@pytest.mark.long
def test_what_a_torn_transaction_has_lost_is_named(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    """Its receipts were sent beside it: they wait while it is open, and are faults when it was aborted."""
    topic, receipts = new_topic(), new_topic()
    engine = Engine(
        spark,
        pipeline_of(topic, receipts, may_have_gaps=True),
        make_settings(tmp_path, broker),
        broker,
    )
    produce(messages(0, 30), bootstrap_servers=broker, topic=topic, receipts=Receipts(receipts, Collector()))
    torn = Transactions(broker, topic, receipts, "torn")
    told = torn.send(30, 60)
    beside = Producer({"bootstrap.servers": broker})
    for key, value in told:
        beside.produce(receipts, value, key)
    assert beside.flush(30) == 0
    engine.run()
    still_open = account(engine)
    assert still_open.faults == ()
    assert note_of(still_open).endswith(f"read as they were sent; {len(told)} are of records not read yet")

    whole = Transactions(broker, topic, receipts, "whole")  # the broker aborts the open one
    for key, value in whole.send(60, 90):
        whole.client.produce(receipts, value, key)
    whole.client.commit_transaction(30)
    gone = Transactions(broker, topic, receipts, "gone")
    for key, value in gone.send(90, 120):
        gone.client.produce(receipts, value, key)
    gone.client.abort_transaction(30)
    produce(
        messages(120, 150), bootstrap_servers=broker, topic=topic, receipts=Receipts(receipts, Collector())
    )
    engine.run()
    found = account(engine)
    assert {fault.name for fault in found.faults} == {"receipt"}
    assert sum(fault.count for fault in found.faults) == 30
    assert len(found.faults) == len(told)
    for fault in found.faults:
        assert re.search(r"producer torn has a receipt \w+ for \d+ records; ", fault.text)
        assert fault.text.endswith("; bronze has 0 of them")
    assert "120 records sent in" in note_of(found)


@pytest.mark.long
def test_what_retention_has_deleted_unread_is_a_fault_until_it_is_accepted(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the receipts of these records are left out, and all others are compared."""
    monkeypatch.setattr("orchestration.access.kafka.receipts.MOST_RECORDS", 3)
    topic, receipts = new_topic(), new_topic()
    engine = Engine(spark, pipeline_of(topic, receipts), make_settings(tmp_path, broker), broker)
    to = Receipts(receipts, Collector())
    produce(messages(0, 60), bootstrap_servers=broker, topic=topic, receipts=to)
    engine.run()
    produce(messages(60, 150), bootstrap_servers=broker, topic=topic, receipts=to)
    read = [row["partition"] for row in engine.rows("bronze.orders")]
    lost = {partition: read.count(partition) + 4 for partition in range(3)}
    client = AdminClient({"bootstrap.servers": broker})
    for one in client.delete_records([TopicPartition(topic, *place) for place in lost.items()]).values():
        one.result(30)
    unread = account(engine)
    assert sorted(fault.text.partition(" of topic")[0] for fault in unread.faults) == sorted(
        f"retention has deleted offsets {end - 4} to {end - 1}" for end in lost.values()
    )
    assert "are of records not read yet" in note_of(unread)
    accept_all_gaps(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    engine.run()
    found = account(engine)
    assert found.faults == ()
    assert "read as they were sent; 6 are of records that are gone" in note_of(found)


@pytest.mark.long
def test_a_table_that_was_told_to_begin_later_lacks_no_record_before(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestration.access.kafka.receipts.MOST_RECORDS", 10)
    topic, receipts = new_topic(), new_topic()
    produce(messages(0, 150), bootstrap_servers=broker, topic=topic, receipts=Receipts(receipts, Collector()))
    begins = {topic: dict.fromkeys(range(3), 15)}
    pipeline = pipeline_of(topic, receipts, starting_offsets=begins)
    engine = Engine(spark, pipeline, make_settings(tmp_path, broker), broker)
    engine.run()
    found = account(engine)
    assert found.faults == ()
    assert note_of(found).endswith("read as they were sent; 6 are of records that are gone")
