"""Tables that each thread keeps open by delta-rs: opening a table again reads only its new commits.

Opening a table the first time reads its log from the last checkpoint on, a hundred commits and more. A table
that was recreated at the same path is opened from scratch.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MOST_TABLES = 32
_MOST_TIMES = 500
"""How often a handle is updated before it is replaced: nothing accumulates for months."""

_thread = threading.local()

_File = tuple[int, int]
"""Inode and modification time, in nanoseconds."""


@dataclass
class _Open:
    """A table that is open."""

    table: DeltaTable  # the open table
    # Inode and mtime of commit 0, to notice a recreated table; None where it was cleaned up.
    first_commit: _File | None
    version: int = -1  # the version at which the table was opened last
    last_commit: _File | None = None  # inode and mtime of the commit of that version
    times: int = 0  # how often the table was opened
    # The live files and the version that has them, once they were read.
    files: tuple[int, pa.Table] | None = None


def open_table(path: str) -> DeltaTable:
    """Open a table on the local disk at its newest version; the handle is the calling thread's alone.

    Raises:
        DeltaError: There is none, or delta-rs cannot read it.
    """
    from deltalake import DeltaTable  # loaded when a table is there to read

    tables: dict[str, _Open] = _thread.__dict__.setdefault("tables", {})
    handle, first = tables.pop(path, None), _file(path, 0)
    is_new = handle is None or handle.first_commit != first
    if handle is None or is_new or handle.times >= _MOST_TIMES or not _has_same_log(handle, path):
        handle = _Open(DeltaTable(path), first)
    elif _file(path, handle.table.version() + 1) is not None:
        handle.table.update_incremental()  # reads the names of the whole log
    handle.version = handle.table.version()
    handle.last_commit = _file(path, handle.version)
    handle.times += 1
    tables[path] = handle  # the newest last
    while len(tables) > _MOST_TABLES:
        del tables[next(iter(tables))]
    return handle.table


def files(path: str, table: DeltaTable) -> pa.Table:
    """The live files of a table that is open: ``path``, ``num_records`` (may be null) and ``size_bytes``.

    Cached per version: listing takes long, and a batch that reads and then writes needs the files twice.
    """
    handle: _Open | None = _thread.__dict__.get("tables", {}).get(path)
    if handle is None or handle.table is not table:
        return _files(table)
    if handle.files is None or handle.files[0] != table.version():
        handle.files = table.version(), _files(table)
    return handle.files[1]


def _files(table: DeltaTable) -> pa.Table:
    actions = table.get_add_actions()
    columns = {name: pa.chunked_array(actions.column(name)) for name in ("path", "num_records", "size_bytes")}
    return pa.table(columns)


def _file(path: str, version: int) -> _File | None:
    """Inode and mtime of a commit's file."""
    try:
        status = os.stat(f"{path}/_delta_log/{version:020}.json")  # noqa: PTH116  # for each micro-batch
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _has_same_log(handle: _Open, path: str) -> bool:
    """Whether the log still has the version that was opened, and what was committed through the handle."""
    if handle.last_commit is None or handle.last_commit != _file(path, handle.version):
        return False
    return _file(path, handle.table.version()) is not None
