"""What maintenance does and when, on tables of delta-rs; without Spark, which it needs to delete files."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.driver_limits import DriverLimits
from common.config.paths import Layout
from common.config.settings import MaintenanceSettings
from common.declare import Pipeline, Topic
from common.delta.log import LogReader
from common.delta.maintenance import compaction
from common.delta.maintenance.compaction import TIERS, due_tier
from common.streaming.turns import Turns
from orchestration.run import background_maintenance
from orchestration.run.background_maintenance import BackgroundMaintenance, Budget

MIB = 2**20
NO_SPARK: Any = None
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")])


class Clock:
    """The time of a test."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("sizes", "tier"),
    [
        ([], None),
        ([100] * 19, None),
        ([100] * 20, MIB),
        ([100] * 19 + [2 * MIB] * 20, 8 * MIB),
        ([100] * 20 + [2 * MIB] * 20, MIB),
        ([9 * MIB] * 20, 64 * MIB),
        ([40 * MIB] * 20, None),
        ([64 * MIB] * 1000, None),
    ],
    ids=lambda part: str(part)[:30],
)
def test_the_smallest_tier_with_many_files_is_due(sizes: list[int], tier: int | None) -> None:
    assert due_tier(sizes, 20) == tier


def test_a_row_is_written_a_few_times_per_tier_whatever_comes() -> None:
    """Files of 50 KB each: they stay few, and a byte is written a bounded number of times."""
    sizes: list[int] = []
    written, most = 0, 0
    for _ in range(20_000):
        sizes.append(50_000)
        most = max(most, len([size for size in sizes if 2 * size < TIERS[-1]]))
        while (tier := due_tier(sizes, 20)) is not None:
            # As delta-rs does it: files below the tier, packed in order into files of at most that size.
            packed: list[list[int]] = [[]]
            for size in (size for size in sizes if size < tier):
                if sum(packed[-1]) + size > tier:
                    packed.append([])
                packed[-1].append(size)
            written += sum(sum(files) for files in packed if len(files) > 1)
            rest = [size for size in sizes if size >= tier]
            assert len(packed) + len(rest) < len(sizes)
            sizes = [*rest, *map(sum, packed)]
    assert most <= 60
    assert written / (20_000 * 50_000) < 12


def test_work_takes_no_more_than_its_share_of_the_time() -> None:
    clock = Clock()
    budget = Budget(0.1, clock)
    worked = 0.0
    while clock.now < 1_000:
        if budget.has_room():
            with budget.work():
                clock.now += 2
            worked += 2
        clock.now += 0.5
    assert budget.spent == worked
    assert 0.08 <= worked / clock.now <= 0.101


@pytest.fixture(name="layout")
def _layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)


def maintenance(
    layout: Layout, clock: Clock, turns: Turns | None = None, **settings: Any
) -> BackgroundMaintenance:
    return BackgroundMaintenance(
        PIPELINE,
        layout,
        PIPELINE.bronze,
        turns=turns or Turns(),
        settings=MaintenanceSettings(**settings),
        limits=DriverLimits(1_000, 10_000, fsync=False),
        clock=clock,
    )


def append(layout: Layout, first: int, commits: int) -> None:
    for n in range(first, first + commits):
        write_deltalake(layout.table_path("bronze.orders"), pa.table({"n": [n]}), mode="append")


def rows(layout: Layout) -> Counter[int]:
    table = DeltaTable(layout.table_path("bronze.orders")).to_pyarrow_table()
    return Counter(table["n"].to_pylist())


def test_the_table_with_the_most_files_comes_first(layout: Layout) -> None:
    """Where there is little room, a table that is declared early does not take all of it."""
    clock = Clock()
    pipeline = Pipeline(name="shop", bronze=[Topic("orders"), Topic("others")])
    keeping = BackgroundMaintenance(
        pipeline,
        layout,
        pipeline.bronze,
        turns=Turns(),
        settings=MaintenanceSettings(cpu_share=0.1, small_files=4),
        limits=DriverLimits(1_000, 10_000, fsync=False),
        clock=clock,
    )
    keeping.budget.has_room = lambda: keeping.compactions == 0  # type: ignore[method-assign]
    for table, commits in (("bronze.orders", 5), ("bronze.others", 9)):
        for n in range(commits):
            write_deltalake(layout.table_path(table), pa.table({"n": [n]}), mode="append")
    keeping.look(NO_SPARK)
    files = {
        table: len(LogReader(layout.table_path(table)).file_sizes())
        for table in ("bronze.orders", "bronze.others")
    }
    assert files == {"bronze.orders": 5, "bronze.others": 1}
    keeping.budget.has_room = lambda: True  # type: ignore[method-assign]
    keeping.look(NO_SPARK)
    assert len(LogReader(layout.table_path("bronze.orders")).file_sizes()) == 1


