"""Positions and steps of a checkpoint are compared with the table's commits, and repaired by them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.delta.checkpoint import Checkpoint
from common.delta.match.batch_match import BESIDE, SideStep, StepHistory, check_positions, check_steps
from common.delta.match.checkpoint_repair import plan_repair, repair
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError, UsageError

BRONZE, SILVER = "bronze.orders", "silver.orders"
HEAD = '{"batchWatermarkMs":7,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def kafka(*ends: int) -> dict[str, Any]:
    return {"orders": {str(partition): end for partition, end in enumerate(ends)}}


def delta(version: int, index: int = -1) -> dict[str, Any]:
    return {
        "sourceVersion": 1,
        "reservoirId": "t",
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": False,
    }


def commit(query: str, batch: int, position: Any, step: str = "append", **more: Any) -> dict[str, Any]:
    return {
        "query": query,
        "query_id": "q1",
        "batch_id": batch,
        "step": step,
        "positions": [position],
        "counts": {},
        **more,
    }


def write_table(path: Path, commits: Sequence[Mapping[str, Any] | None]) -> str:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for version, metadata in enumerate((None, *commits)):
        info: dict[str, Any] = {"timestamp": 1, "operation": "WRITE"}
        if metadata is not None:
            info["userMetadata"] = json.dumps(metadata)
        (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n", encoding="utf-8")
    return str(path)


def write_checkpoint(path: Path, positions: Mapping[int, Any], committed: int) -> str:
    for folder in ("offsets", "commits"):
        (path / folder).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"q1"}', encoding="utf-8")
    for batch, position in positions.items():
        lines = ("v1", HEAD, json.dumps(position))
        (path / "offsets" / str(batch)).write_text("\n".join(lines), encoding="utf-8")
        if batch <= committed:
            (path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":9}', encoding="utf-8")
    return str(path)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Bronze with three micro-batches of ten offsets in each of two partitions."""
    return write_table(
        tmp_path / "table", [commit(BRONZE, n, kafka(10 * n + 10, 10 * n + 10)) for n in range(3)]
    )


ENDS = {0: kafka(10, 10), 1: kafka(20, 20), 2: kafka(30, 30)}


def test_equal_positions_go_on_and_need_no_repair(tmp_path: Path, table: str) -> None:
    place = write_checkpoint(tmp_path / "c", ENDS, 2)
    check_positions(BRONZE, table, place)
    assert plan_repair(BRONZE, table, place, has_state=False) == []


@pytest.mark.parametrize(
    ("batch", "edited", "words"),
    [
        (2, kafka(30, 50), r"orders/1 ends at offset 50 in the checkpoint, at offset 30 in the table"),
        (2, kafka(10, 30), r"orders/0 ends at offset 10 in the checkpoint, at offset 30 in the table"),
        (1, kafka(21, 20), r"offsets/1 has other positions"),
        (2, {"orders": {"0": 30}}, r"the sources differ"),
    ],
)
def test_an_edited_offset_is_refused_and_repaired(
    tmp_path: Path, table: str, batch: int, edited: Any, words: str
) -> None:
    place = write_checkpoint(tmp_path / "c", {**ENDS, batch: edited}, 2)
    stale = tmp_path / "c" / "offsets" / f".{batch}.crc"
    stale.write_bytes(b"crc")
    with pytest.raises(CheckpointMismatchError, match=words) as refused:
        check_positions(BRONZE, table, place)
    assert "medallion recover bronze.orders" in str(refused.value)
    changes = plan_repair(BRONZE, table, place, has_state=False)
    assert [change.name for change in changes] == [f"offsets/{batch}"]
    kept = repair(place, changes, "now")
    assert kept == f"{place}__before_now"
    assert json.loads((Path(kept) / "offsets" / str(batch)).read_text().splitlines()[2]) == edited
    check_positions(BRONZE, table, place)
    assert not stale.exists()
    lines = (tmp_path / "c" / "offsets" / str(batch)).read_text().splitlines()
    assert lines[:2] == ["v1", HEAD]
    assert json.loads(lines[2]) == ENDS[batch]


