"""One commit of a Delta table: what its JSON file says.

Rows are those of the files' statistics; they are None where a file has none. Deletion vectors are not
subtracted: the engine's tables stay at reader version 1 and have none.
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
    """A file that a commit brought, or that a snapshot holds: bytes, and rows where known.

    ``path`` is relative to the table, or whole where the file lies elsewhere.
    """

    bytes: int
    rows: int | None
    path: str

    def path_in(self, table: str) -> str:
        """Its path or URI, of a table at ``table``."""
        is_whole = self.path.startswith("/") or ":/" in self.path
        return self.path if is_whole else f"{table.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit.

    Attributes:
        version: Its number, from 0.
        timestamp: When it was made, UTC.
        operation: Delta's name for it, such as ``WRITE``, ``MERGE``, ``OPTIMIZE``; may be empty.
        added: Files with new data, in the order a stream counts them.
        removed: Files whose data it took out, for good or to write it anew; no compacted ones.
        removed_files: Files it took out, compacted ones included.
        is_change: It took out data, so a stream with ``skipChangeCommits`` skips all of it.
        user_metadata: What the writer noted with it.
        user: Who made it, where that is told.
        engine: The program that made it, where that is told.
        restored_to: Of a ``RESTORE`` the version that it brought back; None where it tells a time instead.
    """

    version: int
    timestamp: datetime
    operation: str
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    removed_files: int
    is_change: bool
    user_metadata: str | None
    user: str | None = None
    engine: str | None = None
    restored_to: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The engine's note in ``user_metadata``; empty where it is another's, or none."""
        try:
            told = json.loads(self.user_metadata or "null")
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    @property
    def files(self) -> int:
        """Files with new data."""
        return len(self.added)

    @property
    def bytes(self) -> int:
        """Size of the files with new data."""
        return sum(file.bytes for file in self.added)

    @property
    def rows(self) -> int | None:
        """Rows in the files with new data."""
        return count_rows(self.added)


def parse_commit(version: int, content: bytes, written_ms: Callable[[], int | None]) -> Commit:
    """A commit from its file's content; ``written_ms`` tells its time when it does not say one itself.

    Raises:
        ValueError: It is no Delta commit.
    """
    info: dict[str, Any] = {}
    added: list[DataFile] = []
    removed: list[DataFile] = []
    removed_files = 0
    try:
        for line in content.splitlines():
            action = json.loads(line) if line else {}
            if add := action.get("add"):
                added += [_added(add)] if add["dataChange"] else []
            elif remove := action.get("remove"):
                removed_files += 1
                removed += [_added(remove)] if remove["dataChange"] else []
            elif found := action.get("commitInfo"):
                info = found
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an action lacks what every Delta action has") from error
    made_ms = info.get("inCommitTimestamp") or info.get("timestamp") or written_ms() or 0
    return Commit(
        version=version,
        timestamp=from_epoch_ms(made_ms),
        operation=str(info.get("operation", "")),
        added=tuple(added),
        removed=tuple(removed),
        removed_files=removed_files,
        is_change=bool(removed),
        user_metadata=info.get("userMetadata"),
        user=info.get("userName"),
        engine=info.get("engineInfo"),
        restored_to=_restored_to(info),
    )


def _restored_to(info: dict[str, Any]) -> int | None:
    if info.get("operation") != RESTORE:
        return None
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdigit() else None


def count_rows(files: tuple[DataFile, ...]) -> int | None:
    """Rows in some files, or None where one of them does not say."""
    total = 0
    for file in files:
        if file.rows is None:
            return None
        total += file.rows
    return total


def from_epoch_ms(milliseconds: int) -> datetime:
    """A time from milliseconds since the epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _added(add: dict[str, Any]) -> DataFile:
    stats = json.loads(add.get("stats") or "{}")
    return DataFile(int(add.get("size") or 0), stats.get("numRecords"), unquote(add["path"]))
