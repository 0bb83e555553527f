"""Messages into a Kafka topic, at a true rate: the only module with a producer.

Delivery is idempotent and by key, so that what one key says stays in order, and every message that was
counted is in the topic. What the messages are is not decided here.
"""

from __future__ import annotations

import itertools
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from common.declare import Message
from common.errors import BrokerError
from orchestration.kafka.client_options import librdkafka_options

SLICE_SECONDS = 0.01
"""The grain of the rate: what is due is sent this often."""

SLICE_MESSAGES = 2_000
"""At most this many go before the clock, the stop signal and failures are looked at again."""

_REPORT_SECONDS = 0.25
_GRACE_SECONDS = 0.25  # to send what was due in time: rate x seconds messages, unless the broker is too slow
_TIMEOUT_MS = 30_000
_LARGEST_BYTES = 12 * 1024 * 1024  # as much as the embedded broker takes; others have a bound of their own
_UNKNOWN_OPTION = re.compile(r'No such configuration property: "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Produced:
    """How much went, and how long it took.

    Attributes:
        messages: Messages; all of them delivered, when ``produce`` returns it.
        bytes: Of their keys and values, before compression.
        seconds: From the first message to the last delivery.
    """

    messages: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds if self.seconds > 0 else 0.0


class Pace:
    """Says how many messages may go now; measured from the start, so errors never add up.

    A rate of None has no bound. The first message is due at once.
    """

    def __init__(self, rate: float | None, count: int | None, seconds: float | None) -> None:
        self._rate, self._seconds = rate, seconds
        bounds = [] if count is None else [count]
        if rate is not None and seconds is not None:
            bounds.append(math.ceil(rate * seconds))
        self._last = min(bounds, default=None)

    def is_over(self, sent: int, elapsed: float) -> bool:
        """Whether the count is reached or the time is over."""
        if self._last is not None and sent >= self._last:
            return True
        grace = 0 if self._rate is None else _GRACE_SECONDS
        return self._seconds is not None and elapsed >= self._seconds + grace

    def due(self, sent: int, elapsed: float) -> int:
        """How many may go now, at most a slice; zero or less: none."""
        total = sent + SLICE_MESSAGES if self._rate is None else int(self._rate * elapsed) + 1
        if self._last is not None:
            total = min(total, self._last)
        return min(total - sent, SLICE_MESSAGES)

    def rest(self, sent: int, elapsed: float) -> float:
        """Seconds until more may go, once all that is due has gone; at least a slice."""
        if self._rate is None:
            return 0.0
        return min(max(sent / self._rate - elapsed, SLICE_SECONDS), _REPORT_SECONDS)


def produce(  # noqa: PLR0913  # all by name
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
) -> Produced:
    """Send messages until one of the bounds is reached, they end, or ``stop`` is set; then wait for delivery.

    Args:
        messages: Taken in order, no more of them than are sent.
        bootstrap_servers: ``host:port[,host:port…]``.
        topic: Where they go; it must exist, or the broker must make topics by itself.
        options: Kafka client options, as Kafka's Java clients name them; they win over ours.
        rate: Messages per second; None: as fast as the broker takes them.
        count: Send at most so many.
        seconds: Send for at most so long.
        stop: Ends it early, without an error.
        on_progress: Called a few times a second with what was handed over so far.

    Raises:
        BrokerError: A message was not delivered; names the topic and the reason.
    """
    stop = stop or threading.Event()
    pace = Pace(rate, count, seconds)
    outbox = _Outbox(bootstrap_servers, topic, options or {}, stop)
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
        # Also when the messages themselves raise: what was handed over is delivered or told.
        outbox.close()
    return Produced(outbox.sent, outbox.bytes, time.monotonic() - began)


class _Outbox:
    """The producer, and what became of the messages handed to it."""

    def __init__(
        self, bootstrap_servers: str, topic: str, options: Mapping[str, str], stop: threading.Event
    ) -> None:
        self.sent = 0
        self.bytes = 0
        self._address, self._topic, self._stop = bootstrap_servers, topic, stop
        self._failed = 0
        self._reason = ""
        self._trouble = ""
        self._producer = _producer(
            {
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",  # zstd packs tighter, for a third of a core at 100,000/s
                "partitioner": "murmur2_random",  # as Kafka's Java clients do it
                "message.max.bytes": _LARGEST_BYTES,
                "message.timeout.ms": _TIMEOUT_MS,
                "queue.buffering.max.messages": 100_000,
                **librdkafka_options(options),
                "bootstrap.servers": bootstrap_servers,
                "delivery.report.only.error": True,
                "on_delivery": self._undelivered,
                "error_cb": self._troubled,
                "log_level": 0,
            }
        )

    def send(self, messages: Iterable[Message]) -> int:
        """Hand messages over; returns how many. Waits where the queue is full, until a stop."""
        put, topic = self._producer.produce, self._topic
        handed = size = 0
        try:
            for key, value in messages:
                try:
                    put(topic, value, key)
                except BufferError:
                    if not self._put_later(key, value):
                        break
                handed += 1
                size += len(key or b"") + len(value or b"")
        except KafkaException as error:
            self._reason = self._reason or error.args[0].str()
            self._failed += 1
        self.sent += handed
        self.bytes += size
        self._producer.poll(0)
        self._raise_failure()
        return handed

    def close(self) -> None:
        """Wait until everything that was handed over is delivered or has failed."""
        while self._producer.flush(_REPORT_SECONDS):
            self._raise_failure()
        self._raise_failure()

    def _put_later(self, key: bytes | None, value: bytes | None) -> bool:
        while not self._stop.is_set():
            self._producer.poll(SLICE_SECONDS)
            self._raise_failure()
            try:
                self._producer.produce(self._topic, value, key)
            except BufferError:
                continue
            return True
        return False

    def _undelivered(self, error: KafkaError | None, report: Report) -> None:
        if error is not None:
            self._failed += 1
            self._reason = self._reason or error.str()

    def _troubled(self, error: KafkaError) -> None:
        if "brokers are down" not in error.str():
            self._trouble = error.str()

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, 0
        if not failed:
            return
        # The rest would fail the same way, half a minute later.
        self._producer.purge()
        self._producer.flush(1)
        self._failed = 0
        cause = f" ({self._trouble})" if self._trouble else ""
        raise BrokerError(
            f"Topic {self._topic} at {self._address} did not take all messages: {failed:,} failed, "
            f"the first with: {self._reason}{cause}. Check that the broker runs, that the topic exists, and "
            "that this user may write to it; what was delivered before stays."
        )


def _producer(config: dict[str, Any]) -> Producer:
    """A producer; an option that only Kafka's Java clients know, and that guards nothing, is left out."""
    while True:
        try:
            return Producer(config)
        except KafkaException as error:
            said = error.args[0].str()
            unknown = _UNKNOWN_OPTION.search(said)
            if unknown and unknown[1] in config and not unknown[1].startswith(("ssl.", "sasl.", "security.")):
                del config[unknown[1]]
                continue
            raise BrokerError(
                f"A Kafka client option does not fit: {said}. Options are those of kafka.options and of "
                "kafka=… in the pipeline."
            ) from error