@pytest.mark.parametrize("version", [3, 5])
def test_an_edited_table_version_is_refused(tmp_path: Path, version: int) -> None:
    path = write_table(tmp_path / "table", [commit(SILVER, 0, delta(4), "accepted")])
    place = write_checkpoint(tmp_path / "c", {0: delta(version)}, 0)
    text = f"source 0 ends at version {version} in the checkpoint, at version 4 in the table"
    with pytest.raises(CheckpointMismatchError, match=text):
        check_positions(SILVER, path, place)


def test_a_planned_micro_batch_that_goes_back_is_refused(tmp_path: Path, table: str) -> None:
    place = write_checkpoint(tmp_path / "c", {**ENDS, 3: kafka(35, 25)}, 2)
    with pytest.raises(CheckpointMismatchError, match="orders/1 at offset 25, before at offset 30"):
        check_positions(BRONZE, table, place)
    repair(place, plan_repair(BRONZE, table, place, has_state=False), "now")
    check_positions(BRONZE, table, place)
    assert Checkpoint(place).last_planned() == 2


@pytest.mark.parametrize("has_state", [True, False])
def test_a_micro_batch_that_table_and_checkpoint_have_lost_is_run_again(
    tmp_path: Path, table: str, *, has_state: bool
) -> None:
    """Spark would run the newest planned one alone, and leave out the rows of the one before."""
    place = write_checkpoint(tmp_path / "c", {**ENDS, 3: kafka(40, 40), 4: kafka(50, 50)}, 2)
    text = (
        r"has planned micro-batch 4, .* has micro-batch 3: both were lost.* medallion recover bronze.orders"
    )
    with pytest.raises(CheckpointMismatchError, match=text):
        check_positions(BRONZE, table, place)
    repair(place, plan_repair(BRONZE, table, place, has_state=has_state), "now")
    check_positions(BRONZE, table, place)
    assert Checkpoint(place).last_planned() == (3 if has_state else 2)


def test_a_first_micro_batch_that_is_lost_is_not_left_out(tmp_path: Path) -> None:
    empty = write_table(tmp_path / "table", [])
    place = write_checkpoint(tmp_path / "c", {0: kafka(10, 10), 1: kafka(20, 20)}, -1)
    with pytest.raises(CheckpointMismatchError, match=r"has planned micro-batch 1, .* has micro-batch 0"):
        check_positions(BRONZE, empty, place)


def test_a_planned_micro_batch_that_a_side_table_has_is_not_planned_again(tmp_path: Path) -> None:
    """Its rows would be others, and the side table would skip them."""
    path = write_table(tmp_path / "table", [commit("gold.latest", 0, delta(4), "merge")])
    beside = write_table(tmp_path / "beside", [commit("gold.latest", 1, delta(5), "deleted")])
    place = write_checkpoint(tmp_path / "c", {0: delta(4), 1: delta(3)}, 0)
    with pytest.raises(CheckpointMismatchError, match="has rows of micro-batch 1 already"):
        plan_repair("gold.latest", path, place, has_state=True, side_tables={"gold.latest__deleted": beside})
    assert plan_repair("gold.latest", path, place, has_state=True)[0].name == "offsets/1"


@pytest.mark.parametrize("file", ["offsets/2", "commits/2"])
@pytest.mark.parametrize("has_state", [True, False])
def test_an_entry_cut_to_nothing_is_refused_and_repaired(
    tmp_path: Path, table: str, file: str, *, has_state: bool
) -> None:
    place = write_checkpoint(tmp_path / "c", ENDS, 2)
    (tmp_path / "c" / file).write_bytes(b"")
    with pytest.raises(CheckpointMismatchError, match=f"{file} is gone or empty"):
        check_positions(BRONZE, table, place)
    repair(place, plan_repair(BRONZE, table, place, has_state=has_state), "now")
    check_positions(BRONZE, table, place)
    found = Checkpoint(place)
    # A query with state runs the micro-batch again; its tables skip the steps that they have.
    assert found.last_committed() == (1 if has_state and file == "commits/2" else 2)
    entry = found.planned_batch(2)
    assert entry is not None
    assert list(entry.sources) == [ENDS[2]]
    assert entry.partitions == 2
    assert entry.watermark_ms == (9 if file == "offsets/2" else 7)


