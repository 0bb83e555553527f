"""When a row counts as seen: files of new versions only, rows that are replaced, and ages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from distribution.bench.data.events import Stream
from distribution.bench.measure import fresh_reader
from distribution.bench.measure.fresh_reader import TABLES, Ages, Reader, counted
from distribution.bench.measure.machine import Usage
from distribution.bench.measure.oracle import LATEST, Tables, groups_of, latest_of, silver_rows
from distribution.bench.measure.stats import Quantile
from distribution.bench.measure.watch import Arrivals, Moments, Watch
from distribution.bench.run import Run
from distribution.bench.workloads import freshness
from orchestration.access.embedded_broker.lifecycle import Broker

NOW = 1_800_000_000_000_000


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def found(watch: Watch) -> list[int]:
    return [number for seen in watch.poll() for number in seen.rows["n"].to_list()]


def test_a_poll_finds_the_rows_of_new_versions_once(tmp_path: Path) -> None:
    watch = Watch(tmp_path / "table", ["n"])
    assert found(watch) == []  # no table yet
    for numbers in ([1, 2], [3]):
        write_deltalake(str(tmp_path / "table"), pl.DataFrame({"n": numbers}), mode="append")
    assert sorted(found(watch)) == [1, 2, 3]
    assert found(watch) == []
    write_deltalake(str(tmp_path / "table"), pl.DataFrame({"n": [4]}), mode="overwrite")
    before = time.time_ns() // 1_000
    (seen,) = watch.poll()
    assert seen.rows["n"].to_list() == [4]
    assert before <= seen.at <= time.time_ns() // 1_000


def test_rows_that_compaction_moves_are_not_new(tmp_path: Path) -> None:
    watch = Watch(tmp_path / "table", ["n"])
    for number in (1, 2):
        write_deltalake(str(tmp_path / "table"), pl.DataFrame({"n": [number]}), mode="append")
    assert sorted(found(watch)) == [1, 2]
    DeltaTable(str(tmp_path / "table")).optimize.compact()
    assert found(watch) == []


def test_a_row_replaced_by_a_newer_one_counts_as_seen_with_it() -> None:
    moments = Moments(NOW, keys=10)
    moments.note(NOW + 5, ints(3, 3, 4), ints(NOW + 1, NOW + 2, NOW + 1))
    moments.note(NOW + 9, ints(3, 4), ints(NOW + 7, NOW + 1))
    keys, values = ints(3, 3, 3, 3, 4, 4, 5), ints(NOW, NOW + 2, NOW + 3, NOW + 8, NOW + 1, NOW + 2, NOW)
    assert moments.first_seen(keys, values).tolist() == [NOW + 5, NOW + 5, NOW + 9, -1, NOW + 5, -1, -1]


def test_nothing_is_seen_in_a_table_without_rows() -> None:
    assert Moments(NOW, keys=10).first_seen(ints(3), ints(NOW)).tolist() == [-1]
    assert Arrivals(NOW, 10).first_seen(ints(3)).tolist() == [-1]


def test_a_row_is_seen_when_it_first_arrives() -> None:
    arrivals = Arrivals(NOW, 10)
    arrivals.note(NOW + 100, ints(NOW, NOW + 20))
    arrivals.note(NOW + 200, ints(NOW + 20, NOW + 30))
    assert arrivals.first_seen(ints(0, 1, 2, 3, 4)).tolist() == [NOW + 100, -1, NOW + 100, NOW + 200, -1]


def test_ages_are_those_of_the_windows_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thirds are written a second and a half after the last of them; the rest never comes."""
    stream = Stream(seed=2, start=NOW, per_second=100)
    tables = Tables(*(tmp_path / name for name in ("b", "s", "q", "g", "l")))
    reader = Reader(tables, stream)
    reader.poll()
    assert not reader.has_gold
    came = silver_rows(stream.batch(0, 200)).unique("event_id", keep="first").drop("is_beyond")
    write_deltalake(str(tables.silver), came)
    write_deltalake(str(tables.groups), groups_of(came))
    write_deltalake(str(tables.latest), latest_of(came).select(LATEST))
    monkeypatch.setattr(time, "time_ns", lambda: (NOW + 3_500_000) * 1_000)
    reader.poll()
    assert reader.has_gold
    window = (NOW, NOW + 3_000_000)
    ages = fresh_reader.ages(reader, stream, window, NOW + 4_000_000)
    batch = stream.batch(1, 300)  # sent in the window
    for name in ("silver", "groups", "latest"):
        at = counted(batch, name)
        sent = batch.sent_at[at]
        assert ages[name].seen == (sent < NOW + 2_000_000).sum()
        assert ages[name].unseen == (sent >= NOW + 2_000_000).sum()
        assert ages[name].p50.seconds == pytest.approx(3.0, abs=0.1)
        assert not ages[name].p50.at_least
        assert ages[name].p99.at_least


