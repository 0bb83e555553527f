"""The coordinates of one record, by which commands name it and tables are searched for its rows."""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import UsageError
from common.sql.quoting import double_quoted, standard_text


@dataclass(frozen=True, slots=True)
class Place:
    """One record of Kafka; the topic is named as bronze's rows name it."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Place:
        """A place from ``topic/partition/offset``.

        Raises:
            UsageError: The text is none.
        """
        topic, _, rest = text.partition("/")
        partition, _, offset = rest.partition("/")
        if not (topic and partition.isdigit() and offset.isdigit()):
            raise UsageError(f"--offset {text!r} is not topic/partition/offset, such as orders/3/1842")
        return cls(topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    def condition(self, prefix: str = "") -> str:
        """The SQL condition by which the record's rows are found; ``_kafka_`` before silver's columns."""
        names = (double_quoted(f"{prefix}{name}") for name in ("topic", "partition", "offset"))
        topic, partition, offset = names
        named = f"{topic} = {standard_text(self.topic)} AND {partition} = {self.partition}"
        return f"{named} AND {offset} = {self.offset}"
