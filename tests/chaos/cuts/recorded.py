"""The changes of files that ``record.c`` has recorded, and the folder as it was after any of them."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a file below the recorded folder; ``record.c`` lists the kinds."""

    kind: str
    path: str
    second: str
    offset: int
    data: bytes

    def __str__(self) -> str:
        what = {"W": f"write {len(self.data)} bytes at {self.offset}", "T": f"set size {self.offset}"}
        name = what.get(self.kind, _NAMES.get(self.kind, self.kind))
        return f"{name}: {self.path}{' -> ' + self.second if self.second else ''}"


_NAMES = {
    "C": "create", "R": "rename", "L": "link", "U": "delete", "M": "make folder", "D": "remove folder",
    "S": "flush",
}  # fmt: skip


def build_library(folder: Path, name: str = "record") -> Path:
    """Compile a library that processes are started with; needs a C compiler."""
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    command = ["cc", "-O2", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def environment(library: Path, below: Path, log: Path) -> dict[str, str]:
    """The variables of a process whose changes below a folder are recorded."""
    return {**os.environ, "LD_PRELOAD": str(library), "FILES_BELOW": str(below), "FILES_LOG": str(log)}


def read_changes(log: Path) -> Iterator[Change]:
    """The changes of a log, in order."""
    content, at = log.read_bytes(), 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return content[at - size : at]

    def text() -> str:
        return take(struct.unpack("<I", take(4))[0]).decode()

    while at < len(content):
        kind, path, second = take(1).decode(), text(), text()
        (offset,) = struct.unpack("<q", take(8))
        yield Change(kind, path, second, offset, take(struct.unpack("<I", take(4))[0]))


@dataclass
class _File:
    """A file by its bytes now, and by those that a power cut leaves."""

    content: bytearray
    flushed: bytes = b""


class Disk:
    """The recorded folder, in memory, after some of its changes.

    A power cut leaves what ext4 leaves at worst: the names of the last flush, because a flush commits the
    journal, and of each file the bytes of its own last flush.

    Args:
        recorded: The folder whose changes were recorded.
        before: A copy of it from before the first change.
    """

    def __init__(self, recorded: Path, before: Path) -> None:
        self._recorded = str(recorded)
        self._folders = {str(each.relative_to(before)) for each in before.rglob("*") if each.is_dir()}
        self._files: dict[str, _File] = {}
        for each in before.rglob("*"):
            if each.is_file():
                content = each.read_bytes()
                self._files[str(each.relative_to(before))] = _File(bytearray(content), content)
        self._journal = (set(self._folders), dict(self._files))

    def apply(self, change: Change, *, cut: int | None = None) -> None:  # noqa: C901  # one case per kind
        """Make a change; of a write perhaps only so many bytes, as on a full disk."""
        files, at, to = self._files, self._at(change.path), self._at(change.second)
        match change.kind:
            case "C":
                files[at] = _File(bytearray())
            case "W":
                self._write(files[at].content, change.offset, change.data[:cut])
            case "T":
                content = files[at].content
                content[:] = content[: change.offset].ljust(change.offset, b"\0")
            case "R":
                self._rename(at, to)
            case "L":
                files[to] = files[at]
            case "U":
                del files[at]
            case "M":
                self._folders.add(at)
            case "D":
                self._folders.discard(at)
            case "S":
                if at in files:
                    files[at].flushed = bytes(files[at].content)
                self._journal = (set(self._folders), dict(files))

    def write_to(self, folder: Path, *, after_power_cut: bool = False) -> None:
        """The folder as it is now, or as it is after a power cut."""
        folders, files = self._journal if after_power_cut else (self._folders, self._files)
        folder.mkdir(parents=True)
        for each in sorted(folders):
            (folder / each).mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            (folder / name).write_bytes(file.flushed if after_power_cut else file.content)

    def _at(self, path: str) -> str:
        return path.removeprefix(self._recorded).lstrip("/")

    @staticmethod
    def _write(content: bytearray, offset: int, data: bytes) -> None:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data

    def _rename(self, at: str, to: str) -> None:
        if at in self._files:
            self._files[to] = self._files.pop(at)
            return
        for names in (self._folders, self._files):
            for name in [each for each in names if each == at or each.startswith(f"{at}/")]:
                moved = to + name.removeprefix(at)
                if isinstance(names, dict):
                    names[moved] = names.pop(name)
                else:
                    names.remove(name)
                    names.add(moved)
