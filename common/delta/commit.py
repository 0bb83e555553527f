"""One commit of a Delta table, parsed from its JSON file.

Row counts come from the statistics of the files, and are None where a file has no statistics. Rows that a
deletion vector marks are counted too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

RESTORE = "RESTORE"
"""Delta's name for the operation that brings an older version back."""


class DataFile(NamedTuple):
    """A data file of a commit or a snapshot: size, row count where known, path.

    ``path`` is relative to the table's folder, or absolute where the file is outside of it. ``bounds`` are
    the smallest and the largest value of one column, as the file's statistics have them; None if no column
    was named or the file has no statistics of it.
    """

    bytes: int
    rows: int | None
    path: str
    bounds: tuple[str, str] | None = None

    def path_in(self, table: str) -> str:
        """Absolute path or URI of the file, for a table at ``table``."""
        is_absolute = self.path.startswith("/") or ":/" in self.path
        return self.path if is_absolute else f"{table.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    version: int  # version of the table after the commit, from 0
    timestamp: datetime  # time of the commit, UTC
    operation: str  # Delta's name of the operation, such as ``WRITE``, ``MERGE``, ``OPTIMIZE``; may be empty
    # Files with new data (``dataChange``), in the order in which a stream reads them.
    added: tuple[DataFile, ...]
    # Files whose rows were deleted or rewritten (``dataChange``); without compacted files.
    removed: tuple[DataFile, ...]
    removed_files: int  # number of removed files, compacted files included
    is_change: bool  # the commit removed data, so a stream with ``skipChangeCommits`` skips all of it
    user_metadata: str | None  # the writer's ``userMetadata``
    user: str | None = None  # the user, where the commit names one
    engine: str | None = None  # the program that committed, where the commit names it
    # The version that a ``RESTORE`` brought back; None for a RESTORE to a time.
    restored_to: int | None = None
    # Number of files of the change data feed. A stream of the feed reads these files instead of ``added`` and
    # ``removed``; without them the feed is made of both.
    change_files: int = 0
    # Rows that it added, replaced or deleted: of a merge, an update and a deletion as its writer has counted
    # them, else the rows of the files with new data, or of the removed ones where it added none; None where
    # nothing says it.
    changed_rows: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """``user_metadata`` parsed as a JSON object; empty where it is none, such as another writer's."""
        try:
            parsed = json.loads(self.user_metadata or "null")
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    @property
    def files(self) -> int:
        """Number of files with new data."""
        return len(self.added)

    @property
    def bytes(self) -> int:
        """Bytes of the files with new data."""
        return sum(file.bytes for file in self.added)

    @property
    def rows(self) -> int | None:
        """Rows in the files with new data; None where a file has no statistics."""
        return count_rows(self.added)


def parse_commit(
    version: int, content: bytes, modified_ms: Callable[[], int | None], bounds_of: str = ""
) -> Commit:
    """A commit, from the content of its file.

    Args:
        modified_ms: Gives the file's modification time, which counts where the commit has no timestamp.
        bounds_of: The column whose smallest and largest values are read from the statistics; empty: none.

    Raises:
        ValueError: The content is no Delta commit.
    """
    info: dict[str, Any] = {}
    added: list[DataFile] = []
    removed: list[DataFile] = []
    removed_files = change_files = 0
    try:
        for line in content.splitlines():
            action = json.loads(line) if line else {}
            if add := action.get("add"):
                added += [_data_file(add, bounds_of)] if add["dataChange"] else []
            elif remove := action.get("remove"):
                removed_files += 1
                removed += [_data_file(remove, "")] if remove["dataChange"] else []
            elif "cdc" in action:
                change_files += 1
            elif found := action.get("commitInfo"):
                info = found
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an action lacks what every Delta action has") from error
    committed_ms = info.get("inCommitTimestamp") or info.get("timestamp") or modified_ms() or 0
    return Commit(
        version=version,
        timestamp=from_epoch_ms(committed_ms),
        operation=str(info.get("operation", "")),
        added=tuple(added),
        removed=tuple(removed),
        removed_files=removed_files,
        is_change=bool(removed),
        user_metadata=info.get("userMetadata"),
        user=info.get("userName"),
        engine=info.get("engineInfo"),
        restored_to=_restored_to(info),
        change_files=change_files,
        changed_rows=_changed_rows(info, tuple(added) or tuple(removed)),
    )


_COUNTED = (
    *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    *("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted"),
    *("numUpdatedRows", "num_updated_rows", "numDeletedRows", "num_deleted_rows"),
)
"""What Spark and delta-rs call the rows that a merge, an update or a deletion changes."""


def _changed_rows(info: dict[str, Any], files: tuple[DataFile, ...]) -> int | None:
    metrics = info.get("operationMetrics")
    given = [str(metrics.get(name)) for name in _COUNTED] if isinstance(metrics, dict) else []
    counted = [int(each) for each in given if each.isdigit()]
    return sum(counted) if counted else count_rows(files)


def _restored_to(info: dict[str, Any]) -> int | None:
    if info.get("operation") != RESTORE:
        return None
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdigit() else None


def count_rows(files: tuple[DataFile, ...]) -> int | None:
    """Rows in all files together; None where a file has no statistics."""
    total = 0
    for file in files:
        if file.rows is None:
            return None
        total += file.rows
    return total


def from_epoch_ms(milliseconds: int) -> datetime:
    """The UTC time of milliseconds since the epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _data_file(add: dict[str, Any], bounds_of: str) -> DataFile:
    stats = json.loads(add.get("stats") or "{}")
    low, high = ((stats.get(end) or {}).get(bounds_of) for end in ("minValues", "maxValues"))
    bounds = None if low is None or high is None else (str(low), str(high))
    return DataFile(int(add.get("size") or 0), stats.get("numRecords"), unquote(add["path"]), bounds)
