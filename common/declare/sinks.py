"""Publish, which sends the rows of a table on, and the sinks it sends them to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, ClassVar

from common.declare.declared import declared
from common.declare.field_types import Expressions, TableName
from common.declare.table_options import Reading
from common.errors import Fault


@declared
class KafkaSink:
    """Sends rows as messages to a Kafka topic. At least once: a replayed micro-batch is sent again."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"topic": '"alerts"'}

    topic: str
    """The topic."""
    key: str | None = None
    """SQL text of the message's key; unset: no key."""
    value: str | None = None
    """SQL text of the message's value; unset: the row as a JSON object."""
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kafka client options, such as ``{"bootstrap.servers": "…"}``; they override the pipeline's."""


@declared
class ForeachSink:
    """Passes each row to the user's object, as Spark's ``foreach`` does. At least once."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"writer": "SendMail()"}

    writer: Any
    """A function of a row; or an object with ``process(row)``, and optionally ``open(partition_id,
    epoch_id)`` and ``close(error)``.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not callable(self.writer) and not hasattr(self.writer, "process"):
            yield Fault("MED-1103", "writer needs a method process(row), or is a function of a row")


@declared
class ConsoleSink:
    """Prints rows on the terminal, for development."""

    rows: int = 20
    """Most rows printed of each micro-batch."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.rows < 1:
            yield Fault("MED-1104", f"rows is {self.rows}; it must be at least 1")


@declared
class Publish:
    """Sends the new and changed rows of a table to a sink."""

    LAYER: ClassVar[str] = "publish"
    EXAMPLES: ClassVar[Mapping[str, str]] = {"reads": '"gold.orders_latest"', "to": 'KafkaSink("orders")'}

    name: TableName
    """The query and its checkpoint: ``publish.<name>``."""
    reads: str
    """A silver or gold table; a gold table whose rows change needs ``Storage(change_feed=True)``."""
    to: KafkaSink | ForeachSink | ConsoleSink
    """A KafkaSink, a ForeachSink or a ConsoleSink."""
    columns: Expressions | None = None
    """Columns to send, or ``{"name": "SQL expression"}``; unset: all."""
    where: str | None = None
    """SQL condition; only rows that meet it are sent."""
    deletes: bool = False
    """Also send deleted rows, and with ``where`` those that an update makes leave the condition, as they
    were before; they have ``delete`` in ``_change_type``.
    """
    reading: Reading = field(default_factory=Reading)
    """How the table is read."""

    @property
    def table(self) -> str:
        """``publish.<name>``: the name of the query and its checkpoint; there is no table of that name."""
        return f"publish.{self.name}"
