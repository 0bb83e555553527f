"""Who this process is to the leases of tables on an object store, and the fencing number that it holds.

A fencing number counts the holders of a table's lease. Each commit of a process that holds leases on an
object store carries the number, so the log of a table tells which holder wrote what.
"""

from __future__ import annotations

import uuid

OWNER = uuid.uuid4().hex
"""Identifies this process among all that may hold a lease, on any host."""

_fence: int | None = None


def fence() -> int | None:
    """The fencing number of this process's leases; ``None`` without a lease on an object store."""
    return _fence


def hold(number: int | None) -> None:
    """Have the commits of this process carry this fencing number from now on; ``None``: no number."""
    global _fence  # noqa: PLW0603  # a process holds the leases of one job
    _fence = number
