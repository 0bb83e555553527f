"""The list of the files that a bronze table of files reads, as the source has written it.

The list is a folder beside the checkpoint. Its parts are written once, before Spark knows an offset in them:

    <checkpoints>/bronze.history__files/00000000000000000000.jsonl

A line is a file: ``path`` below the declared folder, ``size``, ``modified_ms``, ``offset`` of its first
record, ``rows``, ``cuts`` from which it can be read, and ``fault`` if it cannot be read. With ``changed`` in
the place of ``path`` it is a file that was not the same any more when it was seen again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from common.machine.storage_folder import StorageFolder


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the list.

    Attributes:
        path: Path below the declared folder.
        offset: Offset of its first record.
        rows: Its records.
        modified_ms: When it was written, milliseconds since the epoch.
    """

    path: str
    offset: int
    rows: int
    modified_ms: int


class FileList:
    """Reads a list; a further call reads only the parts that are new."""

    def __init__(self, path: str) -> None:
        self._folder = StorageFolder(path)
        self._next = 0
        self._newest: list[ListedFile] = []
        self.end = 0
        """The offset after the last record of the last file."""
        self.files = 0
        """How many files are in the list."""
        self.changed: dict[str, int] = {}
        """The files that changed after they were listed: by path, when, milliseconds since the epoch."""
        self.faults: dict[str, str] = {}
        """The files that cannot be read, by path, and why."""

    def update(self, read: int) -> None:
        """Read what is new.

        Args:
            read: The next offset that bronze reads; files before it are not kept in memory.
        """
        while (content := self._folder.read(f"{self._next:020d}.jsonl")) is not None:
            for entry in _entries(content):
                self._add(entry)
            self._next += 1
        self._newest = [one for one in self._newest if one.offset + one.rows > read]

    def oldest_unread(self) -> ListedFile | None:
        """The first file with records that bronze has not read, as of the last update."""
        return next((one for one in self._newest if one.rows), None)

    def _add(self, entry: dict[str, Any]) -> None:
        if "changed" in entry:
            self.changed[entry["changed"]] = entry["modified_ms"]
            return
        one = ListedFile(entry["path"], entry["offset"], entry["rows"], entry["modified_ms"])
        self._newest.append(one)
        self.end = one.offset + one.rows
        self.files += 1
        self.faults.pop(one.path, None)  # of an earlier look at it
        if "fault" in entry:
            self.faults[one.path] = entry["fault"]


def _entries(content: bytes) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in content.decode("utf-8").splitlines() if line)
