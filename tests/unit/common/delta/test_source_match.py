"""The history of a source is compared with what a query has read of it, by the digest of the last commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.delta.match.source_match import (
    Source,
    SourceNote,
    last_commits,
    reads_others,
    refuse_other_history,
    source_faults,
)
from common.errors import CheckpointMismatchError


def position(version: int, index: int = -1, *, is_snapshot: bool = False) -> dict[str, Any]:
    return {"reservoirVersion": version, "index": index, "isStartingVersion": is_snapshot}


def commit(table: Path, version: int, text: str) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "txnId": text}}
    (log / f"{version:020}.json").write_text(json.dumps(info) + "\n", encoding="utf-8")


def delete(table: Path, version: int) -> None:
    (table / "_delta_log" / f"{version:020}.json").unlink()


@pytest.fixture
def bronze(tmp_path: Path) -> Source:
    """A table with the versions 0 to 3."""
    for version in range(4):
        commit(tmp_path / "bronze", version, f"first {version}")
    return Source("bronze.orders", str(tmp_path / "bronze"))


@pytest.mark.parametrize(
    ("read", "version"),
    [
        (position(4), 3),
        (position(3, 0), 3),
        (position(3), 2),
        (position(2, is_snapshot=True), 2),
        (position(0), None),
        (None, None),
    ],
)
def test_the_last_commit_is_the_newest_of_which_a_row_is_read(
    bronze: Source, read: dict[str, Any] | None, version: int | None
) -> None:
    (found,) = last_commits([read], [bronze])
    assert (found and found["version"]) == version
    assert list(source_faults([read], [found], [bronze])) == []


def test_a_source_that_another_declaration_named_has_no_fault(bronze: Source, tmp_path: Path) -> None:
    """That the declaration names another table is refused as such, not as an older copy."""
    commit(tmp_path / "other", 0, "other 0")
    other = Source("silver.exact", str(tmp_path / "other"))
    ends = [position(4)]
    commits = last_commits(ends, [bronze])
    assert (reads_others(commits, [bronze]), reads_others(commits, [other])) == (False, True)
    assert list(source_faults(ends, commits, [other])) == []
    unnamed = [{name: value for name, value in commits[0].items() if name != "table"}]
    assert len(list(source_faults(ends, unnamed, [other]))) == 1


def test_a_history_that_goes_on_is_right_and_one_that_went_back_is_refused(bronze: Source) -> None:
    ends = [position(4)]
    commits = last_commits(ends, [bronze])
    table = Path(bronze.path)
    commit(table, 4, "first 4")
    refuse_other_history("silver.orders", ends, commits, [bronze])
    for version in (3, 4):
        delete(table, version)
    with pytest.raises(
        CheckpointMismatchError, match=r"up to version 3, and .* ends with version 2: .*"
    ) as told:
        refuse_other_history("silver.orders", ends, commits, [bronze])
    assert "medallion recover silver.orders" in str(told.value)
    for version in (3, 4, 5):  # it has grown past what was read
        commit(table, version, f"second {version}")
    with pytest.raises(CheckpointMismatchError, match=r"another version 3 of bronze\.orders"):
        refuse_other_history("silver.orders", ends, commits, [bronze])


def test_commits_that_name_no_digest_are_compared_by_number(bronze: Source) -> None:
    """Those of an earlier version of the engine."""
    assert list(source_faults([position(4)], (), [bronze])) == []
    (fault,) = source_faults([position(5)], (), [bronze])
    assert "up to version 4" in fault


def test_a_commit_that_the_logs_cleanup_has_deleted_is_not_compared(bronze: Source) -> None:
    ends = [position(3)]
    commits = last_commits(ends, [bronze])
    for version in range(3):
        delete(Path(bronze.path), version)
    assert list(source_faults(ends, commits, [bronze])) == []


def test_each_of_two_sources_is_compared(bronze: Source, tmp_path: Path) -> None:
    commit(tmp_path / "other", 0, "other 0")
    other = Source("silver.other", str(tmp_path / "other"))
    ends = [position(4), position(1)]
    commits = last_commits(ends, [bronze, other])
    commit(tmp_path / "other", 0, "another 0")
    (fault,) = source_faults(ends, commits, [bronze, other])
    assert "version 0 of silver.other" in fault


def test_a_query_without_a_table_notes_it_in_its_checkpoint(bronze: Source, tmp_path: Path) -> None:
    note = SourceNote(str(tmp_path / "checkpoint"))
    assert note.read() == {}
    commits = last_commits([position(4)], [bronze])
    note.write([position(4)], commits)
    assert note.read() == {"positions": [position(4)], "source_commits": list(commits)}
