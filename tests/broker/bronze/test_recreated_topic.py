"""A topic that is deleted and created again is refused, and read beside the former one by one command."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from common.declare import Message, Pipeline
from common.errors import TopicChangedError, UsageError
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.topic_state import broker_topics, topic_ids
from orchestration.change.recover.startable import NewTopics, recover
from orchestration.records.audit.audit import audit
from orchestration.records.audit.result import Account
from orchestration.run.job import open_broker, require_topics
from orchestration.run.topic_checks import TopicWatch, broker_asker
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.orders import orders_pipeline

BEFORE = 20
NEW = {"more": 30, "equal": BEFORE, "fewer": 7}


def pipeline(topic: str) -> Pipeline:
    """Bronze and silver."""
    return orders_pipeline(topic, watermark="1 hour")


def messages(first: int, count: int) -> list[Message]:
    """Events whose ids count up, and a value that is no JSON in every ten."""
    return [
        Message(b"k", b"{" if n % 10 == 9 else json.dumps({"id": n, "ms": 1_700_000_000_000 + n}).encode())
        for n in range(first, first + count)
    ]


class Recreated:
    """A pipeline whose topic was read, and that can be deleted and created again."""

    def __init__(self, engine: Engine, topic: str, send: Callable[[str, list[Message]], None]) -> None:
        self.engine, self.topic, self._send = engine, topic, send
        self.sent: list[Message] = []

    def send(self, count: int) -> None:
        """Send new events."""
        new = messages(len(self.sent), count)
        self.sent += new
        self._send(self.topic, new)

    def delete_topic(self) -> None:
        """Delete the topic, and wait until the broker knows it no more."""
        client = AdminClient({"bootstrap.servers": self.engine.broker})
        client.delete_topics([self.topic])[self.topic].result()
        deadline = time.monotonic() + 30
        while topic_ids(self.engine.broker, [self.topic], {}):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def create_topic(self) -> None:
        """Create the topic."""
        kafka.ensure_topics(self.engine.broker, [self.topic], 3, {})

    def recover(self, topics: NewTopics, *, is_plan: bool = False) -> tuple[str, ...]:
        """Recover bronze; returns what was done."""
        engine = self.engine
        return recover(
            engine.pipeline, engine.settings, engine.layout, "bronze.orders", topics, is_plan=is_plan
        ).steps

    def audit(self) -> Account:
        """The account of silver, compared with the broker."""
        engine = self.engine
        ask = broker_asker(engine.pipeline, engine.settings, engine.layout)
        silver = engine.pipeline.silver[0]
        return audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0, ask=ask)

    def versions(self) -> list[int]:
        """Versions of the tables."""
        return [self.engine.version(table) for table in ("bronze.orders", "silver.orders")]

    def refused(self, words: str) -> str:
        """A start of bronze is refused and writes nothing; returns the message."""
        before = self.versions()
        with pytest.raises(TopicChangedError, match=words) as refusal:
            self.engine.run("bronze")
        assert self.versions() == before
        return str(refusal.value)

    def check(self) -> None:
        """Every message that was sent is in bronze once, and in silver or quarantine once."""
        rows = {
            table: self.engine.rows(table)
            for table in ("bronze.orders", "silver.orders", "silver.orders__quarantine")
        }
        values = Counter(message.value for message in self.sent)
        assert Counter(row["value"] for row in rows["bronze.orders"]) == values
        places = Counter((row["topic"], row["partition"], row["offset"]) for row in rows["bronze.orders"])
        assert max(places.values()) == 1
        good = [n for n in range(len(self.sent)) if n % 10 != 9]
        assert Counter(row["id"] for row in rows["silver.orders"]) == Counter(good)
        assert len(rows["silver.orders__quarantine"]) == len(self.sent) - len(good)


@pytest.fixture
def read(spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path) -> Recreated:
    """Twenty records read."""
    made = Recreated(Engine(spark, pipeline(topic), make_settings(tmp_path, broker), broker), topic, send)
    made.send(BEFORE)
    made.engine.run()
    return made


def refuse_and_recover(read: Recreated, new: int, *, is_audited_between: bool) -> None:
    """The start and the audit notice the new topic; one command has it read from its first record."""
    if is_audited_between:
        account = read.audit()
        assert (account.faults, account.not_compared) == ((), "")
    read.delete_topic()
    assert f"medallion recover bronze.orders --new-topic {read.topic}" in read.refused("is gone at")
    assert not is_audited_between or [fault.name for fault in read.audit().faults] == ["topic"]
    with pytest.raises(TopicChangedError, match="is gone at"):
        require_topics(read.engine.pipeline, read.engine.settings, read.engine.broker)
    with pytest.raises(TopicChangedError, match="does not exist"):
        read.recover(NewTopics(new=[read.topic]))
    read.create_topic()
    read.send(new)
    text = read.refused("is another one than bronze has read: it was deleted and created again")
    assert f"--same-topic {read.topic}" in text
    assert [fault.name for fault in read.audit().faults] == ["topic"]

    before = read.versions()
    plan = read.recover(NewTopics(new=[read.topic]), is_plan=True)
    assert read.versions() == before
    steps = read.recover(NewTopics(new=[read.topic]))
    assert steps[: len(plan)] == plan
    assert f"its rows have topic = '{read.topic}#2'" in steps[0]
    assert read.versions() == [before[0] + 1, before[1]]
    read.engine.run()
    read.check()
    topics = Counter(row["topic"] for row in read.engine.rows("bronze.orders"))
    assert topics == {read.topic: BEFORE, f"{read.topic}#2": new}
    account = read.audit()
    assert (account.faults, account.not_compared, account.offsets) == ((), "", BEFORE + new)


def test_a_topic_that_was_created_again_is_refused_and_read_by_one_command(read: Recreated) -> None:
    refuse_and_recover(read, NEW["more"], is_audited_between=False)


@pytest.mark.long
@pytest.mark.parametrize("new", ["equal", "fewer"])
def test_with_as_many_or_fewer_records_too(read: Recreated, new: str) -> None:
    refuse_and_recover(read, NEW[new], is_audited_between=True)
    # It goes on as any other topic.
    read.send(5)
    read.engine.run()
    read.check()
    read.delete_topic()
    read.create_topic()
    read.send(3)
    assert f"'{read.topic}#3'" in read.recover(NewTopics(new=[read.topic]))[0]
    read.engine.run()
    read.check()
    assert read.audit().faults == ()


@pytest.mark.long
def test_an_interrupted_recovery_is_finished_by_the_same_command(
    read: Recreated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the table's commit and the checkpoint's."""
    read.delete_topic()
    read.create_topic()
    read.send(12)

    def killed(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("orchestration.change.recover.startable.repair", killed)
        with pytest.raises(OSError, match="no space left"):
            read.recover(NewTopics(new=[read.topic]))
    version = read.engine.version("bronze.orders")
    assert read.recover(NewTopics(new=[read.topic]))
    assert read.engine.version("bronze.orders") == version
    assert read.recover(NewTopics()) == ()
    read.engine.run()
    read.check()


@pytest.mark.long
def test_a_copy_of_the_topic_goes_on_at_the_same_offsets(read: Recreated) -> None:
    """As after a move to another cluster with the offsets kept."""
    read.delete_topic()
    read.create_topic()
    read._send(read.topic, read.sent)
    read.refused("is another one than bronze has read")
    placed = Counter(row["partition"] for row in read.engine.rows("bronze.orders"))
    ends = broker_topics(read.engine.broker, [read.topic], {})[read.topic].end
    assert {number: end for number, end in ends.items() if end} == placed
    (first, *_) = read.recover(NewTopics(same=[read.topic]))
    assert "from now on" in first
    read.send(6)
    read.engine.run()
    read.check()
    assert read.audit().faults == ()


@pytest.mark.long
def test_a_job_that_runs_stops_when_its_topic_is_created_again(read: Recreated) -> None:
    from orchestration.run.topic_checks import topic_identity

    engine = read.engine
    (declared,) = engine.pipeline.bronze
    identity = topic_identity(engine.pipeline, engine.settings, engine.layout, declared, engine.broker)
    watch = TopicWatch(
        {declared.table: identity}, lambda _, names: topic_ids(engine.broker, names, {}), seconds=0.1
    )
    with watch.running():
        time.sleep(1)
        assert watch.failure() is None
        read.delete_topic()
        read.create_topic()
        deadline = time.monotonic() + 30
        while watch.failure() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert f"topic {read.topic} was" in str(watch.failure())


@pytest.mark.long
def test_a_topic_of_which_nothing_was_read_may_be_created_again(
    spark: Any, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    made = Recreated(Engine(spark, pipeline(topic), make_settings(tmp_path, broker), broker), topic, send)
    made.engine.run("bronze")
    made.delete_topic()
    made.create_topic()
    made.send(4)
    made.engine.run()
    made.check()


@pytest.mark.long
def test_topics_that_cannot_be_recovered_are_refused(read: Recreated) -> None:
    with pytest.raises(UsageError, match="has read no topic nothing"):
        read.recover(NewTopics(new=["nothing"]))
    assert read.recover(NewTopics(new=[read.topic])) == ()  # the topic is the one that bronze reads
    engine = read.engine
    with pytest.raises(UsageError, match="are for bronze tables"):
        recover(engine.pipeline, engine.settings, engine.layout, "silver.orders", NewTopics(new=["x"]))


@pytest.mark.long
def test_the_embedded_broker_never_creates_a_topic_again_that_bronze_has_read(read: Recreated) -> None:
    """A broker of its own, as after ``data_dir/kafka`` was deleted."""
    engine = read.engine
    settings = engine.settings.model_copy(
        update={"kafka": engine.settings.kafka.model_copy(update={"bootstrap_servers": None, "heap_mb": 256})}
    )
    with (
        pytest.raises(TopicChangedError, match="no topic was created"),
        open_broker(engine.pipeline, settings),
    ):
        pass
    with open_broker(engine.pipeline, settings, new_topics=[read.topic]) as address:
        assert topic_ids(address, [read.topic], {})
