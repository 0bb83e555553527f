"""What is found of a table whose log or files are damaged, on real tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.recovery.damage import table_damage


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four commits, a file each."""
    for number in range(4):
        write_deltalake(str(tmp_path / "t"), pa.table({"n": [number]}), mode="append")
    return tmp_path / "t"


def newest(table: Path) -> Path:
    return table / "_delta_log" / f"{3:020}.json"


def cut(file: Path, size: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(size)


def test_a_whole_table_and_no_table_have_no_damage(table: Path, tmp_path: Path) -> None:
    assert list(table_damage("silver.x", str(table))) == []
    assert list(table_damage("silver.x", str(tmp_path / "nothing"))) == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda table: next(table.glob("*.parquet")).unlink(), "is gone"),
        (lambda table: cut(next(table.glob("*.parquet")), 10), "has 10 bytes instead of"),
        (lambda table: (table / "_delta_log" / f"{1:020}.json").unlink(), "commit 1 is gone from the log"),
        (lambda table: cut(newest(table), 40), ""),
        (lambda table: newest(table).write_bytes(b"x" * 100), ""),
        (lambda table: [one.unlink() for one in (table / "_delta_log").glob("*.json")], "has no commit"),
    ],
)
def test_a_damaged_table_is_named(table: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(table)
    (found,) = table_damage("silver.x", str(table))
    assert found.startswith("silver.x: ")
    assert words in found
