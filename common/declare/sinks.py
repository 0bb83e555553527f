"""Publish, which sends the rows of a table on, and the sinks it sends them to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from common.declare.declared import ADDED_LATER, absolute, declared
from common.declare.field_types import (
    Count,
    Expressions,
    TableName,
    arity_fault,
    topic_fault,
)
from common.declare.table_options import Paced, Reading
from common.declare.value_formats import Avro, Protobuf
from common.errors import Fault
from common.reserved_kafka_options import OF_A_PRODUCER, reserved_option


def _part(value: object) -> object:
    if value is None or isinstance(value, str | Avro | Protobuf):
        return value
    raise ValueError("must be SQL text, Avro(…) or Protobuf(…); a value that is left out is the row as JSON")


MessagePart = Annotated[str | Avro | Protobuf | None, BeforeValidator(_part)]
"""SQL text, or the format of a message's key or value."""


@declared
class KafkaSink:
    """Sends rows as messages to a Kafka topic. At least once: a replayed micro-batch is sent again."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"topic": '"alerts"'}

    topic: str
    """The topic."""
    key: MessagePart = None
    """SQL text of the message's key; or ``Avro`` or ``Protobuf``: the columns that the schema names as its
    fields; unset: no key.
    """
    value: MessagePart = None
    """SQL text of the message's value; or ``Avro`` or ``Protobuf``, as for the key; unset: the row as a JSON
    object, nulls included.
    """
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Kafka client options, such as ``{"bootstrap.servers": "…"}``; they override the pipeline's."""
    headers: Expressions | None = field(default=None, kw_only=True)
    """Columns sent as headers, or ``{"name": "SQL expression"}``."""
    partition: str | None = field(default=None, kw_only=True)
    """SQL text of the partition's number; unset or null: by the key."""
    register_schemas: bool = field(default=False, kw_only=True, metadata={ADDED_LATER: True})
    """Register schemas that the registry does not have, under ``<topic>-key`` and ``<topic>-value``; else
    they must be there.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        framed = [one for one in (self.key, self.value) if getattr(one, "framing", "none") == "registry"]
        if fault := topic_fault(self.topic):
            yield Fault("MED-1103", f"topic {self.topic!r} {fault}")
        for option in self.kafka:
            yield from reserved_option(option, OF_A_PRODUCER)
        if self.register_schemas and not framed:
            yield Fault(
                "MED-1105",
                'register_schemas is for keys and values with framing="registry"; leave it out',
            )


@declared
class BatchSink:
    """Passes each micro-batch to the user's function, for systems that Spark writes, such as JDBC.

    The function is called again for a micro-batch that is replayed, with the same rows and the same token:
    one that keeps the token with the rows, in one transaction, writes each row once.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"write": "write_orders"}

    write: Callable[[Any, int, str], None]
    """``write(rows, batch_id, token)``: a DataFrame, the micro-batch's number, and a text that identifies the
    micro-batch for ever. It runs in the job's process.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if fault := arity_fault(self.write, "rows", "batch_id", "token"):
            yield Fault("MED-1103", f"write {fault}")


@declared
class FileSink:
    """Writes rows as files, each row once: a folder ``batch=<number>`` per micro-batch.

    ``_manifest/<number>.json`` says that the folder is whole and names its files. Nothing deletes or joins
    files: give the publication a ``trigger`` of minutes.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"path": '"export/orders"'}

    path: str
    """The folder: absolute, relative to the folder of the pipeline file, or a URI such as
    ``s3a://bucket/orders``. It belongs to one publication.
    """
    format: Literal["parquet", "jsonl", "csv"] = "parquet"
    """``parquet``; ``jsonl``: a JSON object per line, nulls included; or ``csv``."""
    header: bool = True
    """Whether the first line of each CSV file has the names of the columns."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not self.path.strip():
            yield Fault("MED-1103", "path is empty; name a folder")

    @property
    def folder(self) -> str:
        """Path or URI of the folder."""
        return absolute(self, self.path)


@declared
class MemorySink:
    """Keeps rows in the memory of the job's process, for notebooks and tests: ``sink.rows``."""

    most: Count = 10_000
    """Most rows that are kept; the oldest micro-batches are forgotten first."""

    @cached_property
    def _batches(self) -> dict[tuple[str, int], list[dict[str, Any]]]:
        return {}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all micro-batches that are kept, oldest first, each row once."""
        return [row for batch in tuple(self._batches.values()) for row in batch]

    def keep(self, query_id: str, batch_id: int, rows: list[dict[str, Any]]) -> None:
        """Keep the rows of a micro-batch; a replay replaces them."""
        self._batches[query_id, batch_id] = rows
        while len(self._batches) > 1 and sum(map(len, self._batches.values())) > self.most:
            del self._batches[next(iter(self._batches))]


@declared
class ForeachSink:
    """Passes each row to the user's object, as Spark's ``foreach`` does. At least once."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"writer": "SendMail()"}

    writer: Any
    """A function of a row; or an object with ``process(row)``, and optionally ``open(partition_id,
    number)`` and ``close(error)``. A replay has the same number, a later micro-batch a greater one, and other
    rows never the same.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not callable(self.writer) and not hasattr(self.writer, "process"):
            yield Fault("MED-1103", "writer needs a method process(row), or is a function of a row")
        elif fault := arity_fault(getattr(self.writer, "process", self.writer), "row"):
            yield Fault("MED-1103", f"writer {fault}")


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
class Publish(Paced):
    """Sends the new and changed rows of a table to a sink."""

    LAYER: ClassVar[str] = "publish"
    EXAMPLES: ClassVar[Mapping[str, str]] = {"reads": '"gold.orders_latest"', "to": 'KafkaSink("orders")'}

    name: TableName
    """The query and its checkpoint: ``publish.<name>``."""
    reads: str
    """A table of the pipeline, side tables such as ``silver.x__quarantine`` too; a gold table whose rows
    change needs ``Storage(change_feed=True)``.
    """
    to: KafkaSink | FileSink | BatchSink | ForeachSink | MemorySink | ConsoleSink
    """The sink."""
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
