"""Permissions of the files and folders that a command creates, and the programs that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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
