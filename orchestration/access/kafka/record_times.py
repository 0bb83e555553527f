"""Reads the timestamp of single records, by partition and offset; values are not looked at."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException

from common.errors import BrokerError
from orchestration.access.kafka.single_records import Place, first_messages, open_consumer

_SECONDS = 1.5
_MOST_PARTITIONS = 64


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
                found, _ = first_messages(self._open(bootstrap, options), missing, _SECONDS)
                self._known |= {place: message.timestamp()[1] for place, message in found.items()}
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
            self._consumer, self._connected = open_consumer(bootstrap, options), wanted
        return self._consumer
