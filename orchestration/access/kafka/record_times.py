"""Reads the timestamp of single records, by partition and offset; values are not looked at.

A consumer without a group that commits nothing: it is assigned one offset per partition, and takes the first
record from there on. Offsets without a record (transaction markers) are passed over.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from common.errors import BrokerError
from orchestration.access.kafka.client_options import create_client, librdkafka_options

_SECONDS = 1.5
_MOST_PARTITIONS = 64
_FETCH_BYTES = 65_536

Place = tuple[str, int, int]
"""Topic, partition, offset."""


class RecordTimes:
    """Reads timestamps by one consumer that stays connected; a record that was read is remembered."""

    def __init__(self) -> None:
        self._consumer: Consumer | None = None
        self._connected: tuple[str, tuple[tuple[str, str], ...]] | None = None
        self._known: dict[Place, int] = {}

    def read(self, bootstrap: str, options: Mapping[str, str], places: set[Place]) -> dict[Place, int]:
        """Kafka timestamps in milliseconds of the first committed records from these places on.

        Reads at most 64 partitions and at most for 1.5 seconds; a place that is missing was not read.

        Raises:
            BrokerError: The topics cannot be read by this user.
        """
        self._known = {place: ms for place, ms in self._known.items() if place in places}
        missing = sorted(places - self._known.keys())[:_MOST_PARTITIONS]
        if missing:
            try:
                self._known |= self._poll(self._open(bootstrap, options), missing)
            except KafkaException as error:
                self.close()
                raise BrokerError(
                    f"The timestamps of unread records at {bootstrap} cannot be read: {error.args[0].str()}. "
                    "Check that this user may read the topics."
                ) from error
        return dict(self._known)

    def close(self) -> None:
        """Disconnect; the next read connects again."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _open(self, bootstrap: str, options: Mapping[str, str]) -> Consumer:
        wanted = (bootstrap, tuple(sorted(options.items())))
        if self._consumer is not None and self._connected != wanted:
            self.close()
        if self._consumer is None:
            config = {
                **librdkafka_options(options),
                "bootstrap.servers": bootstrap,
                "group.id": "medallion-status",  # required by the client; nothing is committed
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": _FETCH_BYTES,
                "queued.max.messages.kbytes": 1024,
                "log_level": 0,
            }
            self._consumer, self._connected = create_client(Consumer, config), wanted
        return self._consumer

    @staticmethod
    def _poll(consumer: Consumer, places: list[Place]) -> dict[Place, int]:
        waiting = {(topic, partition): offset for topic, partition, offset in places}
        consumer.assign([TopicPartition(*place) for place in places])
        found: dict[Place, int] = {}
        deadline = time.monotonic() + _SECONDS
        try:
            while waiting and (left := deadline - time.monotonic()) > 0:
                message = consumer.poll(left)
                if message is None or message.error() is not None:
                    continue
                topic, partition = message.topic(), message.partition()
                at = (topic or "", -1 if partition is None else partition)
                if at in waiting:
                    found[(*at, waiting.pop(at))] = message.timestamp()[1]
                    consumer.incremental_unassign([TopicPartition(*at)])
        finally:
            consumer.unassign()
        return found
