"""Whether a checkpoint belongs to a table: every pair of the two that can be met."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.delta.match.checkpoint_match import check_checkpoint, check_side_table, last_commit_metadata
from common.errors import CheckpointMismatchError

QUERY = "silver.orders"


def table(folder: Path, *commits: tuple[str, str, int] | str | int | dict[str, object] | None) -> str:
    """A table's log: per commit the query, query id and batch it tells of, or other metadata, or none.

    A number is the version that a RESTORE brings back, a dict what a RESTORE tells instead of one.
    """
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True)
    for version, told in enumerate(commits):
        info: dict[str, object] = {"timestamp": 1, "operation": "WRITE"}
        if isinstance(told, tuple):
            info["userMetadata"] = json.dumps(dict(zip(("query", "query_id", "batch_id"), told, strict=True)))
        elif isinstance(told, (int, dict)):
            given = told if isinstance(told, dict) else {"version": str(told), "timestamp": None}
            info |= {"operation": "RESTORE", "operationParameters": given}
        elif told is not None:
            info["userMetadata"] = told
        (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n", encoding="utf-8")
    return str(folder / "table")


def checkpoint(folder: Path, query_id: str | None, planned: int = -1, committed: int = -1) -> str:
    """A checkpoint with these micro-batches planned and done."""
    root = folder / "checkpoint"
    for name, last in (("offsets", planned), ("commits", committed)):
        (root / name).mkdir(parents=True)
        for batch in range(last + 1):
            (root / name / str(batch)).write_text("v1\n{}\n", encoding="utf-8")
    if query_id is not None:
        (root / "metadata").write_text(json.dumps({"id": query_id}), encoding="utf-8")
    return str(root)


def own(*batches: int) -> list[tuple[str, str, int]]:
    """Commits of our query."""
    return [(QUERY, "q1", batch) for batch in batches]


FINE = {
    "neither was started": ((), (None, -1, -1)),
    "an empty table, nothing done": ((None,), ("q1", -1, -1)),
    "an empty table, one planned": ((None,), ("q1", 0, -1)),
    "in step": ((None, *own(0, 1)), ("q1", 1, 1)),
    "written, not marked as done": ((None, *own(0, 1)), ("q1", 1, 0)),
    "planned, not written": ((None, *own(0)), ("q1", 1, 0)),
    "maintenance in between": ((None, *own(0), None, "by hand", "[1]", "{", '{"query": 1}'), ("q1", 0, 0)),
    "another query writes beside it": (
        (None, *own(0), ("maintain", "q9", 7), ("silver.others", "q8", 9)),
        ("q1", 0, 0),
    ),
}
AMISS = {
    "deleted or created again": ((None,), ("q1", 1, 0)),
    "no table": ((), ("q1", 0, 0)),
    "is gone": ((None, *own(0)), (None, -1, -1)),
    "is that of query q2": ((None, *own(0)), ("q2", 0, 0)),
    "has planned only 1: an older copy": ((None, *own(0, 1, 2)), ("q1", 1, 1)),
    "has planned none: an older copy": ((None, *own(0)), ("q1", -1, -1)),
    "ends with 1: an older copy": ((None, *own(0, 1)), ("q1", 2, 2)),
}


FINE |= {
    "restored to what it is": ((None, *own(0, 1), None, 2), ("q1", 1, 1)),
    "restored, and that undone": ((None, *own(0, 1), 1, 2), ("q1", 1, 1)),
    "restored by number": ((None, *own(0, 1), {"version": 2}), ("q1", 1, 1)),
    "restored to all that it had, then written on": ((None, *own(0), 1, *own(1)), ("q1", 1, 1)),
    "a step taken back and written again": ((None, *own(0, 1), 1, *own(1)), ("q1", 1, 1)),
    "restored by another checkpoint's time": ((None, (QUERY, "q0", 7), 0, *own(0)), ("q1", 0, 0)),
}
RESTORED: dict[str, tuple[object, ...]] = {
    "to an older version": (None, *own(0, 1), 1),
    "to a time": (None, *own(0, 1), {"version": None, "timestamp": "2026-01-01 00:00:00"}),
    "then maintained": (None, *own(0, 1), None, 1, None),
    "then written on": (None, *own(0), 0, *own(1)),
    "back to before it was undone": (None, *own(0, 1), 1, 2, 3),
}


@pytest.mark.parametrize("case", RESTORED)
def test_a_table_that_was_restored_to_an_older_version_is_refused(tmp_path: Path, case: str) -> None:
    path = table(tmp_path, *RESTORED[case])  # type: ignore[arg-type]
    with pytest.raises(CheckpointMismatchError, match="is a RESTORE to an older one") as refused:
        check_checkpoint(QUERY, path, checkpoint(tmp_path, "q1", 1, 1), may_begin_anew=True)
    # Another RESTORE would bring rows twice to the tables that read what is added to silver.
    assert str(refused.value).endswith(f"have it filled again: medallion recover {QUERY}.")


@pytest.mark.parametrize(("can_refill", "way"), [(True, "medallion rebuild gold.x, or "), (False, "")])
def test_a_gold_table_that_was_restored_is_rebuilt_or_put_back(
    tmp_path: Path, *, can_refill: bool, way: str
) -> None:
    path = table(tmp_path, None, ("gold.x", "q1", 0), ("gold.x", "q1", 1), 1)
    with pytest.raises(CheckpointMismatchError, match=rf"{way}RESTORE it to version \d+") as refused:
        check_checkpoint("gold.x", path, checkpoint(tmp_path, "q1", 1, 1), may_begin_anew=can_refill)
    assert ("medallion rebuild" in str(refused.value)) == can_refill


@pytest.mark.parametrize("case", FINE)
def test_what_belongs_together_goes_on(tmp_path: Path, case: str) -> None:
    commits, state = FINE[case]
    path = table(tmp_path, *commits) if commits else str(tmp_path / "nowhere")
    check_checkpoint(QUERY, path, checkpoint(tmp_path, *state))


@pytest.mark.parametrize("case", AMISS)
def test_what_does_not_is_refused_with_both_places_and_what_to_do(tmp_path: Path, case: str) -> None:
    commits, state = AMISS[case]
    path = table(tmp_path, *commits) if commits else str(tmp_path / "nowhere")
    place = checkpoint(tmp_path, *state)
    with pytest.raises(CheckpointMismatchError) as refused:
        check_checkpoint(QUERY, path, place)
    told = str(refused.value)
    assert told.startswith(f"{QUERY}: ")
    assert path in told or "has planned" in told
    assert place in told
    assert "Restore" in told
    assert case in told or case == "no table"


def test_what_begins_anew_and_has_not_done_so_yet_goes_on(tmp_path: Path) -> None:
    """It was stopped or killed within its first micro-batch, which is the longest."""
    path = table(tmp_path, None, *own(0, 1))
    place = checkpoint(tmp_path, "q2", planned=0)
    check_checkpoint(QUERY, path, place, may_begin_anew=True)
    with pytest.raises(CheckpointMismatchError, match="is that of query q2"):
        check_checkpoint(QUERY, path, place)


@pytest.mark.parametrize(("planned", "words"), [(-1, "has planned none"), (0, "has planned only 0")])
def test_what_may_begin_anew_must_not_number_its_micro_batches_again(
    tmp_path: Path, planned: int, words: str
) -> None:
    """The entries are gone and the query's id is not: its new micro-batch 1 would be left out as written."""
    path = table(tmp_path, None, *own(0, 1))
    with pytest.raises(CheckpointMismatchError, match=f"{words}: an older copy.*medallion recover"):
        check_checkpoint(QUERY, path, checkpoint(tmp_path, "q1", planned), may_begin_anew=True)
    killed = checkpoint(tmp_path / "killed", "q1", planned=1)  # before its first micro-batch was committed
    check_checkpoint(QUERY, path, killed, may_begin_anew=True)


