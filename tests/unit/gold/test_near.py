"""Literals that have files skipped: never a row too few, and no file between far-apart groups."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.rows.materialized import settled
from gold.aggregate.file_pruning import joined, near_keys, stretches, within


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
def test_stretches_are_joined_where_the_gaps_are_least(spans: Any, most: int, expected: Any) -> None:
    assert joined(spans, most) == expected


def test_whatever_is_joined_everything_stays_within() -> None:
    for seed in range(200):
        chance = random.Random(seed)  # noqa: S311
        spans = [(low, low + chance.randrange(5)) for low in chance.choices(range(200), k=30)]
        most = chance.randrange(1, 12)
        found = joined(spans, most)
        assert len(found) <= most
        assert all(any(low <= first and last <= high for low, high in found) for first, last in spans)
        assert all(before[1] < after[0] for before, after in pairwise(found))


def test_files_without_a_touched_group_are_not_read(spark: Any, tmp_path: Path, small: DriverLimits) -> None:
    """Text and days as they are in silver; what is no plain column has every file read."""
    path = str(tmp_path / "t")
    rows = spark.range(400).selectExpr("concat('k', lpad(id, 3, '0')) k", "id n", "timestamp_seconds(id) at")
    rows.repartitionByRange(20, "n").write.format("delta").save(path)
    silver = spark.read.format("delta").load(path)
    assert len(silver.inputFiles()) == 20
    with settled(spark.createDataFrame([("k005", 5), ("k395", 395)], "key string, n long"), small) as groups:
        assert len(near_keys(silver, groups, {"key": "K"}).inputFiles()) == 2
        assert len(near_keys(silver, groups, {"key": "`k`", "n": "(n)"}).inputFiles()) == 2
        assert len(near_keys(silver, groups, {"key": "upper(k)"}).inputFiles()) == 20
    two = spark.sql(
        "select timestamp_seconds(id) low, timestamp_seconds(id + 9) high from range(0, 400, 380)"
    )
    with settled(two, small) as spans:
        near = silver.where(within(F.col("at"), stretches(spans, "low", "high")))
    assert near.count() == 20
    assert len(near.inputFiles()) == 2


def test_of_very_many_stretches_the_ends_alone_are_taken(spark: Any, small: DriverLimits) -> None:
    spans = spark.range(10_001).selectExpr(
        "timestamp_seconds(id * 10) low", "timestamp_seconds(id * 10 + 1) high"
    )
    with settled(spans, NO_DRIVER) as many, settled(spans.limit(200), small) as few:
        found = stretches(many, "low", "high")
        assert len(stretches(few, "low", "high")) <= 64
    assert len(found) == 1
    assert spans.where(within(F.col("high"), found)).count() == 10_001
