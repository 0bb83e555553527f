"""Sends messages to a Kafka topic at a given rate; the only module with a producer.

Delivery is idempotent and partitioned by key, so messages of one key stay in order, and every counted message
is in the topic. The caller provides the messages.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from common.declare import Message
from common.errors import BrokerError
from orchestration.access.kafka.client_options import create_client, librdkafka_options
from orchestration.access.kafka.receipts import Collector, record_digest

SLICE_SECONDS = 0.01
"""Length of a slice: due messages are sent this often."""

SLICE_MESSAGES = 2_000
"""At most this many messages are sent before the clock, the stop signal and failures are checked again."""

_REPORT_SECONDS = 0.25
_GRACE_SECONDS = 0.25  # extra time to send the last due messages, so that rate x seconds messages are sent
_TIMEOUT_MS = 30_000
_LARGEST_BYTES = 12 * 1024 * 1024  # the embedded broker's limit; other brokers have limits of their own


@dataclass(frozen=True, slots=True)
class Produced:
    """The number of messages sent, and the duration."""

    messages: int  # number of messages; all are delivered when ``produce`` returns
    bytes: int  # size of their keys and values before compression
    seconds: float  # time from the first message to the last delivery

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds if self.seconds > 0 else 0.0


class Pace:
    """Computes how many messages are due. Time is measured from the start, so errors do not accumulate.

    A rate of None is unlimited. The first message is due at once.
    """

    def __init__(self, rate: float | None, count: int | None, seconds: float | None) -> None:
        self._rate, self._seconds = rate, seconds
        bounds = [] if count is None else [count]
        if rate is not None and seconds is not None:
            bounds.append(math.ceil(rate * seconds))
        self._last = min(bounds, default=None)

    def is_over(self, sent: int, elapsed: float) -> bool:
        """Whether the message count or the duration is reached."""
        if self._last is not None and sent >= self._last:
            return True
        grace = 0 if self._rate is None else _GRACE_SECONDS
        return self._seconds is not None and elapsed >= self._seconds + grace

    def due(self, sent: int, elapsed: float) -> int:
        """How many messages are due, at most one slice; none if zero or negative."""
        total = sent + SLICE_MESSAGES if self._rate is None else int(self._rate * elapsed) + 1
        if self._last is not None:
            total = min(total, self._last)
        return min(total - sent, SLICE_MESSAGES)

    def rest(self, sent: int, elapsed: float) -> float:
        """Seconds until more messages are due, at least one slice; call it after all due ones were sent."""
        if self._rate is None:
            return 0.0
        return min(max(sent / self._rate - elapsed, SLICE_SECONDS), _REPORT_SECONDS)


def produce(  # noqa: PLR0913  # all options are keyword arguments
    messages: Iterable[Message],
    *,
    bootstrap_servers: str,
    topic: str,
    options: Mapping[str, str] | None = None,
    rate: float | None = None,
    count: int | None = None,
    seconds: float | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Produced], None] | None = None,
    receipts: Receipts | None = None,
) -> Produced:
    """Send messages until a limit is reached, they end, or ``stop`` is set; then wait for delivery.

    Args:
        messages: The messages, consumed in order and only as far as they are sent.
        bootstrap_servers: ``host:port[,host:port…]``.
        topic: The topic, which must exist unless the broker creates topics by itself.
        options: Kafka client options with the names of Kafka's Java clients; they win over the engine's.
        rate: Messages per second; None: as fast as the broker takes them.
        stop: Ends the sending early, without an error.
        on_progress: Called a few times per second with the messages sent so far.
        receipts: Where receipts of the delivered messages are sent; None: nowhere.

    Raises:
        BrokerError: A message was not delivered; names the topic and the reason.
    """
    stop = stop or threading.Event()
    pace = Pace(rate, count, seconds)
    outbox = _Outbox(bootstrap_servers, topic, options or {}, stop, receipts)
    source = iter(messages)
    began = reported = time.monotonic()
    try:
        while not stop.is_set():
            elapsed = time.monotonic() - began
            if pace.is_over(outbox.sent, elapsed):
                break
            due = pace.due(outbox.sent, elapsed)
            if due > 0 and outbox.send(itertools.islice(source, due)) < due:
                break
            if on_progress and began + elapsed - reported >= _REPORT_SECONDS:
                reported = began + elapsed
                on_progress(Produced(outbox.sent, outbox.bytes, elapsed))
            if due < SLICE_MESSAGES:
                stop.wait(pace.rest(outbox.sent, time.monotonic() - began))
    finally:
        # Also if the iterator of messages raises: every sent message is delivered or its failure reported.
        outbox.close()
    return Produced(outbox.sent, outbox.bytes, time.monotonic() - began)


def _text(error: KafkaError) -> str:
    """What the client says of an error, which for some codes is only the code's name."""
    return error.str() or error.name()


