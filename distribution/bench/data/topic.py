"""The broker and the topics that contenders read: the product's own development broker, in a folder.

    with running(folder) as broker:
        source = filled(broker, "drain", Stream(), 100_000)

A topic that has been filled is only read: all contenders of a workload read the same one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from common.config.settings import load_settings
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.access.embedded_broker.lifecycle import Broker
from orchestration.access.kafka import client as kafka
from distribution.bench.data.events import PARTITIONS, Batch, Stream
from distribution.bench.measure.oracle import batches

_FLUSH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Source:
    """What a contender reads.

    Attributes:
        bootstrap_servers: The broker's address.
        topic: Its topic, of ``PARTITIONS`` partitions.
    """

    bootstrap_servers: str
    topic: str


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker of its own in a folder; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "medallion.yaml").touch()
    settings = load_settings(file=folder / "medallion.yaml", overrides=[f"data_dir={folder}"])
    with embedded.start(settings) as broker:
        yield broker


def made(broker: Broker, topic: str) -> Source:
    """A new topic, empty."""
    kafka.ensure_topics(broker.bootstrap_servers, [topic], PARTITIONS, {})
    return Source(broker.bootstrap_servers, topic)


def filled(broker: Broker, topic: str, stream: Stream, messages: int) -> Source:
    """A new topic with the first messages of a stream."""
    source = made(broker, topic)
    outbox = Outbox(source, linger_ms=50)
    for batch in batches(stream, messages):
        outbox.send(letters(batch))
    outbox.close()
    return source


Letter = tuple[bytes, bytes, int]
"""Key, value, partition."""


def letters(batch: Batch) -> Iterator[Letter]:
    """The messages of a batch as an outbox takes them."""
    return zip(batch.keys(), batch.values(), batch.partition.tolist(), strict=True)


class Outbox:
    """Sends batches to a topic, compressed, each message to its partition; loses none without a word."""

    def __init__(self, source: Source, *, linger_ms: int) -> None:
        self._topic = source.topic
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": source.bootstrap_servers,
                "compression.type": "lz4",
                "linger.ms": linger_ms,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
                "enable.idempotence": True,
                "log_level": 3,
            }
        )

    def send(self, messages: Iterable[Letter]) -> None:
        """Hand messages over; they are on their way at the latest after the outbox's linger time."""
        produce, topic = self._producer.produce, self._topic
        for key, value, partition in messages:
            while True:
                try:
                    produce(topic, value, key, partition, on_delivery=self._delivered)
                    break
                except BufferError:  # its queue is full
                    self._producer.poll(0.05)
        self._producer.poll(0)

    def close(self) -> None:
        """Return once the broker has everything.

        Raises:
            RuntimeError: It has not.
        """
        deadline = time.monotonic() + _FLUSH_SECONDS
        while self._producer.flush(1.0) and time.monotonic() < deadline:
            pass
        if left := len(self._producer):
            raise RuntimeError(f"{left:,} messages did not reach the broker within {_FLUSH_SECONDS:.0f} s")
        if self._failures:
            raise RuntimeError(f"{len(self._failures):,} messages were refused, such as: {self._failures[0]}")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(str(error))
