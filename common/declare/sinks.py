"""Publish, which sends the rows of a table on, and the sinks it sends them to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, ClassVar

from common.declare.declared import declared
from common.declare.field_types import Expressions, TableName
from common.declare.table_options import Reading


@declared
class KafkaSink:
    """Rows as messages of a Kafka topic. At least once: a replayed micro-batch is sent again.

    Attributes:
        topic: The topic.
        key: SQL text, or unset for no key.
        value: SQL text; unset: the row as a JSON object.
        kafka: Kafka client options, such as ``{"bootstrap.servers": "…"}``; unset ones are the pipeline's.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"topic": '"alerts"'}

    topic: str
    key: str | None = None
    value: str | None = None
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@declared
class ForeachSink:
    """Rows handed one by one to an object of the user's own, as Spark's ``foreach`` does. At least once.

    Attributes:
        writer: Has ``process(row)``, and may have ``open(partition_id, epoch_id)`` and ``close(error)``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"writer": "SendMail()"}

    writer: Any

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if not callable(self.writer) and not hasattr(self.writer, "process"):
            yield "writer needs a method process(row), or is a function of a row"


@declared
class ConsoleSink:
    """Rows on the terminal, for development.

    Attributes:
        rows: Rows shown of each micro-batch.
    """

    rows: int = 20

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if self.rows < 1:
            yield f"rows is {self.rows}: a row at least is shown of each micro-batch"


@declared
class Publish:
    """Rows of a table, sent on as they come to be.

    Attributes:
        name: Names the query and its checkpoint: ``publish.<name>``.
        reads: A silver or gold table; a gold table whose rows change needs ``Storage(change_feed=True)``.
        to: A KafkaSink, a ForeachSink or a ConsoleSink.
        columns: Columns sent, or ``{"name": "SQL expression"}``; unset: all.
        where: SQL text; rows that do not meet it are not sent.
        deletes: Send rows that were deleted, too; they have ``_change_type`` ``delete``.
        reading: How the table is read.
    """

    LAYER: ClassVar[str] = "publish"
    EXAMPLES: ClassVar[Mapping[str, str]] = {"reads": '"gold.orders_latest"', "to": 'KafkaSink("orders")'}

    name: TableName
    reads: str
    to: KafkaSink | ForeachSink | ConsoleSink
    columns: Expressions | None = None
    where: str | None = None
    deletes: bool = False
    reading: Reading = field(default_factory=Reading)

    @property
    def table(self) -> str:
        """``publish.<name>``: what its query and checkpoint are called; there is no such table."""
        return f"publish.{self.name}"
