"""What is found of a table whose log or files are damaged, on real tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import SparkRuntimeException

from common.delta.checkpoint import DeltaPosition
from common.delta.log import snapshot
from common.errors import QueryFailedError
from orchestration.change.recover.damage import _source_fault, _state_fault, table_damage


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
        (
            lambda table: [
                (table / "_delta_log" / "_last_checkpoint").write_text("{}"),
                *(one.unlink() for one in (table / "_delta_log").glob("*.json")),
            ],
            "has no commit",
        ),
    ],
)
def test_a_damaged_table_is_named(table: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(table)
    (found,) = table_damage("silver.x", str(table))
    assert found.startswith("silver.x: ")
    assert words in found


def test_a_table_whose_creation_was_cut_off_is_no_damage(tmp_path: Path) -> None:
    """The next start creates it."""
    log = tmp_path / "t" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    assert list(table_damage("silver.x", str(tmp_path / "t"))) == []
    (log / ".00000000000000000000.json.5f1c.tmp").write_text("{")
    assert list(table_damage("silver.x", str(tmp_path / "t"))) == []


class Failing:
    """A session whose reads of a state fail with one error."""

    streams: object = None

    def __init__(self, error: str) -> None:
        self._error = error

    @property
    def read(self) -> Any:
        """The reader."""
        raise SparkRuntimeException(self._error)


@pytest.mark.parametrize(
    ("error", "is_damage"),
    [
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] An error occurred", True),
        ("Job aborted: java.io.FileNotFoundException: File file:/c/state/0/1/2.delta does not exist", True),
        ("RpcEndpointNotFoundException: Cannot find endpoint: spark://StateStoreCoordinator@h:1", False),
        ("java.lang.OutOfMemoryError: Java heap space", False),
    ],
)
def test_only_a_named_damage_of_a_state_is_damage(error: str, *, is_damage: bool) -> None:
    session: Any = Failing(error)
    if is_damage:
        assert _state_fault("silver.x", "/c", {}, session)
        return
    with pytest.raises(QueryFailedError, match=r"silver\.x failed: Spark did not read its state"):
        _state_fault("silver.x", "/c", {}, session)


def at(table: Path, version: int, table_id: str | None = None) -> DeltaPosition:
    now = snapshot(str(table))
    assert now is not None
    return DeltaPosition(version, -1, now.table_id if table_id is None else table_id, in_snapshot=False)


def source_faults(table: Path, end: DeltaPosition) -> list[str]:
    return list(_source_fault("silver.x", "bronze.x", str(table), None, end))


def test_a_source_that_was_read_to_its_end_has_no_fault(table: Path) -> None:
    assert source_faults(table, at(table, 4)) == []
    assert source_faults(table, at(table, 4, "")) == []


def test_a_source_that_was_created_again_or_set_back_is_named(table: Path) -> None:
    (other,) = source_faults(table, at(table, 2, "another id"))
    assert other == "silver.x: it has read another table than the bronze.x that is there now"
    (back,) = source_faults(table, at(table, 5))
    assert back == "silver.x: it has read bronze.x up to version 4, and the table ends with version 3"
