"""The version of a table that readers shall read, kept in a Delta table of one row beside the table.

Grain of ``<table>__published``: one row, with the columns table, table_id, version and published_at (UTC).
Each move is one commit, so a reader sees the old row or the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from common.errors import TableError
from common.machine.object_store import storage_options

SUFFIX = "__published"
_TEND_EVERY = 100
"""Moves after which the pointer's old files are deleted and its log gets a checkpoint."""


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
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        rows = DeltaTable(path + SUFFIX, storage_options=storage_options(path)).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise TableError(f"{path}{SUFFIX} cannot be read: {error}") from error
    return PublishedVersion(**rows[0]) if rows else None


def publish_version(path: str, table: str, table_id: str, version: int) -> PublishedVersion:
    """Move the pointer of a table to a version; creates the pointer.

    Raises:
        TableError: The pointer cannot be written.
    """
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import DeltaError

    moved = PublishedVersion(table, table_id, version, datetime.now(UTC))
    rows = {
        "table": [moved.table],
        "table_id": [moved.table_id],
        "version": [moved.version],
        "published_at": pa.array([moved.published_at], pa.timestamp("us", tz="UTC")),
    }
    try:
        write_deltalake(
            path + SUFFIX, pa.table(rows), mode="overwrite", storage_options=storage_options(path)
        )
        pointer = DeltaTable(path + SUFFIX, storage_options=storage_options(path))
        if pointer.version() % _TEND_EVERY == _TEND_EVERY - 1:
            pointer.vacuum(retention_hours=168, dry_run=False)
            pointer.create_checkpoint()
            pointer.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise TableError(f"{path}{SUFFIX} cannot be written: {error}") from error
    return moved