def test_many_small_files_become_one_and_no_stream_sees_a_change(layout: Layout) -> None:
    clock = Clock()
    keeping = maintenance(layout, clock)
    keeping.look(NO_SPARK)  # there is no table yet
    append(layout, 0, 19)
    keeping.look(NO_SPARK)
    log = LogReader(layout.table_path("bronze.orders"))
    assert len(log.file_sizes()) == 19
    append(layout, 19, 11)
    keeping.look(NO_SPARK)
    assert len(log.file_sizes()) == 1
    assert rows(layout) == Counter(range(30))
    commit = log.commit(log.latest_version() or 0)
    assert commit is not None
    assert (commit.operation, commit.metadata["by"], commit.is_change) == ("OPTIMIZE", "compaction", False)
    assert commit.added == ()  # nothing that a stream reads
    before = log.latest_version()
    keeping.look(NO_SPARK)
    assert log.latest_version() == before


def test_a_compaction_waits_for_the_turn_of_the_query(layout: Layout) -> None:
    turns, clock = Turns(), Clock()
    keeping = maintenance(layout, clock, turns)
    append(layout, 0, 25)
    thread = threading.Thread(target=keeping.look, args=(NO_SPARK,))
    with turns.take("bronze.orders"):
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        append(layout, 25, 1)  # the micro-batch that has the turn
    thread.join(30)
    assert len(LogReader(layout.table_path("bronze.orders")).file_sizes()) == 1
    assert rows(layout) == Counter(range(26))


def test_background_maintenance_that_fails_is_tried_again_and_ends_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tries = Clock(), list[int]()

    def failing(*_: object) -> None:
        tries.append(1)
        raise OSError("the disk is slow")

    keeping = maintenance(layout, clock)
    append(layout, 0, 20)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "compact_tier", failing)
        keeping.look(NO_SPARK)
    assert tries == [1]
    append(layout, 20, 10)
    clock.now += 60
    keeping.look(NO_SPARK)
    assert len(LogReader(layout.table_path("bronze.orders")).file_sizes()) == 1


def test_old_files_are_deleted_once_in_a_while(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, swept = Clock(), list[str]()
    monkeypatch.setattr(compaction, "delete_old_files", lambda _, path: swept.append(path))
    keeping = maintenance(layout, clock, delete_every="1 hour")
    append(layout, 0, 1)
    for _ in range(3 * 3600):
        clock.now += 1
        keeping.look(NO_SPARK)
    assert swept == [layout.table_path("bronze.orders")] * 3


def test_old_files_that_somebody_needs_stay(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, swept, asked = Clock(), list[str](), list[str]()

    def reason(_: object, __: object, table: str) -> str:
        asked.append(table)
        return "silver.orders has yet to read it" if len(asked) == 1 else ""

    monkeypatch.setattr(background_maintenance, "reason_to_keep_files", reason)
    monkeypatch.setattr(compaction, "delete_old_files", lambda _, path: swept.append(path))
    keeping = maintenance(layout, clock, delete_every="1 hour")
    append(layout, 0, 1)
    for hours in (1, 2):
        clock.now = hours * 3600
        keeping.look(NO_SPARK)
        assert len(swept) == hours - 1


def test_a_job_that_is_restarted_every_day_deletes_old_files_too(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour after its start, then every ``maintenance.delete_every``."""
    clock, swept = Clock(), list[float]()
    monkeypatch.setattr(compaction, "delete_old_files", lambda *_: swept.append(clock.now / 3600))
    append(layout, 0, 1)
    keeping = maintenance(layout, clock)
    for _ in range(48 * 60):
        clock.now += 60
        keeping.look(NO_SPARK)
    assert swept == [1, 25]


def test_small_files_of_many_partitions_are_not_tried_again_and_again(layout: Layout) -> None:
    def partitions(first: int, number: int) -> None:
        for n in range(first, first + number):
            rows_ = pa.table({"n": [n], "part": [str(n)]})
            path = layout.table_path("bronze.orders")
            write_deltalake(path, rows_, mode="append", partition_by=["part"])

    clock = Clock()
    keeping = maintenance(layout, clock)
    partitions(0, 25)
    keeping.look(NO_SPARK)
    partitions(25, 15)
    clock.now += 60
    keeping.look(NO_SPARK)
    assert keeping.compactions == 1
    partitions(40, 10)
    clock.now += 60
    keeping.look(NO_SPARK)
    assert keeping.compactions == 2
    assert rows(layout) == Counter(range(50))
