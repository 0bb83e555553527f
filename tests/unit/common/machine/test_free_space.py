"""The free space of real disks, compared with a floor."""

from __future__ import annotations

import os
from pathlib import Path

from common.machine.files.free_space import FreeSpace


def test_too_little_space_is_named_with_the_folder(tmp_path: Path) -> None:
    """No disk has an exbibyte free; a folder that is yet to be created counts as the one above it."""
    later = tmp_path / "tables" / "silver"
    shortage = FreeSpace([str(later)], 2**40).shortage()
    assert shortage is not None
    assert shortage.startswith(f"the disk of {later} has ")
    assert shortage.endswith(f"less than {2**40:,} MiB")


def test_enough_space_is_no_shortage(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    free_mb = found.f_bavail * found.f_frsize // 2**20
    assert FreeSpace([str(tmp_path)], max(1, free_mb // 2)).shortage() is None
    assert FreeSpace([str(tmp_path)], 2 * free_mb + 1).shortage() is not None


def test_a_floor_of_zero_looks_at_nothing() -> None:
    assert FreeSpace(["/nowhere"], 0).shortage() is None