def test_bronze_gets_a_whole_checkpoint_back(tmp_path: Path, table: str) -> None:
    """Its table names the query and how far it has read; it has no state."""
    place = str(tmp_path / "gone")
    with pytest.raises(CheckpointMismatchError, match="state"):
        plan_repair(BRONZE, table, place, has_state=True)
    changes = plan_repair(BRONZE, table, place, has_state=False)
    assert repair(place, changes, "now") is None
    check_positions(BRONZE, table, place)
    found = Checkpoint(place)
    assert (found.query_id(), found.batches(), found.last_committed()) == ("q1", (1, 2), 2)
    assert plan_repair(BRONZE, table, place, has_state=False) == []


def test_bronze_goes_back_to_its_table(tmp_path: Path, table: str) -> None:
    """The table lacks the checkpoint's newest micro-batch: its records are read again."""
    ahead = write_checkpoint(tmp_path / "ahead", {**ENDS, 3: kafka(40, 40)}, 3)
    names = [change.name for change in plan_repair(BRONZE, table, ahead, has_state=False)]
    assert names == ["offsets/3", "commits/3"]
    repair(ahead, plan_repair(BRONZE, table, ahead, has_state=False), "now")
    check_positions(BRONZE, table, ahead)
    assert Checkpoint(ahead).last_planned() == Checkpoint(ahead).last_committed() == 2
    assert plan_repair(BRONZE, table, ahead, has_state=False) == []


def test_a_query_without_state_runs_its_newest_micro_batch_again(tmp_path: Path, table: str) -> None:
    """Its side table may lack that micro-batch; the steps that are written are skipped."""
    place = str(tmp_path / "gone")
    side = {"side": str(tmp_path / "side")}
    repair(place, plan_repair(BRONZE, table, place, has_state=False, side_tables=side), "now")
    assert (Checkpoint(place).last_planned(), Checkpoint(place).last_committed()) == (2, 1)
    assert plan_repair(BRONZE, table, place, has_state=False, side_tables=side) == []


def test_what_positions_do_not_bring_together_is_refused(tmp_path: Path, table: str) -> None:
    ahead = write_checkpoint(tmp_path / "ahead", {**ENDS, 3: kafka(40, 40)}, 3)
    with pytest.raises(CheckpointMismatchError, match="an older copy of the table"):
        plan_repair(BRONZE, table, ahead, has_state=True)
    foreign = write_checkpoint(tmp_path / "foreign", ENDS, 2)
    (tmp_path / "foreign" / "metadata").write_text('{"id":"q2"}', encoding="utf-8")
    with pytest.raises(CheckpointMismatchError, match="is that of query q2"):
        plan_repair(BRONZE, table, foreign, has_state=False)
    with pytest.raises(UsageError, match="nothing to go by"):
        plan_repair(BRONZE, str(tmp_path / "nowhere"), foreign, has_state=False)


def test_commits_without_positions_are_not_compared(tmp_path: Path) -> None:
    bare = {"query": BRONZE, "query_id": "q1", "batch_id": 0}
    path = write_table(tmp_path / "table", [bare])
    check_positions(BRONZE, path, write_checkpoint(tmp_path / "c", {0: kafka(5)}, 0))


def sides(folder: Path) -> list[SideStep]:
    return [
        SideStep("late", SILVER, str(folder / "table"), ("merged",)),
        SideStep("late", f"{SILVER}__late", str(folder / "late"), ("late",)),
        SideStep("quarantine", f"{SILVER}__quarantine", str(folder / "aside"), ("quarantined",)),
    ]


def shop(
    folder: Path, *, merged: bool = True, late: int = 3, aside: int = 1, beside: bool = True
) -> list[SideStep]:
    """Silver with six micro-batches: quarantine has rows of 0 and 1, late of 0 and 3, merged in 3."""
    written: list[Mapping[str, Any]] = []
    history = StepHistory(str(folder / "nothing"), {})
    for n in range(6):
        counts = {"late": int(n in {0, 3}), "merged": int(n == 3), "quarantined": int(n < 2)}
        batch = MicroBatch("shop", SILVER, "q1", n, (delta(n),))
        steps = {"late": counts["late"] > 0, "quarantine": counts["quarantined"] > 0}
        facts = history.with_steps(batch, steps).facts if beside else {}
        written.append(commit(SILVER, n, delta(n), "accepted", **{**facts, "counts": counts}))
        if n == 3 and merged:
            written.append(commit(SILVER, n, delta(n), "late", counts=counts))
    write_table(folder / "table", written)
    write_table(folder / "late", [commit(SILVER, n, delta(n), "late") for n in (0, 3) if n <= late])
    write_table(folder / "aside", [commit(SILVER, n, delta(n), "quarantine") for n in (0, 1) if n <= aside])
    return sides(folder)


