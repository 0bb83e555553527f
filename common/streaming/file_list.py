"""The list of the files that a bronze table of files reads, as the source has written it.

The list is a folder beside the checkpoint. Its parts are written once, before Spark knows an offset in them:

    <checkpoints>/bronze.history__files/00000000000000000000.jsonl

A line is a file: ``path`` below the declared folder, ``size``, ``modified_ms``, ``offset`` of its first
record, ``rows``, ``cuts`` from which it can be read, and ``fault`` if it cannot be read. With ``changed`` in
the place of ``path`` it is a file that was not the same any more when it was seen again, or, with
``as_listed``, was the same again. With ``skipped`` in that place ``medallion files skip`` has added it:
``offset`` is its first record that is not read, ``rows`` how many these are, and ``why`` the reason. With
``left_out`` in that place the declaration leaves the file out (``why``); with ``cleaned`` the file was moved
(``to``), or deleted, after all of it was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from common.machine.storage_folder import StorageFolder

ITSELF = "./"
"""What the list puts before the name where the declared path is the file itself."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the list."""

    path: str  # path below the declared folder
    offset: int  # offset of its first record
    rows: int  # its records
    modified_ms: int  # when it was written, milliseconds since the epoch
    fault: str  # why it cannot be read; empty if it can


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not read any more."""

    skipped: str  # path below the declared folder
    offset: int  # the first offset that is not read
    rows: int  # how many offsets are not read; 0 if the file never got any, or all are read
    why: str  # the reason that was given

    def is_of(self, one: ListedFile) -> bool:
        """Whether it says what becomes of an entry of the list: a file that was found again has two."""
        is_lost = one.offset <= self.offset < one.offset + one.rows
        return self.skipped == one.path and (is_lost or not self.rows)

    def first_lost(self, one: ListedFile) -> int:
        """The first offset of an entry that is not read; the offset after its last one if all are."""
        return self.offset if self.rows else one.offset + one.rows


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
        self.skipped: dict[str, SkippedFile] = {}
        """The files of which nothing more is read, by path."""
        self.left_out: dict[str, str] = {}
        """The files that the declaration leaves out, by path, and why."""
        self.cleaned: dict[str, str] = {}
        """The files that were read and are gone, by path, and where they were moved to; empty: nowhere."""

    def update(self, read: int) -> None:
        """Read what is new.

        Args:
            read: The next offset that bronze reads; files before it are not kept in memory.
        """
        while (content := self._folder.read(part_name(self._next))) is not None:
            for entry in _entries(content):
                self._add(entry)
            self._next += 1
        self._newest = [one for one in self._newest if one.offset + one.rows > read]

    def oldest_unread(self) -> ListedFile | None:
        """The first file with records that bronze has not read, as of the last update."""
        return next((one for one in self._newest if one.rows), None)

    def all_files(self) -> Iterator[ListedFile]:
        """All files in the order in which they were found; one that was found again is there twice."""
        for part in range(self._next):
            for entry in _entries(self._folder.read(part_name(part)) or b""):
                if "path" in entry:
                    yield _listed(entry)

    def skip(self, file: SkippedFile) -> None:
        """Write that nothing more of a file is read; the query that reads the list must not run."""
        self._folder.write(
            part_name(self._next), json.dumps(asdict(file), ensure_ascii=False).encode() + b"\n"
        )
        self._next += 1
        self._skip(file)

    def _skip(self, file: SkippedFile) -> None:
        self.skipped[file.skipped] = file
        for known in (self.changed, self.faults, self.left_out):
            known.pop(file.skipped, None)

    def _add(self, entry: dict[str, Any]) -> None:
        if "skipped" in entry:
            self._skip(SkippedFile(**entry))
            return
        if "changed" in entry:
            self.changed[entry["changed"]] = entry["modified_ms"]
            if entry.get("as_listed"):
                del self.changed[entry["changed"]]
            return
        if "left_out" in entry:
            self.left_out[entry["left_out"]] = entry["why"]
            return
        if "cleaned" in entry:
            self.cleaned[entry["cleaned"]] = entry["to"]
            return
        one = _listed(entry)
        for known in (self.left_out, self.cleaned):
            known.pop(one.path, None)
        self._newest.append(one)
        self.end = one.offset + one.rows
        self.files += 1
        self.faults.pop(one.path, None)  # of an earlier look at it
        if one.fault:
            self.faults[one.path] = one.fault


def shown(path: str) -> str:
    """A path of the list as people and rows have it."""
    return path.removeprefix(ITSELF)


def part_name(part: int) -> str:
    """The name of the file of a part, counted from 0."""
    return f"{part:020d}.jsonl"


def _listed(entry: dict[str, Any]) -> ListedFile:
    offset, rows, modified_ms = (entry[name] for name in ("offset", "rows", "modified_ms"))
    return ListedFile(entry["path"], offset, rows, modified_ms, entry.get("fault", ""))


def _entries(content: bytes) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in content.decode("utf-8").splitlines() if line)
