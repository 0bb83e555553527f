"""W3 to W8: figures made of what was measured, goals, and what makes them void."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import View
from common.spark import session_conf
from orchestration.access.declaration.load_file import load_pipeline
from tests.bench.__main__ import WORKLOADS
from tests.bench.contenders.ours import WIDE as WIDE_PIPELINE
from tests.bench.contenders.started_process import ContenderError, Started
from tests.bench.data.events import WATERMARK_SECONDS
from tests.bench.measure import footprint, per_batch
from tests.bench.measure.fresh_reader import TABLES, Ages
from tests.bench.measure.machine import Usage
from tests.bench.measure.oracle import SILVER, WIDE, Tables
from tests.bench.measure.settling import all_paths
from tests.bench.measure.stats import Quantile
from tests.bench.workloads import (
    elements,
    endurance,
    files,
    flat,
    freshness,
    heap,
    idle,
    maintenance,
    restart,
    standby,
    state,
)
from tests.bench.workloads.files import Count, Files, Part
from tests.bench.workloads.flat import Flat
from tests.bench.workloads.freshness import Fresh, Minute
from tests.bench.workloads.gold import gold_tables, processors, views
from tests.bench.workloads.gold.gold_tables import Cost
from tests.bench.workloads.idle import Idle
from tests.bench.workloads.restart import Gold, Kill, Restart
from tests.bench.workloads.shop import HOPS, Measured, Size, Spent
from tests.bench.workloads.state import Feed, Held

GIB = 2**30


def usage(seconds: float, cpu: float, foreign: float = 0.0) -> Usage:
    return Usage(seconds, cpu, GIB, {"broker": 1.0}, foreign, 0.0)


def tables(folder: Path) -> Tables:
    names = ("bronze", "silver", "quarantine", "groups", "latest")
    return Tables(**{name: folder / name for name in names})


class Running:
    """Stands for a process that neither ends nor says anything."""

    def check(self) -> None:
        """It runs."""

    def said(self) -> str:
        """Nothing."""
        return ""


RUNNING = cast("Started", Running())


def test_every_workload_can_be_asked_for() -> None:
    assert {"restart", "files", "idle", "flat", "state", "heap", "views"} <= set(WORKLOADS)


# W11


def lives(*mib: int) -> tuple[heap.Live, ...]:
    return tuple(heap.Live(one * 2**20, 23, 1_000, 2**30) for one in mib)


def test_a_class_histogram_is_counted_by_the_whole_name_of_a_class() -> None:
    histogram = """ num     #instances         #bytes  class name (module)
   1:        280230       92359432  [B (java.base@17.0.15)
 248:          1000          24000  a.ByteCodeStats
 249:             7            168  a.ByteCodeStats$
Total       3008000      240000000
"""
    assert heap.counted(histogram, ["a.ByteCodeStats", "[B", "a.Gone"]) == (
        240_000_000,
        {"a.ByteCodeStats": 1_000, "[B": 280_230, "a.Gone": 0},
    )


def test_heap_at_rest_that_grows_from_round_to_round_is_missed() -> None:
    native = {"Java Heap": 600 * 2**20, "Code": 90 * 2**20, "Metaspace": 90 * 2**20, "GC": 10 * 2**20}
    steady = heap.Heap(2**31, lives(*[900] * 9), lives(80, 90, 100, 160, 170, 160, 165, 170, 160), native)
    assert [goal.is_met for goal in heap.goals(steady)] == [True, True, True]
    growing = heap.Heap(2**31, lives(*[1_600] * 9), lives(*range(100, 1_000, 100)), native)
    assert [goal.is_met for goal in heap.goals(growing)] == [False, False, False]
    text = "\n".join(heap.lines(steady))
    assert "| 9 | 900 | 160 | 23 | 1,000 | 1,024 |" in text
    assert "1,024 MiB, is the heap as far as it has grown (600 MiB;" in text
    assert "and 234 of native libraries" in text


# W6


def change(how: str, gap: float, cores: float) -> standby.Change:
    return standby.Change(how, gap, 80.0, usage(60.0, 60.0 * cores), GIB, 10.0)


def test_a_standby_is_judged_by_its_gaps_and_by_what_it_uses_while_it_waits() -> None:
    found = [change("kill", 2.0, 0.04), change("hand-over", 3.0, 0.06), change("kill", 2.5, 0.08)]
    told = {goal.what.removeprefix("W6 standby, "): goal for goal in standby.goals(found, [])}
    assert {what: (goal.measured, goal.is_met) for what, goal in told.items()} == {
        "kill, median of 2, s": (2.25, True),
        "hand-over, median of 1, s": (3.0, False),
        "cores while it waits": (pytest.approx(0.06), False),
    }
    void = [goal.measured for goal in standby.goals(found, ["silver lacks a row"])]
    assert void == [None, None, pytest.approx(0.06)]


# W3


def flatly(**cpu: tuple[float, float]) -> Flat:
    hops = dict(zip(("bronze", "silver", "gold"), HOPS, strict=True))
    batches = [
        Measured(hops[layer], times, Spent(1.0, spent * share), Spent(2.0, spent * share * 2))
        for layer, pair in cpu.items()
        for times, spent in zip((1, 100), pair, strict=True)
        for share in (0.5, 1.0, 9.0)
    ]
    sizes = [
        Size(hop, times, 20_000 * times, 10 * times, 100 * times, 0.01) for hop in HOPS for times in (1, 100)
    ]
    return Flat(1, tuple(batches), tuple(sizes))


def test_a_median_of_micro_batches_is_compared_with_the_smallest_table() -> None:
    found = flatly(bronze=(0.2, 0.22), silver=(0.3, 0.45), gold=(1.0, 1.4))
    assert found.cpu("commit to bronze", 100) == 0.22
    assert found.whole_cpu("commit to bronze", 100) == 0.44
    verdicts = {
        goal.what.removesuffix(" at 100 times the table / at 1"): goal.verdict
        for goal in flat.goals(found, 100)
    }
    assert verdicts == {
        "W3 commit to bronze, CPU": "met",
        "W3 commit to bronze, CPU of the whole micro-batch": "met",
        "W3 commit to silver, CPU": "missed by 30 %",
        "W3 commit to silver, CPU of the whole micro-batch": "met",
        "W3 MERGE into gold, CPU": "met",
        "W3 MERGE into gold, CPU of the whole micro-batch": "met",
    }


def test_a_table_that_is_not_a_hundred_times_as_large_is_told_so() -> None:
    goal = flat.goals(flatly(bronze=(1, 1), silver=(1, 1), gold=(1, 1)), 10)[0]
    assert "10 times the table, not" in goal.note
    assert goal.measured is None or math.isnan(goal.measured)


def test_each_table_has_its_row() -> None:
    text = flat.lines(flatly(bronze=(0.2, 0.22), silver=(0.3, 0.45), gold=(1.0, 1.4)), (1, 100))
    row = next(line for line in text if line.startswith("| commit to silver | 2,000,000"))
    assert row.split(" | ")[2:9] == ["1,000", "10,000", "1,000", "450", "1.5", "900", "1.5"]


# W4


def remembered(ids: int, cpu: float, peak: float, *failures: str) -> Held:
    return Held(ids, 1.0, 2.0, int(peak * GIB), GIB, (cpu / 2, cpu * 1.5), (1.0, 2.0), 1_000, failures)


@pytest.mark.parametrize("ids", [60_000, 1_000_000, 10_000_000])
def test_the_watermark_covers_the_ids_that_were_asked_for(ids: int) -> None:
    stream = state.stream_of(ids)
    covered = WATERMARK_SECONDS * 1_000_000 / stream.step
    assert covered == pytest.approx(ids, rel=0.02)
    batch = stream.batch(0, 5_000)
    assert batch.is_valid.all()
    assert len(set(batch.event_ids().tolist())) == 5_000
    assert not batch.late.any()


def test_micro_batches_are_told_by_their_mean() -> None:
    found = [remembered(1_000_000, 2.0, 1.5), remembered(10_000_000, 5.0, 2.5)]
    assert found[0].batch_cpu == 2.0
    assert [goal.verdict for goal in state.goals(found, 10_000_000)] == ["met", "missed by 25 %"]


def test_ids_that_were_lost_void_the_goals() -> None:
    found = [remembered(1_000_000, 2.0, 1.5), remembered(10_000_000, 3.0, 2.5, "lost")]
    assert [goal.is_met for goal in state.goals(found, 10_000_000)] == [None, None]
    assert [goal.is_met for goal in state.goals(found[:1], 10_000_000)] == [None, None]
    assert state.lines([])


def test_a_feed_waits_until_silver_has_its_rows(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "bronze", tmp_path / "silver", state.stream_of(60_000))
    rows = feed.next(100, 2)
    ids = feed._stream.batch(0, 100).event_ids().astype("U").tolist()
    for part in (ids[:60], ids[60:]):
        write_deltalake(str(tmp_path / "silver"), pa.table({"event_id": part}), mode="append")
    assert feed.put(rows, RUNNING, files=2) < 60
    assert feed.differences() == []
    write_deltalake(str(tmp_path / "silver"), pa.table({"event_id": ids[:1]}), mode="append")
    assert feed.differences() == ["silver has 101 rows of 100 ids, 100 were sent"]


def test_a_feed_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_TIMEOUT_SECONDS", 0.1)
    feed = Feed(tmp_path / "bronze", tmp_path / "silver", state.stream_of(60_000))
    with pytest.raises(ContenderError, match="silver has 0 of 10 rows"):
        feed.put(feed.next(10), RUNNING)


# W5


def filed(seconds: float, bronze: tuple[int, int], *failures: str) -> Files:
    size = 240 * 2**20
    before, after = ({"bronze": Count(n, size, 50), "latest": Count(2, 2**20, 9)} for n in bronze)
    part = Part(seconds / 2, usage(seconds / 2, 10), before, after, usage(20, 5))
    return Files(2_000, seconds, (part, part), failures)


def test_files_are_worked_out_for_an_hour() -> None:
    found = filed(600, (700, 5))
    assert found.hourly("bronze") == 30
    assert found.written_hourly("bronze") == 8_400
    (goal,) = files.goals(found)
    assert (goal.measured, goal.verdict) == (30, "met (bronze, worked out from 600 s of stream)")


def test_files_are_never_fewer_than_were_counted() -> None:
    assert filed(600, (700, 45)).hourly("bronze") == 45


def test_full_files_are_those_that_maintenance_leaves_alone() -> None:
    set_to = session_conf.values("small", {})
    assert set_to["spark.databricks.delta.optimize.minFileSize"] == str(files.FULL_BYTES)


def test_the_table_with_the_most_files_decides() -> None:
    (goal,) = files.goals(filed(3_600, (7_000, 75)))
    assert goal.verdict == "missed by 25 % (bronze, counted)"


def test_files_of_tables_that_are_wrong_are_no_figure() -> None:
    (goal,) = files.goals(filed(600, (700, 5), "silver: 1 row lost"))
    assert goal.is_met is None


def test_files_are_told_by_table() -> None:
    text = files.lines(filed(600, (700, 5)))
    assert "| bronze | 700 | 5 | 50 | 240.0 MiB | 30 | 8,400 |" in text
    assert "| latest | 2 | 2 | 9 | 1.0 MiB | 2 | 24 |" in text
    assert "Maintenance took 40 s" in text[-1]
    assert "33 %" in text[-1]


def test_live_files_are_counted(tmp_path: Path) -> None:
    where = tables(tmp_path)
    for _ in range(3):
        write_deltalake(str(where.bronze), pa.table({"a": [1]}), mode="append")
    found = files.counts(where)
    assert set(found) == {"bronze"}
    assert (found["bronze"].files, found["bronze"].commits) == (3, 3)
    assert found["bronze"].bytes > 0


# W8


def test_idling_is_judged_by_cores_and_commits() -> None:
    busy = Idle(usage(600, 60), {"bronze": 0, "silver": 2})
    assert [goal.verdict for goal in idle.goals(busy)] == ["missed by 100 %", "missed by 2"]
    quiet = Idle(usage(60, 1), {"bronze": 0})
    assert [goal.verdict for goal in idle.goals(quiet)] == ["met (over 60 s, not 600)"] * 2
    assert "| 0.100 | 0.002 | silver 2 | 1.00 GiB | 0.00 |" in idle.lines(busy)


def test_versions_of_tables_that_are_not_there_are_told(tmp_path: Path) -> None:
    where = tables(tmp_path)
    write_deltalake(str(where.silver), pa.table({"a": [1]}))
    write_deltalake(str(tmp_path / "silver__late"), pa.table({"a": [1]}))
    found = idle.versions(where)
    assert found == {"bronze": -1, "silver": 0, "quarantine": -1, "groups": -1, "latest": -1, "late": 0}
    assert set(found) == set(all_paths(where))


# W6


def killed(seconds: float, foreign: float = 0.0) -> Kill:
    return Kill(3.0, seconds - 1, seconds, seconds + 1, usage(seconds + 1, 20, foreign))


def test_restarts_are_judged_by_median_and_worst() -> None:
    found = Restart(2_000, 100_000, (killed(9), killed(10), killed(18)))
    assert [goal.verdict for goal in restart.goals(found)] == ["met", "missed by 20 %"]
    row = "| first gold row of an event sent after the kill | 9 | 10 | 18 |"
    assert row in restart.lines(found)


@pytest.mark.parametrize(
    "found",
    [
        Restart(2_000, 100, (killed(9), killed(9, foreign=0.9))),
        Restart(2_000, 100, (killed(9),), ("silver: 1 row twice",)),
    ],
)
def test_a_disturbed_clock_or_a_wrong_table_voids_restarts(found: Restart) -> None:
    assert {goal.is_met for goal in restart.goals(found)} == {None}


def gold(where: Tables, groups: list[int], latest: list[int]) -> None:
    write_deltalake(str(where.groups), pa.table({"newest_sent_at": groups}), mode="overwrite")
    write_deltalake(str(where.latest), pa.table({"sent_at": latest}), mode="append")


def test_gold_is_as_new_as_its_newest_row(tmp_path: Path) -> None:
    where = tables(tmp_path)
    found = Gold(where)
    found.poll()
    assert found.newest == {"groups": 0, "latest": 0}
    gold(where, [5, 7], [6, 2])
    found.poll()
    assert found.newest == {"groups": 7, "latest": 6}
    changed = found.changed_at
    found.poll()
    assert found.changed_at == changed
    gold(where, [4], [9])
    found.poll()
    assert found.newest == {"groups": 7, "latest": 9}
    assert found.changed_at > changed


def test_gold_that_does_not_come_up_to_date_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(ContenderError, match="gold does not come up to date"):
        Gold(tables(tmp_path)).until(lambda: False, RUNNING)


def test_no_figure_is_no_number() -> None:
    empty: Any = Flat(1, (), ())
    assert math.isnan(empty.cpu("commit to bronze", 1))
    assert {goal.is_met for goal in flat.goals(empty, 100)} == {None}


# W12


def test_what_grows_with_time_is_seen_by_minutes() -> None:
    def minute(number: int, p50: float) -> Minute:
        return Minute(number, Quantile(p50), Quantile(2 * p50), usage(60.0, 90.0))

    ages = dict.fromkeys(TABLES, Ages(99, 0, Quantile(1.0), Quantile(2.0), []))
    minutes = [minute(n, p50) for n, p50 in enumerate((3.0, 1.0, 1.0, 2.5), 1)]
    fresh = Fresh("ours", 2_000, 60, 180, 20.0, usage(180.0, 270.0), ages, kept_up=True, minutes=minutes)
    goals = {goal.what: goal for goal in freshness._goals([fresh])}
    grown = goals["W2 2,000/s, gold p50, minute 4 / minute 2"]
    assert (grown.measured, grown.is_met) == (2.5, False)
    assert "| 4 | 2.50 s | 5.00 s | 1.50 |" in "\n".join(freshness._by_minutes([fresh]))
    assert len(freshness._goals([replace(fresh, minutes=minutes[:2])])) == 4  # and no growth


def test_the_minutes_of_a_run_end_where_its_parts_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(freshness, "time", SimpleNamespace(monotonic=lambda: now[0], time_ns=lambda: 0))

    def watch(seconds: float) -> bool:
        now[0] += seconds
        return True

    clock = freshness._Minutes(SimpleNamespace(read=lambda: None), "ours")  # type: ignore[arg-type]
    clock.watch(watch, 90.0)
    clock.watch(watch, 100.0)
    assert [end[0] for end in clock._ends] == [1000.0, 1060.0, 1120.0, 1180.0]
    assert now == [1190.0]


def test_endurance_is_judged_by_what_grows_from_the_second_third_to_the_last() -> None:
    def count(minute: int, resident: int, handles: int, live: int) -> endurance.Count:
        of = footprint.Footprint(
            resident, 2**29, handles, 90, {"bronze": footprint.Files(live, 40, 900)}, 250, 3 * 2**20
        )
        return endurance.Count(60.0 * minute, of, 2.5, Usage(60.0, 72.0, 10, {}, 0.0, 0.0))

    counts = [
        *(count(minute, 2**30, 100, 7) for minute in range(5, 25, 5)),
        *(count(minute, 2**30, 100, 61) for minute in range(25, 45, 5)),
        *(count(minute, 2**30, 120, 8) for minute in range(45, 65, 5)),
    ]
    found = endurance.Endured(2_000, 7_200_000, counts)
    assert [(goal.measured, goal.is_met) for goal in endurance.goals(found)] == [
        (61, False), (1.0, True), (1.2, False), (1.0, True), (1.0, True),
    ]  # fmt: skip
    text = "\n".join(endurance.lines(found))
    assert "for 60 minutes, 7,200,000 messages" in text
    assert "| 30 | 1,024 | 512 | 100 | 90 | 61 | 40 | 900 | 250 | 3.0 | 2.5 s | 1.20 |" in text
    short = endurance.goals(endurance.Endured(2_000, 10, counts[:2]))
    assert "600 s only" in short[0].verdict


def test_a_footprint_counts_what_is_on_the_disk_and_in_the_processes(tmp_path: Path) -> None:
    """A file of an older version is no live one; a checkpoint of the log is no data file."""
    path = tmp_path / "shop" / "tables" / "t"
    for value in (1, 2):
        write_deltalake(str(path), pa.table({"v": [value]}), mode="overwrite")
    for name, size in (("log/a.log", 7), ("log/b/c.log", 5), ("checkpoints/q/offsets/0", 1)):
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    DeltaTable(str(path)).create_checkpoint()  # two files: itself and its name
    lost = tmp_path / "not there"
    seen = footprint.footprint(os.getpid(), tmp_path / "shop", {"t": path, "lost": lost})
    assert seen.tables == {"t": footprint.Files(live=1, data=2, log=4)}
    assert (seen.logs, seen.checkpoints) == (12, 1)
    assert seen.resident > 2**20
    assert min(seen.handles, seen.threads) > 0


def test_background_maintenance_is_judged_by_files_freshness_and_time() -> None:
    def kept(p99: float, files: int, share: float) -> maintenance.Kept:
        ages = Ages(99, 0, Quantile(p99 / 2, at_least=False), Quantile(p99, at_least=False), [])
        usage = Usage(60.0, 45.0, 2**30, {}, 0.0, 0.0)
        fresh = Fresh("ours", 2_000, 30, 60, 20.0, usage, dict.fromkeys(TABLES, ages), kept_up=True)
        return maintenance.Kept(
            fresh, {"bronze": Count(files, 2**20, 90), "silver": Count(3, 10, 4)}, 7, share
        )

    with_, without = kept(6.0, 31, 0.04), kept(5.0, 900, float("nan"))
    assert [(goal.measured, goal.is_met) for goal in maintenance.goals(with_, without)] == [
        (31, True),
        (pytest.approx(1.2), True),
        (0.04, True),
    ]
    text = "\n".join(maintenance.lines(with_, without))
    assert "| bronze | 31 | 900 | 1.0 MiB |" in text
    assert "7 compactions and worked for 4.0 % of the time" in text


# W15


def test_five_gold_tables_are_compared_with_one() -> None:
    few, many = Cost(1, usage(100, 50), 10), Cost(5, usage(100, 90), 50)
    (goal,) = gold_tables.goals([few, many])
    assert (goal.measured, goal.is_met) == (1.8, False)
    text = gold_tables.lines([few, many], 2_000)
    assert "One more gold table took 0.1 cores." in text[0]
    assert text[-1].startswith("| 5 | 0.9 | 50 | 1.8 |")


def test_a_gold_table_that_is_wrong_makes_the_comparison_void() -> None:
    few, many = Cost(1, usage(100, 50), 10), Cost(5, usage(100, 90), 50, ("latest_2 differs",))
    assert gold_tables.goals([few, many])[0].measured is None


def test_the_pipeline_of_five_gold_tables_has_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(gold_tables.pipeline_of(5).format(topic="events"), encoding="utf-8")
    assert [table.name for table in load_pipeline(file).gold] == gold_tables.names(5)


# W16


def of_view(way: str, times: int, cpu: float, read: int) -> views.Measured:
    return views.Measured(way, times, Spent(cpu, cpu), read)


def test_a_view_is_compared_with_the_smallest_table_and_with_computing_it_again() -> None:
    by_row = [of_view("by row", 1, 2.0, 1_000), of_view("by row", 10, 2.0, 1_000)]
    by_key = [of_view("by key", 1, 2.0, 1_000), of_view("by key", 10, 4.0, 2_000)]
    whole = [of_view("whole", 1, 1.0, 50_000), of_view("whole", 10, 5.0, 500_000)]
    again = [of_view(views.AGAIN, 1, 4.0, 50_000), of_view(views.AGAIN, 10, 20.0, 500_000)]
    found = views.Views((*by_row, *by_key, *whole, *again))
    sizes = views.Sizes(50_000, (1, 10))
    goals = views.goals(found, sizes)
    assert [goal.measured for goal in goals] == [1.0, 1.0, 2.0, 2.0, 0.2]
    assert [goal.is_met for goal in goals] == [True, True, False, False, False]
    text = views.lines(found, sizes, 5)
    assert "| by key | 500,000 | 2,000 | 2 | 4,000 | 4,000 | 2 | 0.2 |" in text


def test_the_views_of_the_bench_are_kept_in_the_ways_that_they_are_named_by() -> None:
    assert [view.kept for view in views.pipeline().gold if isinstance(view, View)] == [*views.STATEMENTS]


# W17, W18


def test_a_processor_is_told_in_times_of_the_view() -> None:
    costs = [per_batch.Cost("View", (1.0, 2.0, 1.5), 0.1), per_batch.Cost("Stateful", (6.0, 5.0, 7.0), 0.1)]
    text = processors.lines(costs)
    assert "| Stateful | 6 | 600 | 4 | 0.10 |" in text
    rows = processors.rows_of(3)
    assert (rows.num_rows, rows.schema) == (processors.ROWS, processors.SCHEMA)


@pytest.mark.parametrize("kind", processors.KINDS)
def test_the_pipelines_of_the_same_meaning_have_no_fault(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(processors.PIPELINE.format(gold=processors.KINDS[kind]).format(topic="orders"))
    (gold,) = load_pipeline(file).gold
    assert (gold.name, type(gold).__name__) == ("totals", kind.partition(",")[0])


def test_an_element_may_cost_a_fifth_more_than_the_row_alone() -> None:
    alone = per_batch.Cost(elements.ONE_BY_ONE, (2.0,), 0.0)
    (goal,) = elements.goals([alone, per_batch.Cost(elements.BY_ELEMENT, (2.5,), 0.0)])
    assert (goal.measured, goal.is_met) == (1.25, False)
    (goal,) = elements.goals([alone, per_batch.Cost(elements.BY_ELEMENT, (2.5,), 0.0, ("wrong",))])
    assert goal.measured is None
    assert "| one by one | 2 | 100 | 1 | 0.00 |" in elements.lines([alone])


@pytest.mark.parametrize("way", elements.PIPELINES)
def test_elements_are_the_rows_that_are_sent_one_by_one(way: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(elements.PIPELINES[way].format(topic="orders"), encoding="utf-8")
    (silver,) = load_pipeline(file).silver
    assert (silver.each is not None) == (way == elements.BY_ELEMENT)
    sent = [json.loads(value) for value in elements.values(way, 1)]
    lines_ = [{"order": one["order"], **line} for one in sent for line in one.get("lines", [one])]
    assert len(lines_) == elements.ROWS
    assert lines_[0] == {
        "order": "o2000",
        "sku": "p0",
        "amount": 1,
        "price": 0,
        "at": "2026-01-01T00:03:20.000Z",
    }
    assert elements.rows_of(way, 1).num_rows == len(sent)


def test_the_pipeline_of_events_declared_whole_has_all_columns_of_the_oracle(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(WIDE_PIPELINE.format(topic="events"), encoding="utf-8")
    (silver,) = load_pipeline(file).silver
    assert sorted(silver.columns) == sorted((*SILVER, *WIDE))
    assert [rule.name for rule in silver.rules] == ["quantity_in_range"]
