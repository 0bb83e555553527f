"""The version of a table that readers shall read, kept in a Delta table of one row beside the table.

Grain of ``<table>__published``: one row, with the columns table, table_id, version, published_at (UTC) and
sha256, the beginning of the digest of that version's commit: after an older copy of the table the same
number is another version. Each move is one commit, so a reader sees the old row or the new one. What moves it
is a quality gate (``orchestration.run.quality_gates``), which also takes the row away where it names a
version that is not the table's any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from common.delta.log import latest_version
from common.delta.match.source_match import commit_digest
from common.delta.small_table import SmallTable, rows_of, schema_of

SUFFIX = "__published"
_TIDY_EVERY = 100


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version of a table for readers."""

    table: str  # the table's full name, such as ``gold.orders``
    table_id: str  # Delta's id of the table; a table that was created again has another one
    version: int
    published_at: datetime  # time of the move, UTC
    sha256: str | None = None  # the digest of the version's commit; None of an earlier version of the engine

    def fault(self, path: str) -> str | None:
        """Why the version is not the one that was published, in words; None where it is, or nothing tells."""
        latest = latest_version(path)
        if latest is None or self.version > latest:
            ends = "is gone" if latest is None else f"ends with version {latest}"
            return f"it names version {self.version}, and the table {ends}"
        found = commit_digest(path, self.version)
        if self.sha256 is None or found is None or found == self.sha256:
            return None
        return f"it names version {self.version}, which is another one now than the one that was published"


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
    moved = PublishedVersion(table, table_id, version, datetime.now(UTC), commit_digest(path, version))
    _write(path, [moved])
    return moved


def withdraw_other(path: str) -> str | None:
    """Take the pointer's row away where the version that it names is another one now: readers find none.

    Returns:
        Why, in words; None where the pointer stays, or there is none.

    Raises:
        TableError: The pointer cannot be read or written.
    """
    published = read_published(path)
    why = None if published is None else published.fault(path)
    if why is not None:
        _write(path, [])
    return why


def _write(path: str, rows: list[PublishedVersion]) -> None:
    pointer = SmallTable(path + SUFFIX, tidy_every=_TIDY_EVERY)
    pointer.write(rows_of(rows, schema_of(PublishedVersion)), mode="overwrite")
