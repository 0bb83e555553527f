"""Who this process is to the leases of its tables, and the proof, before each commit, that it holds them.

A fencing number counts the holders of a table's lease. Each commit of a process that holds leases on an
object store carries the number, so the log of a table tells which holder wrote what.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

OWNER = uuid.uuid4().hex
"""Identifies this process among all that may hold a lease, on any host."""

_fence: int | None = None


_proofs: list[Callable[[], None]] = []


def prove() -> None:
    """Prove that this process holds its leases still, as far as its own disk says.

    Raises:
        LeaseLostError: It does not; nothing may be written.
    """
    for proof in tuple(_proofs):
        proof()


def hold_while(proof: Callable[[], None]) -> Callable[[], None]:
    """Have ``prove`` ask this too; returns what ends that."""
    _proofs.append(proof)
    return lambda: _proofs.remove(proof)


def fence() -> int | None:
    """The fencing number of this process's leases; ``None`` without a lease on an object store."""
    return _fence


def hold(number: int | None) -> None:
    """Have the commits of this process carry this fencing number from now on; ``None``: no number."""
    global _fence  # noqa: PLW0603  # a process holds the leases of one job
    _fence = number
