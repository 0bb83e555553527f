"""A disk in memory: before each call of it a process may be killed, or somebody change the disk."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import IO

from common.machine.storage_folder import Disk


class Killed(BaseException):
    """The process has ended at this step."""


class MemoryDisk(Disk):
    """Files by their absolute paths.

    Attributes:
        files: Content and time of each file.
        step: Called before each call of a process: it may raise ``Killed``, or change the disk.
        before_write: Called before each write of a process: it may raise, as where the disk is full.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.clock = 1_000
        self.step: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self._folders: dict[str, dict[str, int]] = {}

    def names(self, folder: str) -> list[str]:
        self.step()
        return list(self._folders.get(folder, ()))

    def exists(self, path: str) -> bool:
        self.step()
        return path in self.files or path in self._folders

    def has_file(self, path: str) -> bool:
        self.step()
        return path in self.files

    def read(self, path: str) -> bytes:
        self.step()
        found = self.files.get(path)
        if found is None:
            raise FileNotFoundError(path)
        return found[0]

    def write(self, path: str, content: bytes) -> None:
        self.step()
        self.before_write()
        self.put(path, content)

    def create(self, path: str, content: bytes) -> None:
        """Write a file that is not there, as Spark writes entries of a checkpoint.

        Raises:
            FileExistsError: It is there.
        """
        self.step()
        self.before_write()
        if path in self.files:
            raise FileExistsError(path)
        self.put(path, content)

    def delete(self, path: str) -> None:
        self.step()
        if path not in self.files:
            raise FileNotFoundError(path)
        self._drop(path)

    def open(self, path: str) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def modified_ms(self, path: str) -> int:
        self.step()
        found = self.files.get(path)
        if found is None:
            raise FileNotFoundError(path)
        return found[1]

    def size(self, path: str) -> int:
        return len(self.read(path))

    def put(self, path: str, content: bytes, at: int | None = None) -> None:
        """Write a file, without a step."""
        self.clock += 1
        if path not in self.files:
            self._enter(path)
        self.files[path] = content, self.clock if at is None else at

    def copy(self, roots: Iterable[str]) -> dict[str, tuple[bytes, int]]:
        """The files below some folders."""
        inside = tuple(f"{root}/" for root in roots)
        return {path: file for path, file in self.files.items() if path.startswith(inside)}

    def put_back(self, roots: Iterable[str], copy: dict[str, tuple[bytes, int]]) -> None:
        """Have the files of a copy again, with their times, and no others below these folders."""
        inside = tuple(f"{root}/" for root in roots)
        for path in [one for one in self.files if one.startswith(inside)]:
            self._drop(path)
        for path, (content, at) in copy.items():
            if path.startswith(inside):
                self.put(path, content, at)

    def rename(self, path: str, to: str) -> None:
        """Give a folder another name."""
        for one, (content, at) in self.copy([path]).items():
            self.put(f"{to}{one.removeprefix(path)}", content, at)
            self._drop(one)

    def _enter(self, path: str) -> None:
        while True:
            folder, _, name = path.rpartition("/")
            if not folder:
                return
            inside = self._folders.setdefault(folder, {})
            inside[name] = inside.get(name, 0) + 1  # files at and below it
            path = folder

    def _drop(self, path: str) -> None:
        del self.files[path]
        while True:
            folder, _, name = path.rpartition("/")
            if not folder:
                return
            inside = self._folders[folder]
            inside[name] -= 1
            if not inside[name]:
                del inside[name]
                if not inside:
                    del self._folders[folder]
            path = folder
