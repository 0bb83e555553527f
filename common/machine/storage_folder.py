"""A folder that is only read: on a local disk, or in an object store through pyarrow.

Here is what reading logs and checkpoints without Spark needs, and no more: list names, read a small
file. Both treat what vanishes meanwhile (a writer that cleans up) as absent, never as an error.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

_PLAIN = re.compile(r"[A-Za-z0-9_./=+-]*")


class StorageFolder:
    """A folder by path, ``file:`` URI, or an object store's URI (``s3a://`` is read as ``s3://``)."""

    def __init__(self, path: str) -> None:
        self.path = _local(path.rstrip("/"))
        self._store: tuple[Any, str] | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is on a local disk."""
        return "://" not in self.path

    @property
    def is_plain(self) -> bool:
        """Whether it is on a local disk, under a name that is the same to all who read it as a URL."""
        return self.is_local and _PLAIN.fullmatch(self.path) is not None

    def __truediv__(self, name: str) -> StorageFolder:
        child = StorageFolder(f"{self.path}/{name}")
        if self._store is not None:
            child._store = (self._store[0], f"{self._store[1]}/{name}")
        return child

    def names(self) -> list[str]:
        """Names of what lies in it, in no order; empty when the folder does not exist."""
        if self.is_local:
            try:
                return os.listdir(self.path)  # noqa: PTH208  # names alone, as fast as can be
            except (FileNotFoundError, NotADirectoryError):
                return []
        from pyarrow import fs  # a third of a second that local paths do not need

        store, base = self._opened()
        found = store.get_file_info(fs.FileSelector(base, allow_not_found=True))
        return [info.base_name for info in found]

    def exists(self, name: str) -> bool:
        """Whether it holds something of that name."""
        if self.is_local:
            return os.path.exists(f"{self.path}/{name}")  # noqa: PTH110  # probed by the thousand
        from pyarrow import fs

        store, base = self._opened()
        kind = store.get_file_info(f"{base}/{name}").type
        return bool(kind != fs.FileType.NotFound)

    def read(self, name: str) -> bytes | None:
        """All bytes of a file, or None when there is no such file."""
        try:
            if self.is_local:
                with open(f"{self.path}/{name}", "rb") as file:  # noqa: PTH123  # read by the thousand
                    return file.read()
            store, base = self._opened()
            with store.open_input_stream(f"{base}/{name}") as stream:
                return bytes(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def modified_ms(self, name: str) -> int | None:
        """When a file was last written, milliseconds since the epoch, or None when there is none."""
        if self.is_local:
            try:
                return os.stat(f"{self.path}/{name}").st_mtime_ns // 1_000_000  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                return None
        store, base = self._opened()
        written = store.get_file_info(f"{base}/{name}").mtime_ns
        return None if written is None else int(written) // 1_000_000

    def _opened(self) -> tuple[Any, str]:
        if self._store is None:
            from pyarrow import fs

            uri = self.path.replace("s3a://", "s3://", 1)
            self._store = fs.FileSystem.from_uri(uri)
        return self._store


def _local(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
