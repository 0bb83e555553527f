"""A case of a pipeline's tests: given Kafka records in micro-batches, expected rows of tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

TIMESTAMP = datetime(2100, 1, 1, tzinfo=UTC)
"""Kafka's timestamp of a record that gives none: after every event, so that no event lies in the future."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file.

    Attributes:
        file: The file.
        line: The line, from 1.
    """

    file: Path
    line: int

    def __str__(self) -> str:
        path = self.file
        if path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        return f"{path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record.

    Attributes:
        value: The bytes of the value; None is a tombstone.
        key: The bytes of the key; None for no key.
        headers: Names and values, in order; a name may occur twice.
        topic: The topic, or the bronze table; None: the pipeline's only topic.
        partition: The partition.
        offset: The offset; None: the next one of the topic's partition.
        timestamp: Kafka's timestamp.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str | None = None
    partition: int = 0
    offset: int | None = None
    timestamp: datetime = TIMESTAMP
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class TextTable:
    """The expected rows of a table, as text.

    Attributes:
        columns: The columns that are compared; of a table without rows there may be none.
        rows: A cell per column; ``common.schema`` types give the cells their meaning.
        place: Where the table is written.
        lines: The line of each row.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    place: Place
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Given records, expected rows.

    Attributes:
        name: What the case proves.
        place: Where the case is written.
        batches: The records, per micro-batch.
        expect: The expected rows of tables, by the table's full name.
        lookups: The rows that the rules look up, by the lookup's name; the heading has names and types.
        pipeline: The pipeline file that the case belongs to; None: the pipeline of the command.
    """

    name: str
    place: Place
    batches: tuple[tuple[Record, ...], ...]
    expect: Mapping[str, TextTable]
    lookups: Mapping[str, TextTable] = field(default_factory=dict)
    pipeline: Path | None = None

    @property
    def records(self) -> Iterator[Record]:
        """The records of all micro-batches, in order."""
        for batch in self.batches:
            yield from batch
