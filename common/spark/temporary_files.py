"""Temporary files of a JVM: on the disk of the data, from where a native library can be loaded.

``/tmp`` is often a file system of its own from which nothing may be executed: the libraries of zstd, snappy
and RocksDB, which a JVM unpacks there, cannot be loaded then. A container's ``/tmp`` may be memory, besides,
which shuffles would fill.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
from contextlib import suppress
from pathlib import Path

from common.errors import SetupError

FOLDER = "tmp"
_LOCK = ".lock"

_held: dict[Path, int] = {}
"""The locks of this process's folders, until it ends: whoever finds one free may delete its folder."""


def folder_of(root: Path, name: str) -> Path:
    """Where the temporary files of one JVM of this process are."""
    return root / f"{name}-{os.getpid()}"


def temporary_folder(root: Path, name: str) -> Path:
    """A new folder for the temporary files of one JVM of this process, in ``root``.

    What processes that were killed have left there is deleted.

    Raises:
        SetupError: No library can be loaded from there.
    """
    folder = folder_of(root, name)
    if folder in _held:
        return folder
    root.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if (lock := _locked(other / _LOCK)) is not None:
            shutil.rmtree(other, ignore_errors=True)
            os.close(lock)
    folder.mkdir(exist_ok=True)
    (folder / _LOCK).touch()
    if (lock := _locked(folder / _LOCK)) is not None:
        _held[folder] = lock
    if (why := loading_fault(folder)) is not None:
        raise SetupError(
            f"no native library can be loaded from {folder} ({why}): its file system is mounted with noexec. "
            "Compressed records and states could not be read. Set data_dir to a folder of another disk, or "
            "mount it without noexec."
        )
    return folder


def loading_fault(folder: Path) -> str | None:
    """Why no library can be loaded from a folder; None if one can."""
    file = folder / f".library-{os.getpid()}"
    try:
        file.write_bytes(b"\0" * mmap.PAGESIZE)
        with (
            file.open("rb") as library,
            mmap.mmap(
                library.fileno(), mmap.PAGESIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC
            ),
        ):
            return None
    except OSError as error:
        return error.strerror
    finally:
        with suppress(OSError):
            file.unlink()


def _locked(file: Path) -> int | None:
    """A descriptor that holds the lock of a file; None if another process does, or if there is none."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
