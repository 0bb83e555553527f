"""Producing into a real broker: everything arrives once, in order by key, and a second run goes on."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from common.declare import Message
from common.errors import BrokerError
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.producer import produce
from tests.support.documents import printed_documents as documents

ROOT = Path(__file__).parents[3]
PIPELINE = ROOT / "examples" / "earthquakes" / "pipeline.py"


def quakes() -> Iterator[Message]:
    """The example's messages for seed 7."""
    sample = load_pipeline(PIPELINE).bronze[0].sample
    assert sample is not None
    return sample(7)


def stored(broker: str, topic: str) -> dict[int, list[Message]]:
    """Everything in a topic, by partition, in order of offsets."""
    ends = kafka.end_offsets(broker, [topic], {})[topic]
    found: dict[int, list[Message]] = {number: [] for number in ends}
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    deadline = time.monotonic() + 30
    while sum(map(len, found.values())) < sum(ends.values()):
        assert time.monotonic() < deadline, "not everything could be read back"
        for record in consumer.consume(5_000, timeout=0.5):
            assert record.error() is None
            assert record.offset() == len(found[record.partition()])
            found[record.partition()].append(Message(record.key(), record.value()))
    consumer.close()
    return found


def by_key(messages: list[Message]) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key, in order."""
    values: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for message in messages:
        values[message.key].append(message.value)
    return values


def test_every_message_arrives_once_and_in_order_by_key(broker: str, topic: str) -> None:
    done = produce(quakes(), bootstrap_servers=broker, topic=topic, count=20_000)
    sent = list(itertools.islice(quakes(), 20_000))
    partitions = stored(broker, topic)
    assert done.messages == 20_000
    assert done.bytes == sum(len(key or b"") + len(value or b"") for key, value in sent)
    assert by_key([message for found in partitions.values() for message in found]) == by_key(sent)
    keys = [{message.key for message in found} for found in partitions.values()]
    assert len(keys) == 3
    assert all(keys)
    assert not keys[0] & keys[1] | keys[1] & keys[2] | keys[0] & keys[2]


def test_a_rate_that_the_machine_can_hold_is_held(broker: str, topic: str) -> None:
    done = produce(quakes(), bootstrap_servers=broker, topic=topic, rate=500, seconds=2)
    assert done.messages == 1_000
    assert 2.0 - 0.01 <= done.seconds < 3.0


def test_a_stop_leaves_exactly_what_is_told_in_the_topic(broker: str, topic: str) -> None:
    stop = threading.Event()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    done = produce(quakes(), bootstrap_servers=broker, topic=topic, rate=5_000, stop=stop)
    assert 0 < done.messages < 5_000
    assert sum(kafka.end_offsets(broker, [topic], {})[topic].values()) == done.messages


def test_a_topic_that_refuses_a_message_is_told(broker: str, topic: str) -> None:
    with pytest.raises(BrokerError, match=f"Topic {topic} at {broker}") as told:
        produce(
            [Message(b"k", b"x" * 40_000_000)],
            bootstrap_servers=broker,
            topic=topic,
            options={"message.max.bytes": "50000000", "compression.type": "none"},
        )
    assert "1 failed" in str(told.value)


@pytest.fixture(name="feed")
def _feed(tmp_path: Path, topic: str) -> Path:
    """The example's pipeline, reading a topic of this test."""
    text = f"""
from dataclasses import replace
import sys
sys.path.insert(0, {str(PIPELINE.parent)!r})
from pipeline import pipeline as example
bronze = [replace(example.bronze[0], topics=[{topic!r}])]
pipeline = replace(example, bronze=bronze)
"""
    file = tmp_path / "feed.py"
    file.write_text(text)
    return file


@pytest.fixture(name="medallion")
def _medallion(feed: Path, tmp_path: Path, broker: str) -> Callable[..., list[str]]:
    """The command line of ``medallion produce`` on the run's broker."""
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"kafka:\n  bootstrap_servers: {broker}\ndata_dir: {tmp_path / 'data'}\n")
    head = [sys.executable, "-m", "orchestration", "produce", "-p", str(feed), "--settings", str(settings)]
    return lambda *options: [*head, *options]


@pytest.mark.long
def test_a_second_run_goes_on_where_the_first_ended(
    medallion: Callable[..., list[str]], broker: str, topic: str
) -> None:
    texts = [
        subprocess.check_output(medallion("--count", count, "--rate", "max", "--json"), cwd=ROOT, text=True)
        for count in ("300", "200")
    ]
    runs = [documents.printed(["produce"], text) for text in texts]
    assert [run["skipped"] for run in runs] == [0, 300]
    assert [run["messages"] for run in runs] == [300, 200]
    found = [message for messages in stored(broker, topic).values() for message in messages]
    assert by_key(found) == by_key(list(itertools.islice(quakes(), 500)))


@pytest.mark.long
def test_ctrl_c_ends_it_with_everything_delivered_and_exit_code_0(
    medallion: Callable[..., list[str]], broker: str, topic: str
) -> None:
    running = subprocess.Popen(
        medallion("--rate", "200"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while not sum(kafka.end_offsets(broker, [topic], {})[topic].values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    total = sum(kafka.end_offsets(broker, [topic], {})[topic].values())
    assert running.returncode == 0
    assert out.startswith(f"{topic}: {total:,} messages (")
    assert "continues after them" in err


@pytest.mark.long
def test_a_topic_that_is_not_on_a_named_broker_is_not_made(
    medallion: Callable[..., list[str]], feed: Path, broker: str, topic: str
) -> None:
    feed.write_text(feed.read_text().replace(repr(topic), "'nowhere'"))
    done = subprocess.run(medallion("--count", "1"), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Topic nowhere does not exist at {broker}" in done.stderr
    assert "nowhere" not in kafka.topic_names(broker, {})


@pytest.mark.long
def test_a_capture_arrives_line_by_line_with_its_keys(
    medallion: Callable[..., list[str]], tmp_path: Path, broker: str, topic: str
) -> None:
    lines = [b'{"a":{"b":"x"},"n":%d}' % number for number in range(50)] + [b"no json", b""]
    capture = tmp_path / "capture.jsonl"
    capture.write_bytes(b"\n".join(lines) + b"\n")
    options = ("--from-file", str(capture), "--key-field", "a.b", "--rate", "max")
    for _ in range(2):  # a capture is replayed whole each time
        subprocess.run(medallion(*options), cwd=ROOT, capture_output=True, check=True)
    found = [message for messages in stored(broker, topic).values() for message in messages]
    assert sorted(message.value or b"" for message in found) == sorted(lines * 2)
    assert by_key(found)[b"x"] == lines[:50] * 2
    assert by_key(found).keys() == {b"x", None}
