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
    """A line of a file."""

    file: Path
    line: int  # the line, from 1

    def __str__(self) -> str:
        path = self.file
        if path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        return f"{path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record."""

    value: bytes | None  # the bytes of the value; None is a tombstone
    key: bytes | None = None  # the bytes of the key; None for no key
    headers: tuple[tuple[str, bytes | None], ...] = ()  # names and values, in order; a name may occur twice
    topic: str | None = None  # the topic, or the bronze table; None: the pipeline's only topic
    partition: int = 0
    offset: int | None = None  # the offset; None: the next one of the topic's partition
    timestamp: datetime = TIMESTAMP  # Kafka's timestamp
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class TextTable:
    """The expected rows of a table, as text."""

    columns: tuple[str, ...]  # the columns that are compared; of a table without rows there may be none
    # A cell per column; ``common.schema`` types give the cells their meaning.
    rows: tuple[tuple[str, ...], ...]
    place: Place  # where the table is written
    lines: tuple[int, ...]  # the line of each row


@dataclass(frozen=True, slots=True)
class Case:
    """Given records, expected rows."""

    name: str  # what the case proves
    place: Place  # where the case is written
    batches: tuple[tuple[Record, ...], ...]  # the records, per micro-batch
    expect: Mapping[str, TextTable]  # the expected rows of tables, by the table's full name
    # The rows that the rules look up, by the lookup's name; the heading has names and types.
    lookups: Mapping[str, TextTable] = field(default_factory=dict)
    # The pipeline file that the case belongs to; None: the pipeline of the command.
    pipeline: Path | None = None

    @property
    def records(self) -> Iterator[Record]:
        """The records of all micro-batches, in order."""
        for batch in self.batches:
            yield from batch
