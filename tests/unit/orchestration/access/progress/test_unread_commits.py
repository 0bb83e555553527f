"""Running sums of unread commits equal a count commit by commit, at every position of every reader."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest

from common.delta.checkpoint import DeltaPosition
from common.delta.log import LogReader
from common.errors import HistoryGoneError
from orchestration.access.progress import unread_commits
from orchestration.access.progress.unread_commits import UnreadCounter


def write(folder: Path, version: int, *actions: object) -> None:
    file = folder / "_delta_log" / f"{version:020}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    info = {"commitInfo": {"timestamp": 1_000 * version, "operation": "WRITE"}}
    file.write_text("\n".join(json.dumps(action) for action in (info, *actions)))


def add(rows: int | None, size: int, *, is_data: bool = True) -> object:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"add": {"path": f"{size}.parquet", "size": size, "dataChange": is_data, **stats}}


def remove(size: int, *, is_data: bool) -> object:
    return {"remove": {"path": f"{size}.parquet", "dataChange": is_data}}


def drawn(draw: random.Random) -> list[object]:
    """A commit: appended files, some without statistics, an empty one, a compaction, or an overwrite."""
    kind = draw.choice(["append", "append", "append", "empty", "compact", "overwrite"])
    if kind == "empty":
        return []
    rows = None if draw.random() < 0.1 else draw.randrange(9)
    files = [add(rows, draw.randrange(1, 99), is_data=kind != "compact") for _ in range(draw.randrange(1, 4))]
    return files if kind == "append" else [*files, remove(1, is_data=kind == "overwrite")]


def at(version: int, index: int = -1) -> DeltaPosition:
    return DeltaPosition(version, index, "id", in_snapshot=False)


@pytest.mark.parametrize("seed", range(8))
def test_each_reader_gets_what_a_count_of_its_commits_gives(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_commits, "_IN_MEMORY", 3)
    monkeypatch.setattr(unread_commits, "_TRIMMED", 4)
    draw = random.Random(seed)  # noqa: S311  # reproducible
    counter, written = UnreadCounter(LogReader(str(tmp_path))), 0
    for _ in range(6):
        for _ in range(draw.randrange(1, 6)):
            write(tmp_path, written, *drawn(draw))
            written += 1
        positions = [at(version, index) for version, index in product(range(written + 1), (-1, 0, 1))]
        for position in draw.choices(positions, k=12):
            fresh = LogReader(str(tmp_path))
            found = counter.count(position)
            assert found.backlog == fresh.backlog(position), position
            if not found.backlog.files:
                continue
            after = [fresh.commit(version) for version in range(position.version, written)]
            removed = [one.timestamp for one in after if one is not None and one.removed_files]
            assert found.removed_at == next(iter(removed), None)
            data = [one.timestamp for one in after if one is not None and one.added and not one.is_change]
            assert found.oldest_at in data[:2]
        counter.forget_before(written // 2)


def test_a_look_reads_only_new_commits_and_keeps_none_of_a_long_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_commits, "_IN_MEMORY", 10)
    for version in range(200):
        write(tmp_path, version, add(1, 5))
    log = LogReader(str(tmp_path))
    counter = UnreadCounter(log)
    assert counter.count(at(3)).backlog.rows == 197
    assert len(log._commits) <= 22
    log._commits.clear()
    write(tmp_path, 200, add(1, 5))
    assert counter.count(at(3)).backlog.rows == 198
    looks = [counter.count(at(180), name) for name in ("silver.a", "silver.a", "silver.b")]
    assert [(look.listed, look.end) for look in looks] == [(21, 200), (0, 200), (21, 200)]
    write(tmp_path, 201, add(1, 5), add(1, 5))
    look = counter.count(at(180), "silver.a")
    assert (look.listed, look.end, look.backlog.files) == (2, 201, 23)
    assert counter.count(at(150)).backlog.rows == 53
    assert set(log._commits) <= {3, 150, 180, 200, 201}


def test_commits_that_the_cleanup_deletes_while_a_reader_is_stopped_are_seen(tmp_path: Path) -> None:
    for version in range(5):
        write(tmp_path, version, add(1, 5))
    counter = UnreadCounter(LogReader(str(tmp_path)))
    assert counter.count(at(1)).backlog.rows == 4
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(HistoryGoneError, match="commit 1 is gone"):
        counter.count(at(1))
    assert counter.count(at(2)).backlog.rows == 3
