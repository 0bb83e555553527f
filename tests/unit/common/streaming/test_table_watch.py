"""A table that changes under a running query is noticed before the next micro-batch is written."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.delta.match.source_match import Source
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError
from common.streaming.table_watch import Beginning, PlaceWatch, ReadUpTo, SourceWatch, TableWatch

BATCH = MicroBatch("shop", "silver.orders", "q", 7, ())


def commit(
    table: Path,
    number: int,
    operation: str = "WRITE",
    parameters: dict[str, str] | None = None,
    *,
    batch: MicroBatch = BATCH,
) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info: dict[str, Any] = {"timestamp": 1, "operation": operation, "operationParameters": parameters or {}}
    if operation == "WRITE":
        info["userMetadata"] = batch.metadata("accepted", {})
    (log / f"{number:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n", encoding="utf-8")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with five versions."""
    for version in range(5):
        commit(tmp_path / "table", version)
    return tmp_path / "table"


@pytest.fixture
def watch(table: Path) -> TableWatch:
    """A watch that has seen the table after a micro-batch."""
    made = TableWatch("silver.orders", [str(table), "s3://bucket/elsewhere"])
    made.check(BATCH)
    return made


def refuse(watch: TableWatch, words: str) -> None:
    with pytest.raises(CheckpointMismatchError, match=words) as refused:
        watch.check()
    assert str(refused.value).startswith("silver.orders: the table at ")
    assert "start the job again" in str(refused.value)


def test_commits_of_this_query_and_of_maintenance_go_on(table: Path, watch: TableWatch) -> None:
    commit(table, 5, "OPTIMIZE")
    commit(table, 6, "RESTORE", {"version": "5"})
    watch.check(BATCH)
    commit(table, 7)
    watch.check()


def test_a_deleted_table_is_refused(table: Path, watch: TableWatch) -> None:
    shutil.rmtree(table)
    refuse(watch, "was deleted")


def test_an_older_copy_is_refused(table: Path, watch: TableWatch) -> None:
    (table / "_delta_log" / f"{4:020}.json").unlink()
    refuse(watch, "ends with version 3, and ended with version 4")


