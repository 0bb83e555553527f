"""The release of the product that a process runs: leases and the places of standbys have it."""

from __future__ import annotations

import functools
import importlib.metadata
import re


@functools.cache
def own_release() -> str:
    """That of this process, as it was at the first call; empty for a source that is not installed."""
    try:
        return importlib.metadata.version("medallion-lakehouse")
    except importlib.metadata.PackageNotFoundError:
        return ""


def can_follow(own: str, written: str) -> bool:
    """Whether a process of one release may go on with what another release has written.

    The way back is promised between patches only. Releases that are not known are not compared.
    """
    mine, theirs = _minor(own), _minor(written)
    return mine is None or theirs is None or mine >= theirs


def is_of_one_minor(own: str, other: str) -> bool:
    """Whether two known releases differ in the patch at most."""
    return _minor(own) is not None and _minor(own) == _minor(other)


def _minor(release: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", release)
    return None if found is None else (int(found[1]), int(found[2]))
