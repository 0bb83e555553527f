"""Watches the free space of the disks that a job writes to.

A query that finds less than the floor waits before it writes anything: a micro-batch that meets a full disk
in the middle leaves half-written files, and its error may be that of any library.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """The disks of some folders, and how much of each must be free."""

    folders: Sequence[str]  # local folders; one that does not exist yet counts as the nearest folder above it
    floor_mb: int  # least free space in MiB; 0: none is required

    def shortage(self) -> str | None:
        """The first folder on whose disk less than the floor is free, in words; None if all have enough.

        Two microseconds per folder.
        """
        if not self.floor_mb:
            return None
        for folder in self.folders:
            free = _free_bytes(folder)
            if free is not None and free < self.floor_mb * _MIB:
                return f"the disk of {folder} has {free // _MIB:,} MiB left, less than {self.floor_mb:,} MiB"
        return None


def _free_bytes(folder: str) -> int | None:
    """Bytes that this user may still write; None where no folder above exists."""
    path = folder
    while path:
        try:
            found = os.statvfs(path)
        except (FileNotFoundError, NotADirectoryError):
            parent = os.path.dirname(path)  # noqa: PTH120  # called before each micro-batch
            if parent == path:
                return None
            path = parent
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None
