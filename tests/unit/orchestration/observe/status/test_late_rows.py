"""Late rows in ``medallion status``: counted from the metadata of commits, and marked where they are many."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from rich.console import Console

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Aggregate, Json, Pipeline, Silver, Topic, Upsert, Window
from common.delta.log import LogReader
from orchestration.cli.observe.status_output import render
from orchestration.observe.status import late_counts as late_rows
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.document import document
from orchestration.observe.status.late_counts import Late
from orchestration.observe.status.topic_offsets import BrokerOffsets

SILVER = Silver(
    "quakes",
    reads="bronze.quakes",
    value=Json("id string, at timestamp"),
    columns={"quake_id": "id", "event_at": "at"},
    key=["quake_id"],
    event_time="event_at",
    watermark="7 days",
)
HOURS = Window("event_at", "1 hour")
PIPELINE = Pipeline(
    name="earthquakes",
    bronze=[Topic("quakes")],
    silver=[SILVER],
    gold=[
        Aggregate(
            "by_hour",
            reads="silver.quakes",
            measures={"quakes": "count(*)"},
            window=HOURS,
            mode="update",
            watermark="1 hour",
        ),
        Upsert("latest", reads="silver.quakes", key=["quake_id"], newest_by=["event_at"]),
    ],
)
NONE = {
    "accepted": 0,
    "quarantined": 0,
    "dropped": 0,
    "tombstones": 0,
    "duplicates": 0,
    "late": 0,
    "merged": 0,
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)


def commit(layout: Layout, table: str, step: str, counts: dict[str, Any]) -> None:
    """One commit of a micro-batch, with its counts."""
    metadata = json.dumps({"query": table, "query_id": "q", "batch_id": 0, "step": step, "counts": counts})
    properties = CommitProperties(custom_metadata={"userMetadata": metadata})
    path = layout.table_path(table)
    write_deltalake(path, pa.table({"n": [1]}), mode="append", commit_properties=properties)


def collector(layout: Layout, tmp_path: Path, pipeline: Pipeline = PIPELINE) -> Collector:
    return Collector(pipeline, layout, BrokerOffsets(pipeline, Settings(data_dir=tmp_path)))


def late(found: Collector, table: str) -> Late | None:
    return next(each.late for each in found.collect().tables if each.table == table)


def printed(found: Collector, width: int = 100) -> str:
    screen = StringIO()
    Console(file=screen, width=width, color_system=None).print(render(found.collect()))
    return screen.getvalue()


def test_a_table_that_left_out_most_rows_as_late_is_marked(layout: Layout, tmp_path: Path) -> None:
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 3_900, "quarantined": 23, "late": 19_565})
    commit(layout, "silver.quakes", "late", NONE | {"late": 19_565})  # the same micro-batch
    keeping = replace(PIPELINE, silver=[replace(SILVER, late="keep")])
    found = collector(layout, tmp_path, keeping)
    assert late(found, "silver.quakes") == Late("rows", 19_565, 19_565, 23_488, None)
    text = printed(found)
    assert "! late 19,565 of 23,488 rows (83 %), 19,565 left out" in text
    assert "up to date !" in text
    written = document(found.collect())["tables"][1]
    assert written["late"] == {
        "unit": "rows",
        "count": 19_565,
        "left_out": 19_565,
        "of": 23_488,
        "is_many": True,
        "before_1970": 0,
        "since": None,
    }


def test_few_late_rows_are_shown_without_a_mark(layout: Layout, tmp_path: Path) -> None:
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 9_990, "late": 10, "merged": 8})
    found = collector(layout, tmp_path)
    assert late(found, "silver.quakes") == Late("rows", 10, 0, 10_000, None)
    text = printed(found)
    assert "late 10 of 10,000 rows (0.10 %)" in text
    assert "!" not in text
    assert "left out" not in text


def test_groups_that_golds_watermark_dropped_are_shown(layout: Layout, tmp_path: Path) -> None:
    commit(layout, "gold.by_hour", "update", {"groups": 30, "late": 0, "inserted": 30})
    commit(layout, "gold.by_hour", "update", {"groups": 10, "late": 60, "inserted": 10})
    commit(layout, "gold.latest", "merge", {"written": 5})
    found = collector(layout, tmp_path)
    assert late(found, "gold.by_hour") == Late("groups", 60, 60, 100, None)
    assert late(found, "gold.latest") is None
    assert "! late 60 of 100 groups (60 %), 60 left out" in printed(found)


def test_what_a_gold_table_leaves_out_because_it_is_of_before_1970_is_told(
    layout: Layout, tmp_path: Path
) -> None:
    commit(layout, "gold.by_hour", "update", {"groups": 6, "late": 3, "before_1970": 3, "inserted": 6})
    commit(layout, "gold.by_hour", "update", {"groups": 10, "late": 1, "inserted": 10})
    found = collector(layout, tmp_path)
    assert late(found, "gold.by_hour") == Late("groups", 4, 4, 20, None, 3)
    text = " ".join(printed(found).split())
    assert "4 left out, 3 before 1970, where a watermark begins" in text


def test_without_late_rows_nothing_is_shown(layout: Layout, tmp_path: Path) -> None:
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 5})
    assert "late " not in printed(collector(layout, tmp_path))


def test_commits_of_earlier_versions_and_of_others_count_nothing(layout: Layout, tmp_path: Path) -> None:
    write_deltalake(layout.table_path("silver.quakes"), pa.table({"n": [1]}))
    commit(layout, "silver.quakes", "accepted", {"rows": 7})
    found = collector(layout, tmp_path)
    assert late(found, "silver.quakes") == Late("rows", 0, 0, 0, None)


def test_later_commits_are_added_and_a_new_table_begins_anew(layout: Layout, tmp_path: Path) -> None:
    found = collector(layout, tmp_path)
    for total in (100, 200):
        commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 99, "late": 1})
        assert late(found, "silver.quakes") == Late("rows", total // 100, 0, total, None)
    DeltaTable(layout.table_path("silver.quakes")).delete()
    assert late(found, "silver.quakes") == Late("rows", 2, 0, 200, None)


def test_only_the_newest_commits_are_counted(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_rows, "COMMITS", 2)
    for _ in range(4):
        commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 99, "late": 1})
    found = collector(layout, tmp_path)
    first = late(found, "silver.quakes")
    assert first is not None
    assert (first.count, first.of, first.since is None) == (2, 200, False)
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 90, "late": 10})
    second = late(found, "silver.quakes")
    assert second is not None
    assert (second.count, second.of) == (11, 200)
    assert "since 20" in printed(found)


def test_a_reader_that_was_away_for_days_reads_only_commits_that_it_counts(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_rows, "COMMITS", 2)
    log = LogReader(layout.table_path("silver.quakes"))
    counter = late_rows.LateCounter(SILVER)
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 99, "late": 1})
    assert counter.count(log, 0, "t").count == 1
    for _ in range(6):
        commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 90, "late": 10})
    read: list[int] = []
    known = log.commit
    monkeypatch.setattr(log, "commit", lambda version: (read.append(version), known(version))[1])
    found = counter.count(log, 6, "t")
    assert (found.count, found.of, found.since is None) == (20, 200, False)
    assert read == [5, 6]


def test_a_table_whose_rows_are_never_late_has_no_count(layout: Layout, tmp_path: Path) -> None:
    exact = replace(PIPELINE, silver=[replace(SILVER, dedupe="exact")])
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 5})
    assert late(collector(layout, tmp_path, exact), "silver.quakes") is None


def test_other_tables_records_are_shown_and_do_not_hide_late_rows(layout: Layout, tmp_path: Path) -> None:
    commit(layout, "silver.quakes", "accepted", NONE | {"accepted": 9, "late": 1, "other": 990})
    typed = replace(PIPELINE, silver=[replace(SILVER, where="id like 'a%'")])
    found = collector(layout, tmp_path, typed)
    assert "other 990 of 1,000 records, by where" in printed(found)
    assert "! late 1 of 10 rows (10 %)" in printed(found)
    told = document(found.collect())["tables"]
    assert told[1]["other"] == {"count": 990, "of": 1_000, "since": None}
    assert told[0]["other"] is None
    exact = replace(typed, silver=[replace(typed.silver[0], dedupe="exact")])
    assert document(collector(layout, tmp_path, exact).collect())["tables"][1]["other"]["count"] == 990
    assert document(collector(layout, tmp_path).collect())["tables"][1]["other"] is None
