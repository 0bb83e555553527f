"""Tables kept open: what is handed out is always the table that lies there now."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from common.delta import delta_rs_handles
from common.delta.delta_rs_handles import open_table


def put(path: Path, *numbers: int) -> None:
    """One commit more, made by somebody else."""
    write_deltalake(str(path), pa.table({"n": list(numbers)}), mode="append")


def numbers(path: Path) -> list[int]:
    """What the open table has."""
    return sorted(open_table(str(path)).to_pyarrow_table()["n"].to_pylist())


def test_new_commits_are_seen_and_a_table_stays_open(tmp_path: Path) -> None:
    put(tmp_path, 1)
    first = open_table(str(tmp_path))
    put(tmp_path, 2)
    put(tmp_path, 3)
    assert open_table(str(tmp_path)) is first
    assert first.version() == 2
    assert numbers(tmp_path) == [1, 2, 3]


def test_the_names_of_the_log_are_not_read_where_there_is_no_new_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them costs as much as the log is long."""
    put(tmp_path, 1)
    first = open_table(str(tmp_path))
    update, updates = DeltaTable.update_incremental, []

    def counted(table: DeltaTable) -> None:
        updates.append(table)
        update(table)

    monkeypatch.setattr(DeltaTable, "update_incremental", counted)
    write_deltalake(first, pa.table({"n": [2]}), mode="append")
    updates.clear()
    assert open_table(str(tmp_path)) is first
    assert not updates
    put(tmp_path, 3)
    assert numbers(tmp_path) == [1, 2, 3]
    assert updates == [first]


@pytest.mark.parametrize("commits", [1, 3, 7])
def test_a_table_in_the_place_of_another_is_opened_anew(tmp_path: Path, commits: int) -> None:
    """With fewer, as many, and more commits than the one before."""
    for number in range(3):
        put(tmp_path / "t", number)
    assert numbers(tmp_path / "t") == [0, 1, 2]
    shutil.rmtree(tmp_path / "t")
    for number in range(commits):
        put(tmp_path / "t", 10 + number)
    assert numbers(tmp_path / "t") == [10 + number for number in range(commits)]


def test_a_commit_that_is_taken_back_is_not_there(tmp_path: Path) -> None:
    """And another one of its number is."""
    put(tmp_path, 1)
    put(tmp_path, 2)
    assert numbers(tmp_path) == [1, 2]
    (tmp_path / f"_delta_log/{1:020}.json").unlink()
    assert numbers(tmp_path) == [1]
    put(tmp_path, 3)
    assert numbers(tmp_path) == [1, 3]


def test_a_commit_that_is_another_under_the_same_number(tmp_path: Path) -> None:
    """Taken back and made anew while nobody looked."""
    put(tmp_path, 1)
    put(tmp_path, 2)
    assert numbers(tmp_path) == [1, 2]
    (tmp_path / f"_delta_log/{1:020}.json").rename(tmp_path / "aside")
    put(tmp_path, 3)
    assert numbers(tmp_path) == [1, 3]


def test_a_table_stays_open_that_is_written_through_it(tmp_path: Path) -> None:
    put(tmp_path, 1)
    first = open_table(str(tmp_path))
    for number in range(2, 4):
        write_deltalake(open_table(str(tmp_path)), pa.table({"n": [number]}), mode="append")
    assert open_table(str(tmp_path)) is first
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_log_whose_first_commits_were_cleaned_away(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, number)
    DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(2):
        (tmp_path / f"_delta_log/{version:020}.json").unlink()
    assert numbers(tmp_path) == [0, 1, 2]
    put(tmp_path, 3)
    assert numbers(tmp_path) == [0, 1, 2, 3]


def test_no_table_is_an_error_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(DeltaError):
            open_table(str(tmp_path / "none"))
    put(tmp_path / "none", 1)
    assert numbers(tmp_path / "none") == [1]


def test_each_thread_has_its_own_and_few_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_rs_handles, "_MOST_TABLES", 2)
    monkeypatch.setattr(delta_rs_handles, "_MOST_TIMES", 3)
    for name in "abc":
        put(tmp_path / name, 1)
    mine = open_table(str(tmp_path / "a"))
    theirs: list[DeltaTable] = []
    thread = threading.Thread(target=lambda: theirs.append(open_table(str(tmp_path / "a"))))
    thread.start()
    thread.join()
    assert theirs[0] is not mine
    assert open_table(str(tmp_path / "a")) is mine
    for name in "bc":
        open_table(str(tmp_path / name))
    assert open_table(str(tmp_path / "a")) is not mine, "it was the oldest of three"
    kept = open_table(str(tmp_path / "a"))
    assert open_table(str(tmp_path / "a")) is kept
    assert open_table(str(tmp_path / "a")) is not kept, "it was asked for three times"
