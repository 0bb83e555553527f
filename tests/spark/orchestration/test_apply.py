"""A table is made equal to rows by one commit, which writes no more than what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.delta.log import LogReader
from orchestration.records.rejudge.apply import has_run, make_equal
from silver.write.known_keys import remember, replayed_ms

pytestmark = pytest.mark.long

COLUMNS = "k int, v int"


def equal(spark: Any, path: str, rows: list[tuple[int, ...]], run: str, columns: str = COLUMNS) -> set[str]:
    """Make the table equal to rows; the files that it has then."""
    version = LogReader(path).latest_version() or 0
    make_equal(path, spark.createDataFrame(rows, columns), f'{{"run_id": "{run}"}}', key=["k"])
    assert LogReader(path).latest_version() == version + 1
    assert has_run(path, version, run)
    assert not has_run(path, version + 1, run)
    assert sorted(map(tuple, spark.read.format("delta").load(path).collect())) == sorted(rows)
    return set(DeltaTable(path).file_uris())


def test_files_without_a_difference_stay(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for rows in ([(1, 1), (2, 2)], [(3, 3), (4, 4)]):
        spark.createDataFrame(rows, COLUMNS).coalesce(1).write.format("delta").mode("append").save(path)
    files = set(DeltaTable(path).file_uris())
    after = [(1, 1), (2, 2), (3, 30), (5, 5)]
    found = equal(spark, path, after, "a")
    assert len(found & files) == 1
    assert equal(spark, path, after, "b") == found
    for double in ((1, 1), (1, 7)):
        spark.createDataFrame([double], COLUMNS).write.format("delta").mode("append").save(path)
        equal(spark, path, after, f"with {double} twice")
    assert equal(spark, path, [(1,), (3,)], "c", "k int").isdisjoint(found)


def test_keys_are_remembered_up_to_the_newest_event_time(spark: Any, tmp_path: Path) -> None:
    """Also of times before 1970; without a commit where nothing is new."""
    path = str(tmp_path / "t")
    spark.createDataFrame([(1, 1)], COLUMNS).write.format("delta").save(path)
    found = []
    for newest in (None, -5, -10, 3):
        remember(spark, path, "{}", newest)
        found.append((replayed_ms(path), LogReader(path).latest_version()))
    assert found == [(None, 0), (-5, 1), (-5, 1), (3, 2)]