def check_shop(folder: Path, steps: Sequence[SideStep], committed: int = 5) -> None:
    place = write_checkpoint(folder / "c", {n: delta(n) for n in range(6)}, committed)
    check_steps(SILVER, str(folder / "table"), place, steps)


@pytest.mark.parametrize("beside", [True, False])
def test_tables_with_every_step_go_on(tmp_path: Path, *, beside: bool) -> None:
    check_shop(tmp_path, shop(tmp_path, beside=beside))


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize(
    ("older", "words"),
    [
        ({"merged": False}, r"silver\.orders: .* committed micro-batch 3, but .* lacks the step 'late'"),
        ({"late": 0}, r"silver\.orders__late: micro-batch 3 .* ends with micro-batch 0"),
        ({"aside": 0}, r"silver\.orders__quarantine: micro-batch 1 .* ends with micro-batch 0"),
        ({"aside": -1}, r"silver\.orders__quarantine: micro-batch 1 .* has no micro-batch"),
    ],
)
def test_an_older_copy_of_any_table_is_refused(
    tmp_path: Path, older: dict[str, Any], words: str, *, beside: bool
) -> None:
    steps = shop(tmp_path, **older, beside=beside)
    with pytest.raises(CheckpointMismatchError, match=words) as refused:
        check_shop(tmp_path, steps)
    assert "Restore the table's newest copy" in str(refused.value)


@pytest.mark.parametrize("beside", [True, False])
def test_the_newest_committed_micro_batch_counts(tmp_path: Path, *, beside: bool) -> None:
    """A side table that lacks the very last micro-batch of the checkpoint is refused too."""
    steps = shop(tmp_path, late=0, beside=beside)
    with pytest.raises(CheckpointMismatchError, match=r"silver\.orders__late: micro-batch 3"):
        check_shop(tmp_path, steps, committed=3)


def test_steps_of_a_micro_batch_that_comes_again_may_lack(tmp_path: Path) -> None:
    """A kill between two of its writes; the replay writes what lacks."""
    check_shop(tmp_path, shop(tmp_path, merged=False, late=0), committed=2)


def test_a_step_that_was_written_long_ago_is_named_by_the_newest_commit(tmp_path: Path) -> None:
    """Only the newest commits are read."""
    written = [commit(SILVER, n, delta(n), "accepted", **{BESIDE: {"quarantine": 5}}) for n in range(100)]
    write_table(tmp_path / "table", written)
    write_table(tmp_path / "late", [])
    write_table(tmp_path / "aside", [commit(SILVER, 4, delta(4), "quarantine")])
    place = write_checkpoint(tmp_path / "c", {n: delta(n) for n in range(90, 100)}, 99)
    with pytest.raises(CheckpointMismatchError, match=r"micro-batch 5 of silver\.orders has written rows"):
        check_steps(SILVER, str(tmp_path / "table"), place, sides(tmp_path))


def test_the_history_of_steps_goes_on_over_a_restart(tmp_path: Path) -> None:
    path = write_table(
        tmp_path / "table",
        [commit(SILVER, 6, delta(6), "accepted", **{BESIDE: {"late": 2, "quarantine": 6}})],
    )
    batch = MicroBatch("shop", SILVER, "q1", 7, (delta(7),), facts={"more": 1})
    history = StepHistory(path, {})
    assert history.with_steps(batch, {"late": True}).facts == {
        "more": 1,
        BESIDE: {"late": 7, "quarantine": 6},
    }
    other = MicroBatch("shop", SILVER, "q2", 7, (delta(7),))
    assert StepHistory(path, {}).with_steps(other, {"late": False}).facts == {BESIDE: {}}


