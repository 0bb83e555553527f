"""Access to a folder on a local disk, or in an object store through pyarrow.

It lists names, and reads, writes and deletes small files, for logs and checkpoints. A file that another
process deletes meanwhile is absent, not an error.

All calls of the operating system are in ``Disk``, so that a simulation can hand in one in memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from common.machine import object_store

_PLAIN = re.compile(r"[A-Za-z0-9_./=+-]*")


class Disk:
    """The local disk, by absolute paths."""

    def names(self, folder: str) -> list[str]:
        """Names of the entries of a folder; empty when it does not exist."""
        try:
            return os.listdir(folder)  # noqa: PTH208  # names alone, for speed
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder.

        Raises:
            PermissionError: This user may not know: what is there must not begin anew.
        """
        return self._mode(path) is not None

    def has_file(self, path: str) -> bool:
        """Whether there is a file.

        Raises:
            PermissionError: As ``exists``.
        """
        mode = self._mode(path)
        return mode is not None and stat.S_ISREG(mode)

    def _mode(self, path: str) -> int | None:
        try:
            return os.stat(path).st_mode  # noqa: PTH116  # called thousands of times
        except PermissionError:
            raise
        except OSError:
            return None

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: There is none.
        """
        with open(path, "rb") as file:  # noqa: PTH123  # called thousands of times
            return file.read()

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole, flush it, and give it its name; folders are created."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        with part.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)

    def delete(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: There is none.
        """
        Path(path).unlink()

    def open(self, path: str) -> IO[bytes]:
        """A file, opened to read any part of it; the caller closes it."""
        return open(path, "rb")  # noqa: PTH123  # see above

    def modified_ms(self, path: str) -> int:
        """When a file was last modified, milliseconds since the epoch.

        Raises:
            FileNotFoundError: There is none.
        """
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116  # called thousands of times

    def size(self, path: str) -> int:
        """The bytes of a file.

        Raises:
            FileNotFoundError: There is none.
        """
        return os.stat(path).st_size  # noqa: PTH116  # see above


_LOCAL = Disk()
_mounted: dict[str, Disk] = {}


@contextmanager
def mounted(root: str, disk: Disk) -> Iterator[None]:
    """Have all paths below a root on another disk, inside the block: of a simulation."""
    _mounted[f"{root}/"] = disk
    try:
        yield
    finally:
        del _mounted[f"{root}/"]


class StorageFolder:
    """A folder by path, by ``file:`` URI, or by an object store's URI (``s3a://`` is taken as ``s3://``)."""

    def __init__(self, path: str) -> None:
        self.path = _local(path.rstrip("/"))
        self._store: tuple[Any, str] | None = None
        self._disk = _LOCAL if not _mounted else _disk_of(self.path)

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a local disk."""
        return "://" not in self.path

    @property
    def is_plain(self) -> bool:
        """Whether the folder is on a local disk and its path has no character that URLs escape."""
        return self.is_local and _PLAIN.fullmatch(self.path) is not None

    def __truediv__(self, name: str) -> StorageFolder:
        child = StorageFolder(f"{self.path}/{name}")
        if self._store is not None:
            child._store = (self._store[0], f"{self._store[1]}/{name}")
        return child

    def names(self) -> list[str]:
        """Names of the entries, in no order; empty when the folder does not exist."""
        if self.is_local:
            return self._disk.names(self.path)
        from pyarrow import fs  # its import takes a third of a second, which local paths do not need

        store, base = self._file_system()
        found = store.get_file_info(fs.FileSelector(base, allow_not_found=True))
        return [info.base_name for info in found]

    def exists(self, name: str) -> bool:
        """Whether the folder has an entry of that name."""
        if self.is_local:
            return self._disk.exists(f"{self.path}/{name}")
        from pyarrow import fs

        store, base = self._file_system()
        kind = store.get_file_info(f"{base}/{name}").type
        return bool(kind != fs.FileType.NotFound)

    def has_file(self, name: str) -> bool:
        """Whether the folder has a file of that name, no folder: one request where ``exists`` has two."""
        if self.is_local:
            return self._disk.has_file(f"{self.path}/{name}")
        store, base = self._file_system()
        try:
            store.open_input_file(f"{base}/{name}").close()
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a file; None when there is no such file."""
        try:
            if self.is_local:
                return self._disk.read(f"{self.path}/{name}")
            store, base = self._file_system()
            with store.open_input_stream(f"{base}/{name}") as stream:
                return bytes(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a small file whole, and flush it; an existing one is replaced, and folders are created."""
        if object_store.is_s3(self.path):
            object_store.put(self.path, name, content)
            return
        if not self.is_local:
            store, base = self._file_system()
            with store.open_output_stream(f"{base}/{name}") as stream:
                stream.write(content)
            return
        self._disk.write(f"{self.path}/{name}", content)

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens when there is no such file."""
        with suppress(FileNotFoundError):
            if self.is_local:
                self._disk.delete(f"{self.path}/{name}")
                return
            if object_store.is_s3(self.path):
                object_store.delete(self.path, name)
                return
            store, base = self._file_system()
            store.delete_file(f"{base}/{name}")

    def open(self, name: str) -> IO[bytes]:
        """A file, opened to read any part of it."""
        if self.is_local:
            return self._disk.open(f"{self.path}/{name}")
        store, base = self._file_system()
        opened: IO[bytes] = store.open_input_file(f"{base}/{name}")
        return opened

    def modified_ms(self, name: str) -> int | None:
        """When a file was last modified, milliseconds since the epoch; None when there is no such file."""
        if self.is_local:
            try:
                return self._disk.modified_ms(f"{self.path}/{name}")
            except (FileNotFoundError, NotADirectoryError):
                return None
        store, base = self._file_system()
        modified_ns = store.get_file_info(f"{base}/{name}").mtime_ns
        return None if modified_ns is None else int(modified_ns) // 1_000_000

    def size(self, name: str) -> int | None:
        """The bytes of a file; None when there is no such file."""
        if self.is_local:
            try:
                return self._disk.size(f"{self.path}/{name}")
            except (FileNotFoundError, NotADirectoryError):
                return None
        store, base = self._file_system()
        size = store.get_file_info(f"{base}/{name}").size
        return None if size is None else int(size)

    def _file_system(self) -> tuple[Any, str]:
        if self._store is None:
            self._store = object_store.file_system(self.path)
        return self._store


def _disk_of(path: str) -> Disk:
    for root, disk in _mounted.items():
        if path.startswith(root):
            return disk
    return _LOCAL


def _local(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