def test_what_does_not_count() -> None:
    batch = Stream(seed=2, malformed=0.1, late=0.2).batch(0, 5_000)
    for name in ("silver", "latest"):
        at = counted(batch, name)
        assert set(batch.malformed[at]) == {0}
        assert (batch.event[at] == batch.number[at]).all()
    assert not batch.is_beyond[counted(batch, "silver")].any()
    assert batch.late[counted(batch, "silver")].any()
    assert not batch.late[counted(batch, "latest")].any()


def fresh(
    contender: str, p50: float, *, foreign: float = 0.0, at_least: bool = False, beside: float = 0.0
) -> freshness.Fresh:
    ages = Ages(99, 1, Quantile(p50, at_least), Quantile(2 * p50, at_least), [(0.0, p50, 2 * p50)])
    usage = Usage(60.0, 45.0, 2**30, {}, foreign, 0.0)
    return freshness.Fresh(
        contender,
        2_000,
        30,
        60,
        20.0,
        usage,
        dict.fromkeys(TABLES, ages),
        kept_up=not at_least,
        beside=beside,
        first=[(0.0, 25.0, 30.0), (119.0, p50, 2 * p50)],
    )


def verdicts(*found: freshness.Fresh) -> dict[str, tuple[float | None, bool | None]]:
    goals = freshness._goals(found)
    return {goal.what.removeprefix("W2 2,000/s, "): (goal.measured, goal.is_met) for goal in goals}


def test_goals_of_freshness_are_those_of_the_worse_table_and_of_the_peers() -> None:
    told = verdicts(fresh("ours", 1.2), fresh("polars", 0.3), fresh("tutorial", 90.0, at_least=True))
    assert told == {
        "gold p50, s": (1.2, True),
        "gold p99, s": (2.4, True),
        "cores": (0.75, True),
        "first gold row, cold, s": (20.0, False),
        "gold p50 of ours / the Polars loop": (pytest.approx(4), False),
        "gold p99 of ours / the Polars loop": (pytest.approx(4), False),
        "cores of ours / the Polars loop": (pytest.approx(1), True),
        "gold p50 of the tutorial / ours": (pytest.approx(75), True),
    }


def test_flink_is_the_peer_that_ours_should_be_fresher_and_cheaper_than() -> None:
    told = verdicts(fresh("ours", 1.2), fresh("flink", 1.6))
    assert {what: told[what] for what in told if "Flink" in what} == {
        "gold p50 of ours / Flink": (pytest.approx(0.75), True),
        "gold p99 of ours / Flink": (pytest.approx(0.75), True),
        "cores of ours / Flink": (pytest.approx(1), True),
    }


def test_other_work_is_judged_against_the_same_run_without_it() -> None:
    found = [fresh(who, age, beside=cores) for who in ("ours", "flink") for age, cores in ((1, 0), (2, 0.5))]
    told = verdicts(*found)
    assert told["gold p50, s"] == (1, True)  # of the run without
    assert told["gold p99 with 0.5 cores of other work / without"] == (2, False)
    rows = [line.split(" | ")[:3] for line in freshness._lines(found, run_of()) if line.startswith("| ours")]
    assert rows == [["| ours", "2,000", "0"], ["| ours", "2,000", "0.5"]]
    noisy = verdicts(fresh("ours", 1), fresh("ours", 2, beside=0.5, foreign=0.5))
    assert noisy["gold p99 with 0.5 cores of other work / without"] == (None, None)


def run_of() -> Run:
    return Run(cast("Broker", None), Path())


def test_the_picture_has_the_first_two_minutes_without_other_work() -> None:
    lines = freshness._first_minutes([fresh("ours", 1), fresh("flink", 2), fresh("ours", 9, beside=0.5)])
    assert dict(lines.series) == {
        "ours p50": [(0.0, 25.0), (119.0, 1)],
        "ours p99": [(0.0, 30.0), (119.0, 2)],
        "flink p50": [(0.0, 25.0), (119.0, 2)],
        "flink p99": [(0.0, 30.0), (119.0, 4)],
    }


def test_ages_on_a_disturbed_machine_are_refused_and_its_cores_are_not() -> None:
    told = verdicts(fresh("ours", 1.2, foreign=0.5), fresh("polars", 0.3))
    assert told == {
        "gold p50, s": (None, None),
        "gold p99, s": (None, None),
        "cores": (0.75, True),
        "first gold row, cold, s": (20.0, False),
        "gold p50 of ours / the Polars loop": (None, None),
        "gold p99 of ours / the Polars loop": (None, None),
        "cores of ours / the Polars loop": (pytest.approx(1), True),
    }
