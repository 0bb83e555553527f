"""Literals that have files skipped: never a row too few, and no file between far-apart groups."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER
from common.rows.spark_rows import SparkRows
from gold.aggregate.file_pruning import merge_ranges, prune_by_keys, time_ranges, within
from gold.join.query import matching_rows
from tests.conftest import IN_DRIVER

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("spans", "most", "expected"),
    [
        ([], 4, []),
        ([(1, 2), (2, 3), (5, 9), (6, 7)], 4, [(1, 3), (5, 9)]),
        ([(0, 1), (10, 11), (13, 14), (30, 31)], 4, [(0, 1), (10, 11), (13, 14), (30, 31)]),
        ([(0, 1), (10, 11), (13, 14), (30, 31)], 3, [(0, 1), (10, 14), (30, 31)]),
        ([(30, 31), (10, 11), (13, 14), (0, 1)], 2, [(0, 14), (30, 31)]),
        ([(0, 1), (10, 11), (13, 14), (30, 31)], 1, [(0, 31)]),
        ([(0, 1), (3, 4), (6, 7)], 2, [(0, 7)]),  # two gaps alike: both are closed
    ],
)
def test_time_ranges_are_joined_where_the_gaps_are_least(spans: Any, most: int, expected: Any) -> None:
    assert merge_ranges(spans, most) == expected


def test_whatever_is_joined_everything_stays_within() -> None:
    for seed in range(200):
        chance = random.Random(seed)  # noqa: S311
        spans = [(low, low + chance.randrange(5)) for low in chance.choices(range(200), k=30)]
        most = chance.randrange(1, 12)
        found = merge_ranges(spans, most)
        assert len(found) <= most
        assert all(any(low <= first and last <= high for low, high in found) for first, last in spans)
        assert all(before[1] < after[0] for before, after in pairwise(found))


def test_files_without_a_touched_group_are_not_read(spark: Any, tmp_path: Path) -> None:
    """Text and days as they are in silver; what is no plain column has every file read."""
    path = str(tmp_path / "t")
    rows = spark.range(400).selectExpr("concat('k', lpad(id, 3, '0')) k", "id n", "timestamp_seconds(id) at")
    rows.repartitionByRange(20, "n").write.format("delta").save(path)
    silver = spark.read.format("delta").load(path)
    assert len(silver.inputFiles()) == 20
    with SparkRows(
        spark.createDataFrame([("k005", 5), ("k395", 395)], "key string, n long"), None, IN_DRIVER
    ).kept() as groups:
        assert len(prune_by_keys(silver, groups, {"key": "K"}).inputFiles()) == 2
        assert len(prune_by_keys(silver, groups, {"key": "`k`", "n": "(n)"}).inputFiles()) == 2
        assert len(prune_by_keys(silver, groups, {"key": "upper(k)"}).inputFiles()) == 20
    two = spark.sql(
        "select timestamp_seconds(id) low, timestamp_seconds(id + 9) high from range(0, 400, 380)"
    )
    with SparkRows(two, None, IN_DRIVER).kept() as spans:
        near = silver.where(within(F.col("at"), time_ranges(spans, "low", "high")))
    assert near.count() == 20
    assert len(near.inputFiles()) == 2


@pytest.mark.parametrize("history", [1, 4])
def test_a_change_of_a_joined_table_reads_few_files_however_long_the_history(
    spark: Any, tmp_path: Path, history: int
) -> None:
    """By a column, a field, a cast to bigint, and integers of two widths; of an expression few columns."""
    path = str(tmp_path / "t")
    rows = spark.range(400 * history).selectExpr(
        "cast(id as int) n", "named_struct('deep', named_struct('n', id)) s", "repeat('x', 100) wide"
    )
    rows.repartitionByRange(20 * history, "n").write.format("delta").save(path)
    left = spark.read.format("delta").load(path)
    assert len(left.inputFiles()) == 20 * history
    changed = spark.createDataFrame([(5,), (395,)], "__v0 long")
    with SparkRows(changed, None, IN_DRIVER).kept() as values:
        for text in ("n", "s.deep.n", "cast(n as bigint)", "CAST( `s`.`deep`.`n` AS BigInt )"):
            found = matching_rows(left, [text], values)
            assert (text, len(found.inputFiles())) == (text, 2)
            assert sorted(row.n for row in found.collect()) == [5, 395]
        computed = matching_rows(left, ["abs(n)"], values).select("n")
        assert len(computed.inputFiles()) == 20 * history
        plan = computed._jdf.queryExecution().executedPlan().toString()
        assert "wide" not in plan.partition("ReadSchema: ")[2]


def test_of_very_many_time_ranges_the_ends_alone_are_taken(spark: Any) -> None:
    spans = spark.range(10_001).selectExpr(
        "timestamp_seconds(id * 10) low", "timestamp_seconds(id * 10 + 1) high"
    )
    with (
        SparkRows(spans, None, NO_DRIVER).kept() as many,
        SparkRows(spans.limit(200), None, IN_DRIVER).kept() as few,
    ):
        found = time_ranges(many, "low", "high")
        assert len(time_ranges(few, "low", "high")) <= 64
    assert len(found) == 1
    assert spans.where(within(F.col("high"), found)).count() == 10_001