@dataclass
class Receipts:
    """Makes the receipts of one run, as messages."""

    topic: str  # the topic of the receipts
    collector: Collector  # what was acknowledged
    key: str | None = None  # signs them; None: they have no signature

    def acknowledged(self, report: Report) -> None:
        """Note a message that the broker has taken."""
        topic, partition, offset = report.topic(), report.partition(), report.offset()
        assert topic is not None  # noqa: S101  # the client sets all three of a delivered message
        assert partition is not None  # noqa: S101
        assert offset is not None  # noqa: S101
        digest = record_digest(_bytes(report.key()), _bytes(report.value()))
        self.collector.acknowledged(topic, partition, offset, digest)

    def due(self, *, is_end: bool) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of the receipts that are due."""
        for receipt in self.collector.receipts(is_end=is_end):
            yield (receipt if self.key is None else receipt.with_signature(self.key)).message()


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


class _Outbox:
    """The producer, with the number of sent messages and the failures of delivery."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        options: Mapping[str, str],
        stop: threading.Event,
        receipts: Receipts | None,
    ) -> None:
        self._receipts = receipts
        self.sent = 0
        self.bytes = 0
        self._address, self._topic, self._stop = bootstrap_servers, topic, stop
        self._failed = 0
        self._reason = ""
        self._connection_error = ""
        self._producer = create_client(
            Producer,
            {
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",  # zstd compresses better, but costs a third of a core at 100,000/s
                "partitioner": "murmur2_random",  # the default of Kafka's Java clients
                "message.max.bytes": _LARGEST_BYTES,
                "message.timeout.ms": _TIMEOUT_MS,
                "queue.buffering.max.messages": 100_000,
                **librdkafka_options(options),
                "bootstrap.servers": bootstrap_servers,
                "delivery.report.only.error": receipts is None,
                "on_delivery": self._on_delivery,
                "error_cb": self._on_connection_error,
                "log_level": 0,
            },
        )

    def send(self, messages: Iterable[Message]) -> int:
        """Send messages and return their number. Waits while the queue is full, until a stop."""
        put, topic = self._producer.produce, self._topic
        count = size = 0
        try:
            for key, value in messages:
                try:
                    put(topic, value, key)
                except BufferError:
                    if not self._send_when_possible(key, value):
                        break
                count += 1
                size += len(key or b"") + len(value or b"")
        except KafkaException as error:
            self._reason = self._reason or _text(error.args[0])
            self._failed += 1
        self.sent += count
        self.bytes += size
        self._reports(lambda: self._producer.poll(0))
        if self._receipts is not None:
            self._send_receipts(is_end=False)
        self._raise_failure()
        return count

    def close(self) -> None:
        """Wait until every sent message is delivered or has failed."""
        self._flush()
        if self._receipts is not None:
            self._send_receipts(is_end=True)
            self._flush()

    def _flush(self) -> None:
        while self._reports(lambda: self._producer.flush(_REPORT_SECONDS)):
            self._raise_failure()
        self._raise_failure()

    def _send_receipts(self, *, is_end: bool) -> None:
        """Send the receipts that are due, behind the messages that they are of."""
        assert self._receipts is not None  # noqa: S101  # callers have looked
        for key, value in self._receipts.due(is_end=is_end):
            while not self._put_receipt(self._receipts.topic, key, value):
                self._reports(lambda: self._producer.poll(SLICE_SECONDS))
                self._raise_failure()

    def _put_receipt(self, topic: str, key: bytes, value: bytes) -> bool:
        """Whether the queue has room for a receipt; one partition keeps them in the order of numbers."""
        try:
            self._producer.produce(topic, value, key, 0)
        except BufferError:
            return False
        return True

    def _send_when_possible(self, key: bytes | None, value: bytes | None) -> bool:
        while not self._stop.is_set():
            self._reports(lambda: self._producer.poll(SLICE_SECONDS))
            self._raise_failure()
            try:
                self._producer.produce(self._topic, value, key)
            except BufferError:
                continue
            return True
        return False

    def _reports(self, call: Callable[[], int]) -> int:
        """Let the client call back; returns what it returns, 0 after a failure that it cannot report.

        The client raises SystemError out of the reports of messages that a broker has refused to authorize.
        """
        try:
            return call()
        except SystemError:
            self._failed += 1
            self._reason = self._reason or "the broker refused to authorize the messages"
            return 0

    def _on_delivery(self, error: KafkaError | None, report: Report) -> None:
        if error is not None:
            self._failed += 1
            self._reason = self._reason or _text(error)
        elif self._receipts is not None and report.topic() != self._receipts.topic:
            self._receipts.acknowledged(report)

    def _on_connection_error(self, error: KafkaError) -> None:
        if "brokers are down" not in _text(error):
            self._connection_error = _text(error)

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, 0
        if not failed:
            return
        # The remaining messages would fail the same way, half a minute later.
        self._producer.purge()
        self._reports(lambda: self._producer.flush(1))
        self._failed = 0
        cause = f" ({self._connection_error})" if self._connection_error else ""
        raise BrokerError(
            f"Topic {self._topic} at {self._address} did not take all messages: {failed:,} failed, "
            f"the first with: {self._reason}{cause}. Check that the broker runs, that the topic exists, and "
            "that this user may write to it; what was delivered before stays."
        )
