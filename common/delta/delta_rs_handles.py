"""Tables kept open by delta-rs: what a thread opens again and again reads only the commits that are new.

To open a table reads its log from the last checkpoint on, a hundred commits and more. A table that took the
place of another at the same path is opened anew.
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
"""So often a table is brought up to date before it is opened anew: nothing adds up for months."""

_own = threading.local()

_File = tuple[int, int]
"""Inode, and nanoseconds of its last change."""


@dataclass
class _Open:
    """A table that is open.

    Attributes:
        table: It.
        born: What its first commit's file is known by; None where that is cleaned away.
        version: The one that it was handed out at.
        newest: The same of that commit's file.
        times: How often it was asked for.
        files: Its live files, and the version that has them, where somebody asked.
    """

    table: DeltaTable
    born: _File | None
    version: int = -1
    newest: _File | None = None
    times: int = 0
    files: tuple[int, pa.Table] | None = None


def open_table(path: str) -> DeltaTable:
    """A table on the local disk as it is now; of the calling thread alone, until it asks again.

    Raises:
        DeltaError: There is none, or delta-rs cannot read it.
    """
    from deltalake import DeltaTable  # loaded when a table is there to read

    tables: dict[str, _Open] = _own.__dict__.setdefault("tables", {})
    found, born = tables.pop(path, None), _file(path, 0)
    if found is None or found.born != born or found.times >= _MOST_TIMES or not _is_same(found, path):
        found = _Open(DeltaTable(path), born)
    else:
        found.table.update_incremental()
    found.version = found.table.version()
    found.newest = _file(path, found.version)
    found.times += 1
    tables[path] = found  # the newest last
    while len(tables) > _MOST_TABLES:
        del tables[next(iter(tables))]
    return found.table


def files(path: str, table: DeltaTable) -> pa.Table:
    """The live files of a table that is open: ``path``, ``num_records`` (may be null) and ``size_bytes``.

    Telling them takes the longer the more there are; whoever reads and then writes asks twice.
    """
    found: _Open | None = _own.__dict__.get("tables", {}).get(path)
    if found is None or found.table is not table:
        return _files(table)
    if found.files is None or found.files[0] != table.version():
        found.files = table.version(), _files(table)
    return found.files[1]


def _files(table: DeltaTable) -> pa.Table:
    told = table.get_add_actions()
    columns = {name: pa.chunked_array(told.column(name)) for name in ("path", "num_records", "size_bytes")}
    return pa.table(columns)


def _file(path: str, version: int) -> _File | None:
    """What a commit's file is known by."""
    try:
        status = os.stat(f"{path}/_delta_log/{version:020}.json")  # noqa: PTH116  # for each micro-batch
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _is_same(found: _Open, path: str) -> bool:
    """Whether the log still has the version that was handed out, and what was committed through it since."""
    if found.newest is None or found.newest != _file(path, found.version):
        return False
    return _file(path, found.table.version()) is not None
