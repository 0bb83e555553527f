"""The version of a table that readers shall read, kept in a Delta table of one row beside the table.

Grain of ``<table>__published``: one row, with the columns table, table_id, version and published_at (UTC).
Each move is one commit, so a reader sees the old row or the new one. What moves it is a quality gate
(``orchestration.run.quality_gates``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from common.delta.small_table import SmallTable, rows_of, schema_of

SUFFIX = "__published"
_TIDY_EVERY = 100


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version of a table for readers.

    Attributes:
        table: The table's full name, such as ``gold.orders``.
        table_id: Delta's id of the table; a table that was created again has another one.
        version: The version.
        published_at: Time of the move, UTC.
    """

    table: str
    table_id: str
    version: int
    published_at: datetime


def read_published(path: str) -> PublishedVersion | None:
    """The published version of a table; None if none was published yet.

    Args:
        path: Path or URI of the table, not of its pointer.

    Raises:
        TableError: The pointer cannot be read.
    """
    found = SmallTable(path + SUFFIX).read()
    return PublishedVersion(**found.to_pylist()[0]) if found else None


def publish_version(path: str, table: str, table_id: str, version: int) -> PublishedVersion:
    """Move the pointer of a table to a version; creates the pointer.

    Raises:
        TableError: The pointer cannot be written.
    """
    moved = PublishedVersion(table, table_id, version, datetime.now(UTC))
    pointer = SmallTable(path + SUFFIX, tidy_every=_TIDY_EVERY)
    pointer.write(rows_of([moved], schema_of(PublishedVersion)), mode="overwrite")
    return moved