def test_an_idle_table_may_lose_the_commits_that_say_who_wrote_it(tmp_path: Path) -> None:
    """Maintenance goes on, and the log is cleaned behind it."""
    path = table(tmp_path, None, *own(0, 1), None, None)
    for version in range(3):
        (Path(path) / "_delta_log" / f"{version:020}.json").unlink()
    assert last_commit_metadata(path, QUERY) is None
    check_checkpoint(QUERY, path, checkpoint(tmp_path / "kept", "q1", 1, 1))
    with pytest.raises(CheckpointMismatchError, match="so are the commits that say who wrote it"):
        check_checkpoint(QUERY, path, str(tmp_path / "lost"))
    check_checkpoint(QUERY, path, str(tmp_path / "lost"), may_begin_anew=True)


def test_the_newest_own_commit_is_the_one_that_counts(tmp_path: Path) -> None:
    path = table(tmp_path, None, *own(0, 1), None, ("silver.others", "q9", 5))
    assert last_commit_metadata(path, QUERY) == {"query": QUERY, "query_id": "q1", "batch_id": 1}
    assert last_commit_metadata(path, "gold.orders") is None
    assert last_commit_metadata(str(tmp_path / "nowhere"), QUERY) is None


def test_a_side_table_may_be_missing_only_before_the_first_micro_batch_is_done(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    check_side_table("silver.orders__quarantine", nowhere, checkpoint(tmp_path / "new", "q1", 0), QUERY)
    started = checkpoint(tmp_path / "started", "q1", 0, 0)
    check_side_table("silver.orders__quarantine", table(tmp_path, None), started, QUERY)
    with pytest.raises(CheckpointMismatchError, match=r"silver\.orders__quarantine: .*was deleted"):
        check_side_table("silver.orders__quarantine", nowhere, started, QUERY)