def test_after_tables_of_earlier_versions_the_side_tables_say_what_was_written(tmp_path: Path) -> None:
    path = write_table(tmp_path / "table", [commit(SILVER, 6, delta(6), "accepted")])
    aside = write_table(tmp_path / "aside", [commit(SILVER, 4, delta(4), "quarantine")])
    late = write_table(tmp_path / "late", [])
    batch = MicroBatch("shop", SILVER, "q1", 7, (delta(7),))
    history = StepHistory(path, {"late": late, "quarantine": aside})
    assert history.with_steps(batch, {"late": False}).facts == {BESIDE: {"quarantine": 4}}


@pytest.mark.long
def test_ten_thousand_commits_cost_no_more_than_a_few(tmp_path: Path) -> None:
    """Only the newest commits are opened: a look at all of them would take seconds."""
    write_table(
        tmp_path / "table", [commit(SILVER, n, delta(n), "accepted", **{BESIDE: {}}) for n in range(10_000)]
    )
    write_table(tmp_path / "late", [])
    write_table(tmp_path / "aside", [])
    place = write_checkpoint(tmp_path / "c", {n: delta(n) for n in range(9_900, 10_000)}, 9_999)
    spent = []
    for _ in range(5):
        began = time.process_time()
        check_positions(SILVER, str(tmp_path / "table"), place)
        check_steps(SILVER, str(tmp_path / "table"), place, sides(tmp_path))
        spent.append(time.process_time() - began)
    assert min(spent) < 0.5


def clean_log(path: str) -> None:
    """Delete the oldest commit, as the log's cleanup does."""
    Path(path, "_delta_log", f"{0:020}.json").unlink()


@pytest.mark.parametrize(
    ("there", "lost"), [((0, 1, 4), "micro-batches 2 to 3"), ((2, 3, 4), "micro-batches 0 to 1")]
)
def test_a_micro_batch_that_the_table_lacks_before_others_is_refused(
    tmp_path: Path, there: Sequence[int], lost: str
) -> None:
    """An older copy was put back, and the query wrote on: its newest commit fits the checkpoint."""
    table = write_table(tmp_path / "t", [commit(SILVER, n, delta(n + 1)) for n in there])
    place = write_checkpoint(tmp_path / "c", {n: delta(n + 1) for n in range(5)}, 4)
    with pytest.raises(CheckpointMismatchError, match=f"no commit of {lost}, and has one of "):
        check_positions(SILVER, table, place)
    if there[0]:
        clean_log(table)
        check_positions(SILVER, table, place)


def test_the_first_micro_batch_of_a_rebuilt_table_is_the_last_of_its_shadow(tmp_path: Path) -> None:
    """The shadow wrote those before it, and one commit put their rows into the table."""
    rebuilt = commit(SILVER, 3, delta(4), rebuilt={"counted": True})
    table = write_table(tmp_path / "t", [rebuilt, commit(SILVER, 4, delta(5))])
    check_positions(SILVER, table, write_checkpoint(tmp_path / "c", {n: delta(n + 1) for n in range(5)}, 4))


@pytest.mark.parametrize(
    ("there", "is_cleaned", "lost"),
    [((0, 1, 2), False, None), ((1, 2), True, None), ((1, 2), False, 0), ((0, 2), True, 1)],
)
def test_a_step_that_a_side_table_lacks_before_others_is_refused(
    tmp_path: Path, there: Sequence[int], lost: int | None, *, is_cleaned: bool
) -> None:
    """The oldest commits of a log are cleaned up; those between others are not."""
    rows = {"quarantined": 1}
    own = [commit(SILVER, n, delta(n + 1), counts=rows, **{BESIDE: {"quarantine": n}}) for n in range(3)]
    aside = [commit(SILVER, n, delta(n + 1), step="quarantine") for n in there]
    table = write_table(tmp_path / "t", own)
    place = write_checkpoint(tmp_path / "c", {n: delta(n + 1) for n in range(3)}, 2)
    path = write_table(tmp_path / "q", aside)
    if is_cleaned:
        clean_log(path)
    side = SideStep("quarantine", "silver.orders__quarantine", path, ("quarantined",))
    if lost is None:
        check_steps(SILVER, table, place, (side,))
        return
    told = f"micro-batch {lost} of silver.orders has written rows"
    with pytest.raises(CheckpointMismatchError, match=told):
        check_steps(SILVER, table, place, (side,))
