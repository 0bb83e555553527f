"""A Delta log is read exactly as a stream would count it: real tables, written by delta-rs."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.delta.checkpoint import DeltaPosition
from common.delta.log import Backlog, LogReader, latest_version, snapshot
from common.errors import HistoryGoneError, TableError


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "quakes")


def append(path: str, rows: int, note: str | None = None, mode: str = "append") -> None:
    properties = CommitProperties(custom_metadata={"userMetadata": note}) if note else None
    write_deltalake(path, pa.table({"n": list(range(rows))}), mode=mode, commit_properties=properties)


def log_file(path: str, version: int) -> Path:
    return Path(path) / "_delta_log" / f"{version:020}.json"


def hand_written(path: str, version: int, *actions: dict[str, object]) -> None:
    log_file(path, version).parent.mkdir(parents=True, exist_ok=True)
    log_file(path, version).write_text("\n".join(json.dumps(action) for action in actions))


def add(rows: int | None, size: int, *, data_change: bool = True) -> dict[str, object]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {"path": f"{size}.parquet", "size": size, "dataChange": data_change, **stats}}


def at(version: int, index: int = -1, *, in_snapshot: bool = False) -> DeltaPosition:
    return DeltaPosition(version, index, "id", in_snapshot)


def live(path: str) -> dict[str, int]:
    actions = DeltaTable(path).get_add_actions()
    return dict(
        zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True)
    )


def test_no_table_has_no_version_and_no_snapshot(table: str) -> None:
    assert latest_version(table) is None
    assert snapshot(table) is None
    assert LogReader(table).backlog(None) == Backlog(0, 0, 0, 0)
    assert list(LogReader(table).commits()) == []


def test_a_commit_says_what_it_brought(table: str) -> None:
    append(table, 3, note='{"batch": 7}')
    (commit,) = LogReader(table).commits()
    ((_, size),) = live(table).items()
    assert (commit.version, commit.operation, commit.user_metadata) == (0, "WRITE", '{"batch": 7}')
    assert (commit.files, commit.bytes, commit.rows, commit.removed_files) == (1, size, 3, 0)
    assert not commit.is_change
    stated = json.loads(log_file(table, 0).read_text().splitlines()[0])["commitInfo"]["timestamp"]
    assert commit.timestamp == datetime.fromtimestamp(stated / 1000, UTC)


def test_an_overwrite_is_a_change_and_its_note_is_none(table: str) -> None:
    append(table, 3)
    append(table, 4)
    append(table, 2, mode="overwrite")
    commit = next(iter(LogReader(table).commits(2)))
    assert (commit.files, commit.rows, commit.removed_files, commit.is_change) == (1, 2, 2, True)
    assert commit.user_metadata is None


def test_compaction_brings_no_data_and_is_no_change(table: str) -> None:
    for rows in (3, 4):
        append(table, rows)
    DeltaTable(table).optimize.compact()
    commit = next(iter(LogReader(table).commits(2)))
    assert (commit.operation, commit.files, commit.rows) == ("OPTIMIZE", 0, 0)
    assert (commit.removed_files, commit.is_change) == (2, False)


def test_commits_are_read_from_start_to_end_in_order(table: str) -> None:
    for rows in (1, 2, 3, 4):
        append(table, rows)
    assert [commit.rows for commit in LogReader(table).commits(1, 2)] == [2, 3]
    assert [commit.rows for commit in LogReader(table).commits(2)] == [3, 4]
    assert list(LogReader(table).commits(4)) == []


def test_commits_below_the_start_are_never_read(table: str) -> None:
    for rows in (1, 2, 3):
        append(table, rows)
    log_file(table, 1).write_text("this is no commit")
    assert [commit.rows for commit in LogReader(table).commits(2)] == [3]
    assert LogReader(table).backlog(at(2)).rows == 3
    with pytest.raises(TableError, match=r"00001\.json is no Delta commit"):
        list(LogReader(table).commits())


def test_a_backlog_is_what_the_position_has_not_reached(table: str) -> None:
    for rows in (1, 2, 3):
        append(table, rows)
    sizes = [commit.bytes for commit in LogReader(table).commits()]
    assert LogReader(table).backlog(None) == Backlog(3, 3, sum(sizes), 6)
    assert LogReader(table).backlog(at(1)) == Backlog(2, 2, sizes[1] + sizes[2], 5)
    assert LogReader(table).backlog(at(3)) == Backlog(0, 0, 0, 0)


def test_a_position_inside_a_commit_leaves_the_rest_of_it(tmp_path: Path) -> None:
    path = str(tmp_path)
    hand_written(path, 0, add(10, 100), add(99, 999, data_change=False), add(20, 200), add(40, 400))
    hand_written(path, 1, add(1, 7))
    assert LogReader(path).backlog(at(0, 0)) == Backlog(2, 3, 607, 61)
    assert LogReader(path).backlog(at(0, 1)) == Backlog(2, 2, 407, 41)
    assert LogReader(path).backlog(at(0, 2)) == Backlog(1, 1, 7, 1)


def test_what_a_stream_skips_is_no_backlog(table: str) -> None:
    append(table, 3)
    append(table, 4)
    DeltaTable(table).optimize.compact()
    append(table, 2, mode="overwrite")
    append(table, 5)
    assert LogReader(table).backlog(at(2)).rows == 5
    assert LogReader(table).backlog(at(2)).versions == 1
    assert LogReader(table).backlog(at(0)).rows == 12


def test_inside_a_first_snapshot_the_files_left_of_it_count_too(table: str) -> None:
    for rows in (1, 2, 4):
        append(table, rows)
    DeltaTable(table).optimize.compact()
    append(table, 8)
    append(table, 16)
    assert LogReader(table).backlog(at(4, -1, in_snapshot=True)).rows == 7 + 8 + 16
    assert LogReader(table).backlog(at(4, 0, in_snapshot=True)).files == 2
    assert LogReader(table).backlog(at(4, 1, in_snapshot=True)).rows == 16


def test_a_first_snapshot_is_ordered_by_file_time(table: str) -> None:
    for rows in (1, 2, 4):
        append(table, rows)
    assert [LogReader(table).backlog(at(2, index, in_snapshot=True)).rows for index in (-1, 0, 1, 2)] == [
        7,
        6,
        4,
        0,
    ]


def test_between_two_positions_lies_what_was_consumed(table: str) -> None:
    for rows in (1, 2, 4, 8):
        append(table, rows)
    log = LogReader(table)
    assert log.backlog_between(at(1), at(3)).rows == 6
    assert log.backlog_between(at(2), at(2)) == Backlog(0, 0, 0, 0)
    assert log.backlog_between(None, at(2, 0)).rows == 7
    assert log.backlog_between(None, at(3, 1, in_snapshot=True)).rows == 3
    assert log.backlog_between(at(3, 1, in_snapshot=True), at(3, 2, in_snapshot=True)).rows == 4
    assert log.backlog_between(at(3, 1, in_snapshot=True), at(4)).rows == 12


def test_of_the_last_commit_only_the_files_up_to_the_end_were_read(tmp_path: Path) -> None:
    hand_written(str(tmp_path), 0, add(1, 10))
    hand_written(str(tmp_path), 1, add(2, 20), add(4, 40), add(8, 80))
    log = LogReader(str(tmp_path))
    assert log.backlog_between(at(0), at(1, 0)).rows == 3
    assert log.backlog_between(at(1, 0), at(1, 1)).rows == 4
    assert log.backlog_between(at(1, 1), at(2)).rows == 8


def test_a_file_without_statistics_makes_rows_unknown_not_fewer(tmp_path: Path) -> None:
    hand_written(str(tmp_path), 0, add(10, 100), add(None, 50))
    assert LogReader(str(tmp_path)).backlog(at(0)) == Backlog(1, 2, 150, None)


def test_commits_cleaned_up_before_they_were_read_are_told(table: str) -> None:
    for rows in (1, 2, 4):
        append(table, rows)
    DeltaTable(table).create_checkpoint()
    append(table, 8)
    for version in (0, 1):
        log_file(table, version).unlink()
    assert latest_version(table) == 3
    with pytest.raises(HistoryGoneError, match="commit 1 is gone from the log; the oldest one left is 2"):
        LogReader(table).backlog(at(1))
    assert LogReader(table).backlog(at(2)).rows == 12
    assert LogReader(table).backlog(None) == Backlog(4, 4, sum(live(table).values()), 15)


@pytest.mark.parametrize("newest", [0, 1, 2, 3, 6, 7, 8, 30])
def test_the_newest_version_is_found_without_listing(tmp_path: Path, newest: int) -> None:
    for version in range(newest + 1):
        hand_written(str(tmp_path), version, add(1, 1))
    log = LogReader(str(tmp_path))
    log._log.names = lambda: pytest.fail("listed")  # type: ignore[method-assign]
    assert log.latest_version() == newest
    hand_written(str(tmp_path), newest + 1, add(1, 1))
    assert log.latest_version() == newest + 1


def test_a_checkpoint_hint_may_be_stale_or_broken(tmp_path: Path) -> None:
    for version in (5, 6, 7):
        hand_written(str(tmp_path), version, add(1, 1))
    hint = tmp_path / "_delta_log" / "_last_checkpoint"
    assert latest_version(str(tmp_path)) == 7
    for content in ('{"version": 5}', '{"version": 2}', "{", "[]"):
        hint.write_text(content)
        assert latest_version(str(tmp_path)) == 7


def test_a_snapshot_is_the_table_as_it_is_now(table: str) -> None:
    for rows in (3, 4):
        append(table, rows)
    append(table, 2, mode="overwrite")
    append(table, 5)
    now = snapshot(table)
    assert now is not None
    assert (now.version, now.rows, now.files, now.bytes) == (3, 7, 2, sum(live(table).values()))
    assert now.columns == ("n",)
    assert now.table_id == str(DeltaTable(table).metadata().id)
    assert now.timestamp == next(iter(LogReader(table).commits(3))).timestamp


def test_a_reader_sees_what_is_new_and_reads_no_commit_twice(table: str) -> None:
    append(table, 3)
    log = LogReader(table)
    first = log.snapshot()
    assert first is not None
    assert first.rows == 3
    assert log.snapshot() is first
    append(table, 4)
    assert log.backlog(at(0)).rows == 7
    log_file(table, 1).write_text("no longer read")
    assert log.backlog(at(0)).rows == 7


def test_a_reader_notices_that_the_table_was_made_anew(table: str) -> None:
    for rows in (3, 4):
        append(table, rows)
    log = LogReader(table)
    before = log.snapshot()
    shutil.rmtree(table)
    assert log.snapshot() is None
    append(table, 5)
    after = log.snapshot()
    assert before is not None
    assert after is not None
    assert (after.version, after.rows) == (0, 5)
    assert after.table_id != before.table_id
    assert log.backlog(None).rows == 5


def test_a_reader_notices_that_another_table_has_as_many_commits(table: str) -> None:
    """Nothing was read while the table was gone."""
    for rows in (3, 4):
        append(table, rows)
    log = LogReader(table)
    assert [log.latest_version(), *(commit.rows for commit in log.commits())] == [1, 3, 4]
    shutil.rmtree(table)
    for rows in (5, 6):
        append(table, rows)
    assert [log.latest_version(), *(commit.rows for commit in log.commits())] == [1, 5, 6]
