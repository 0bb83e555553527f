"""What a running pipeline occupies at a moment: memory and handles of its processes, files on the disk.

seen = footprint(pid, folder / "data" / "shop", tables)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one table.

    Attributes:
        live: Data files of the newest version.
        data: Data files in its folder, those of older versions included.
        log: Files of its Delta log.
    """

    live: int
    data: int
    log: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """All of a pipeline.

    Attributes:
        resident: Bytes of memory of the command and all its processes.
        java: Bytes of it in Java processes.
        handles: Open files and sockets of these processes.
        threads: Their threads.
        tables: Each table that exists, by name.
        checkpoints: Files below the folder of the checkpoints.
        logs: Bytes of the jobs' log files.
    """

    resident: int
    java: int
    handles: int
    threads: int
    tables: Mapping[str, Files]
    checkpoints: int
    logs: int


def footprint(pid: int, folder: Path, tables: Mapping[str, Path]) -> Footprint:
    """Of the process with this pid, all processes below it, and a pipeline's folder.

    Raises:
        psutil.NoSuchProcess: The command has ended.
    """
    resident = java = handles = threads = 0
    command = psutil.Process(pid)
    for one in (command, *command.children(recursive=True)):
        try:
            with one.oneshot():
                counts = one.memory_info().rss, one.num_fds(), one.num_threads()
                java += counts[0] if one.name() == "java" else 0
        except psutil.Error:  # it has ended meanwhile
            continue
        resident, handles, threads = resident + counts[0], handles + counts[1], threads + counts[2]
    found = {name: _files(path) for name, path in tables.items() if DeltaTable.is_deltatable(str(path))}
    logs = sum(_size(file) for file in _below(folder / "log"))
    return Footprint(
        resident, java, handles, threads, found, sum(1 for _ in _below(folder / "checkpoints")), logs
    )


def _files(path: Path) -> Files:
    live = DeltaTable(str(path)).get_add_actions().num_rows
    names = list(_below(path))
    log = sum("_delta_log" in name for name in names)
    return Files(live, sum(name.endswith(".parquet") for name in names) - _checkpoints(names), log)


def _checkpoints(names: list[str]) -> int:
    return sum("_delta_log" in name and name.endswith(".parquet") for name in names)


def _below(folder: Path) -> Iterator[str]:
    """Paths of all files below a folder, also while others delete some of them."""
    for root, _, names in os.walk(folder):
        yield from (f"{root}/{name}" for name in names)


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except FileNotFoundError:
        return 0
