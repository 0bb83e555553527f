"""Figures made of what was measured, goals, and what makes them void."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import View
from common.errors import JarError
from common.spark import session_conf
from distribution.bench import __main__ as command
from distribution.bench.contenders import flink_job
from distribution.bench.contenders.ours import WIDE as WIDE_PIPELINE
from distribution.bench.contenders.started_process import ContenderError, Started
from distribution.bench.measure import footprint
from distribution.bench.measure.fresh_reader import TABLES, Ages
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.oracle import SILVER, WIDE, Tables
from distribution.bench.measure.spent import Spent
from distribution.bench.measure.stats import Quantile
from distribution.bench.reporting.report import Section
from distribution.bench.run import Run
from distribution.bench.workloads import files, freshness, maintenance, restart, standby
from distribution.bench.workloads.files import Count, Files, Part
from distribution.bench.workloads.freshness import Fresh, Minute
from distribution.bench.workloads.gold import choices, gold_tables, views
from distribution.bench.workloads.gold.gold_tables import Cost
from distribution.bench.workloads.restart import Gold, Kill, Restart
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.embedded_broker.lifecycle import Broker

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


def test_a_peer_that_cannot_be_set_up_is_left_out_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise JarError("the jars could not be fetched\nmore")

    monkeypatch.setattr(flink_job, "set_up", refuse)
    run = Run(cast("Broker", None), Path())
    assert [one.name for one in run.contenders(("polars", "flink"))] == ["ours", "polars"]

    def asked(peer: str, run: Run) -> Section:
        return Section("drain", " ".join(one.name for one in run.contenders((peer,))), ["text"])

    said = ["text", "", "`flink` is left out: the jars could not be fetched"]
    for peer, lines in (("flink", said), ("polars", ["text"])):
        monkeypatch.setitem(command.WORKLOADS, "drain", partial(asked, peer))
        assert command._section("drain", run).lines == lines


def test_other_work_takes_its_share_of_a_core(tmp_path: Path) -> None:
    with Started("distribution.bench.measure.busy", ["0.5"], tmp_path / "log") as busy:
        with Meter({"busy": busy.pid}) as meter:
            time.sleep(0.5)  # it starts
            before = meter.read()
            time.sleep(1)
            usage = meter.read().since(before, "busy")
        busy.check()
    assert 0.2 < usage.cores < 0.65


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


def test_the_pipeline_of_events_declared_whole_has_all_columns_of_the_oracle(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(WIDE_PIPELINE.format(topic="events"), encoding="utf-8")
    (silver,) = load_pipeline(file).silver
    assert sorted(silver.columns) == sorted((*SILVER, *WIDE))
    assert [rule.name for rule in silver.rules] == ["quantity_in_range"]


# W17


def test_what_a_view_chooses_is_compared_with_the_cheaper_of_both_ways() -> None:
    def of(declared: str, kept: str, share: float, cpu: float) -> choices.Measured:
        return choices.Measured("group", declared, kept, 10_000, share, Spent(cpu, cpu))

    few = [of("by key", "by key", 0.1, 2.0), of("whole", "whole", 0.1, 1.0), of("free", "whole", 0.1, 1.1)]
    all_ = [of("by key", "by key", 1.0, 3.0), of("whole", "whole", 1.0, 6.0), of("free", "whole", 1.0, 6.0)]
    (goal,) = choices.goals([*few, *all_])
    assert (goal.measured, goal.bound) == (2.0, choices.MOST_OF_CHEAPER)
    text = "\n".join(choices.lines([*few, *all_], 1))
    assert "| group | 10,000 | 0.1 | 2,000 | 1,000 | 1,100 | whole | 1.1 |" in text


def test_each_statement_of_the_bench_is_kept_by_changes_whole_and_freely() -> None:
    kept = [view.kept for view in choices.pipeline().gold if isinstance(view, View)]
    assert kept == ["by key", "whole", None, "by row", "whole", None, "by key", "whole", None]
