"""Permissions of the files and folders that a command creates, and of those that it finds."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

DISK_REFUSES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""The disk is full, the user's share of it is, or it is read-only."""

USER_IS_REFUSED = {errno.EACCES, errno.EPERM}
"""The file or a folder above it belongs to somebody else."""


@contextmanager
def umask(mask: int | None) -> Iterator[None]:
    """Use this umask inside the block, in the whole process; None keeps the process's own."""
    if mask is None:
        yield
        return
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def refused(error: OSError) -> str:
    """What the operating system refuses, as a clause that begins with the path, and what to do about it.

    Args:
        error: One of ``DISK_REFUSES`` or ``USER_IS_REFUSED``.
    """
    named = re.search(r"'(/[^']+)'", str(error))  # Arrow names the file in its text alone
    place = error.filename or (named[1] if named is not None else "a file of this command")
    why = os.strerror(error.errno or 0)
    if error.errno in USER_IS_REFUSED:
        return (
            f"{place} cannot be read or written by this user, uid {os.geteuid()} ({why}). Have it, and the "
            "folders above it, open to this user"
        )
    return f"{place} cannot be written ({why}). Make room on its disk or make it writable"
