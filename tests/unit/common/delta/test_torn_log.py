"""A log that a kill, a power cut or an unfinished copy has left: what is mended, and what is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.delta import delta_rs
from common.delta.log import LogReader, is_creation_cut_off, snapshot
from common.errors import HistoryGoneError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four commits, a file each."""
    for number in range(4):
        write_deltalake(str(tmp_path / "t"), pa.table({"n": [number]}), mode="append")
    return tmp_path / "t"


def test_a_hint_of_a_checkpoint_that_is_gone_is_deleted(table: Path) -> None:
    hint = table / "_delta_log" / "_last_checkpoint"
    delta_rs.delete_dangling_hint(str(table))  # there is none
    hint.write_text('{"version": 2, "size": 5}', encoding="utf-8")
    delta_rs.delete_dangling_hint(str(table))
    assert not hint.exists()
    assert LogReader(str(table)).latest_version() == 3


@pytest.mark.parametrize("name", ["checkpoint.parquet", "checkpoint.0000000001.0000000002.parquet"])
def test_a_hint_of_a_checkpoint_that_is_there_stays(table: Path, name: str) -> None:
    hint = table / "_delta_log" / "_last_checkpoint"
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{3:020}.checkpoint.parquet").rename(table / "_delta_log" / f"{2:020}.{name}")
    hint.write_text('{"version": 2, "size": 5}', encoding="utf-8")
    delta_rs.delete_dangling_hint(str(table))
    assert hint.exists()


def cut_off(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def zeros_in_the_footer(whole: bytes) -> bytes:
    """A block of the disk; both ends are whole."""
    middle = len(whole) * 7 // 10
    return whole[:middle] + bytes(40) + whole[middle + 40 :]


@pytest.mark.parametrize("damaged", [cut_off, zeros_in_the_footer])
def test_a_checkpoint_that_is_damaged_is_set_aside_where_all_commits_are_there(
    table: Path, damaged: Callable[[bytes], bytes]
) -> None:
    DeltaTable(str(table)).create_checkpoint()
    log = table / "_delta_log"
    whole = (log / f"{3:020}.checkpoint.parquet").read_bytes()
    delta_rs.delete_dangling_hint(str(table))
    assert (log / f"{3:020}.checkpoint.parquet").exists()
    (log / f"{3:020}.checkpoint.parquet").write_bytes(damaged(whole))
    with pytest.raises(HistoryGoneError):
        snapshot(str(table))
    delta_rs.delete_dangling_hint(str(table))
    found = snapshot(str(table))
    assert found is not None
    assert (found.version, found.rows) == (3, 4)
    assert (log / f".{3:020}.checkpoint.parquet.damaged").exists()
    assert not (log / "_last_checkpoint").exists()

    (log / f"{3:020}.checkpoint.parquet").write_bytes(damaged(whole))
    (log / f"{0:020}.json").unlink()  # without it the checkpoint is all that there is
    delta_rs.delete_dangling_hint(str(table))
    assert (log / f"{3:020}.checkpoint.parquet").exists()


@pytest.mark.parametrize("damage", ["cut off", "gone", "none"])
def test_a_checkpoint_of_which_a_further_file_is_damaged_is_set_aside(table: Path, damage: str) -> None:
    """One of Delta's second version, which names files beside it."""
    DeltaTable(str(table)).create_checkpoint()
    log = table / "_delta_log"
    (log / "_sidecars").mkdir()
    part = log / "_sidecars" / "a part.parquet"
    (log / f"{3:020}.checkpoint.parquet").rename(part)
    named = {"sidecar": {"path": "a%20part.parquet", "sizeInBytes": 1, "modificationTime": 1}}
    checkpoint = log / f"{3:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    checkpoint.write_text(json.dumps(named) + "\n")
    if damage == "cut off":
        part.write_bytes(cut_off(part.read_bytes()))
    elif damage == "gone":
        part.unlink()
    delta_rs.delete_dangling_hint(str(table))
    assert checkpoint.exists() == (damage == "none")
    if damage != "none":
        found = snapshot(str(table))
        assert found is not None
        assert (found.version, found.rows) == (3, 4)


def test_a_checkpoint_that_is_cut_off_is_set_aside_where_an_older_one_is_whole(table: Path) -> None:
    """And the commits since are there: those before it are cleaned."""
    DeltaTable(str(table)).create_checkpoint()
    write_deltalake(str(table), pa.table({"n": [4]}), mode="append")
    DeltaTable(str(table)).create_checkpoint()
    log = table / "_delta_log"
    for number in range(3):
        (log / f"{number:020}.json").unlink()
    (log / f"{4:020}.checkpoint.parquet").write_bytes(b"PAR1")
    delta_rs.delete_dangling_hint(str(table))
    found = snapshot(str(table))
    assert found is not None
    assert (found.version, found.rows) == (4, 5)


def test_a_torn_commit_that_is_rolled_back_can_be_put_back(table: Path) -> None:
    newest = table / "_delta_log" / f"{3:020}.json"
    torn = newest.read_bytes()[:40]
    newest.write_bytes(torn)
    put_back = delta_rs.roll_back_torn_commit(str(table))
    assert LogReader(str(table)).latest_version() == 2
    put_back()
    assert newest.read_bytes() == torn
    delta_rs.roll_back_torn_commit(str(table))
    delta_rs.roll_back_torn_commit(str(table))()  # nothing is left to be put back
    assert LogReader(str(table)).latest_version() == 2


def test_a_gap_in_the_log_is_named_with_the_file(table: Path) -> None:
    (table / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(HistoryGoneError, match=r"commit 1 is gone from its log, .*/0{19}1\.json") as told:
        snapshot(str(table))
    assert "FileMeta" not in str(told.value)


@pytest.mark.parametrize(
    ("names", "is_cut_off"),
    [
        ((), True),
        ((".0.json.cut_off",), True),
        (("_staged_commits/",), True),
        ((".0.json.1-2.tmp",), True),
        (("_last_checkpoint",), False),
    ],
)
def test_a_log_without_a_commit_was_cut_off_unless_it_has_other_files(
    tmp_path: Path, names: tuple[str, ...], *, is_cut_off: bool
) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    for name in names:
        (log / name).mkdir() if name.endswith("/") else (log / name).touch()
    assert is_creation_cut_off(str(tmp_path / "t")) == is_cut_off
    assert not is_creation_cut_off(str(tmp_path / "none"))