def test_an_older_copy_behind_the_look_after_a_micro_batch_is_refused(
    table: Path, watch: TableWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look has passed; what is there afterwards is no beginning."""
    commit(table, 5)
    compare = watch._refuse_restore

    def put_back(*looked: Any, **more: Any) -> None:
        compare(*looked, **more)
        (table / "_delta_log" / f"{5:020}.json").unlink()

    with monkeypatch.context() as patch:
        patch.setattr(watch, "_refuse_restore", put_back)
        watch.check(BATCH)
    refuse(watch, "ends with version 4, and ended with version 5")


def test_an_older_copy_between_the_commit_and_the_look_after_it_is_refused(
    table: Path, watch: TableWatch
) -> None:
    """It is what the table was before the micro-batch."""
    commit(table, 5, batch=replace(BATCH, batch_id=8))
    watch.check(replace(BATCH, batch_id=8))
    with pytest.raises(CheckpointMismatchError, match="has no commit of micro-batch 9, which was written"):
        watch.check(replace(BATCH, batch_id=9))


def test_another_table_in_its_place_is_refused(table: Path, watch: TableWatch) -> None:
    commit(table, 4, "MERGE")
    commit(table, 5)
    refuse(watch, "was replaced by another one")


def test_a_watch_begins_with_what_the_start_has_judged(table: Path) -> None:
    beginning = Beginning.of([str(table), str(table.parent / "created_later")], str(table.parent / "c"))
    (table / "_delta_log" / f"{4:020}.json").unlink()
    refuse(
        TableWatch("silver.orders", [str(table)], beginning), "ends with version 3, and ended with version 4"
    )
    commit(table, 4)
    commit(table.parent / "created_later", 0)
    TableWatch("silver.orders", [str(table), str(table.parent / "created_later")], beginning).check()


@pytest.mark.parametrize("back", [{"version": "3"}, {"timestamp": "2026-01-01 00:00:00"}])
def test_a_restore_is_refused(table: Path, watch: TableWatch, back: dict[str, str]) -> None:
    commit(table, 5, "OPTIMIZE")
    commit(table, 6, "RESTORE", back)
    refuse(watch, "restored to an older version by version 6")


def test_a_restore_between_the_look_and_the_commit_is_found_after_it(table: Path, watch: TableWatch) -> None:
    """The micro-batch does not count as done; to put the table back would take its rows away."""
    watch.check()
    commit(table, 5, "RESTORE", {"version": "3"})
    commit(table, 6)
    with pytest.raises(CheckpointMismatchError, match=r"by version 5, .* medallion recover silver\.orders"):
        watch.check(BATCH)


def test_a_source_that_loses_what_was_read_is_refused_between_two_micro_batches(table: Path) -> None:
    sources = SourceWatch("gold.latest", [Source("silver.orders", str(table))], None)

    def batch(number: int, version: int) -> MicroBatch:
        ends = {"reservoirVersion": version, "index": -1}
        return MicroBatch("shop", "gold.latest", "q", number, (ends,))

    sources.end(sources.begin(batch(0, 4)))
    commit(table, 5)
    first = sources.begin(batch(1, 5))
    assert [one["version"] for one in first.source_commits] == [4]
    sources.end(first)
    commit(table, 4, "another")
    with pytest.raises(CheckpointMismatchError, match=r"another version 4 of silver\.orders"):
        sources.begin(batch(2, 6))
    beginning = Beginning(read=ReadUpTo(first.positions, first.source_commits))
    started = SourceWatch("gold.latest", [Source("silver.orders", str(table))], None, beginning)
    with pytest.raises(CheckpointMismatchError, match=r"another version 4 of silver\.orders"):
        started.begin(batch(2, 6))


def test_a_log_whose_first_commits_were_cleaned_up_goes_on(table: Path, watch: TableWatch) -> None:
    (table / "_delta_log" / f"{0:020}.json").unlink()
    commit(table, 5)
    watch.check()


def test_a_look_costs_less_than_a_millisecond(table: Path) -> None:
    """Of a table with many versions, too: only the newest are looked for."""
    for version in range(5, 2_000):
        commit(table, version)
    watch = TableWatch("silver.orders", [str(table)])
    began = time.process_time()
    for _ in range(100):
        watch.check()
        watch.check(BATCH)
    assert (time.process_time() - began) / 100 < 0.001


def _batch(number: int, before: tuple[int, ...], positions: tuple[int, ...]) -> MicroBatch:
    return MicroBatch("shop", "silver.orders", "id", number, positions, before=before)


def test_a_micro_batch_follows_the_one_before_or_what_the_start_has_judged(tmp_path: Path) -> None:
    entries = tmp_path / "offsets"
    entries.mkdir()
    (tmp_path / "commits").mkdir()
    first = Beginning.of([], str(tmp_path))
    for number in range(2):
        (entries / str(number)).write_text(f"v1\n{{}}\n{number + 1}0")
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    replayed = Beginning.of([], str(tmp_path))
    (tmp_path / "commits" / "1").write_text("v1\n{}")
    after = Beginning.of([], str(tmp_path))

    def takes(beginning: Beginning, *batches: MicroBatch) -> bool:
        watch = PlaceWatch("silver.orders", "c", beginning)
        try:
            for one in batches:
                watch.check(one)
                watch.end(one)
        except CheckpointMismatchError:
            return False
        return True

    assert takes(first, _batch(0, (), (10,)), _batch(1, (10,), (20,)))
    assert not takes(first, _batch(0, (), (10,)), _batch(1, (7,), (20,)))
    assert takes(replayed, _batch(1, (10,), (20,)), _batch(2, (20,), (30,)))
    assert not takes(replayed, _batch(1, (10,), (25,)))
    assert takes(after, _batch(2, (20,), (30,)))
    assert not takes(after, _batch(1, (10,), (20,)))
    assert takes(Beginning(), _batch(7, (1,), (2,)))
