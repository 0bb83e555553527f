"""Files that cannot hold a key are not read: those between two far-apart keys are not even there."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import merge as delta_merge
from common.delta.delta_rs import ACTION, UPDATED
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.rows.spark_rows import SparkRows
from tests.conftest import IN_DRIVER

pytestmark = pytest.mark.long

BATCH = MicroBatch("shop", "gold.t", "q", 1, ({"reservoirVersion": 3},), is_first=False)
FILES = 20
KEYS_OF_GROUPS = ["k", *(pytest.param(key, marks=pytest.mark.long) for key in ("name", "at"))]


def table(spark: Any, folder: Path, *, partitioned: bool = False) -> str:
    """Twenty files of twenty keys each; those that hold neither of the keys 5, 25 and 390 are lost."""
    path = str(folder / "t")
    rows = spark.range(400).selectExpr(
        "id k", "concat('k', lpad(id, 3, '0')) name", "timestamp_seconds(id * 60) at",
        "date_add(date'2026-01-01', cast(id div 20 as int)) day", "id div 20 part", "1 v",
    )  # fmt: skip
    writer = rows.repartitionByRange(FILES, "k").write.format("delta")
    (writer.partitionBy("part") if partitioned else writer).save(path)
    adds = DeltaTable(path).get_add_actions(flatten=True)
    found = dict(zip(adds["path"].to_pylist(), adds["min.k"].to_pylist(), strict=True))
    assert len(found) == FILES
    for file, least in found.items():
        if least not in {0, 20, 380}:
            (folder / "t" / file).unlink()
    return path


def keys(spark: Any) -> Any:
    """Three keys of a batch, far apart."""
    return spark.sql(
        "select k, concat('k', lpad(k, 3, '0')) name, timestamp_seconds(k * 60) at,"
        "date_add(date'2026-01-01', cast(k div 20 as int)) day, k div 20 part, 2 v "
        "from values (5l), (25l), (390l) t(k)"
    )


@pytest.mark.parametrize(
    "key", ["k", *(pytest.param(key, marks=pytest.mark.long) for key in ("name", "at", "day", "part"))]
)
def test_a_merge_reads_the_files_of_its_keys_alone(spark: Any, tmp_path: Path, key: str) -> None:
    path = table(spark, tmp_path, partitioned=key == "part")
    near = reduce(and_, SparkRows(keys(spark)).bounds([key]))
    assert len(spark.read.format("delta").load(path).where(near).inputFiles()) == 3
    names = [key, "name"] if key != "name" else ["name"]
    changes = SparkRows(keys(spark).withColumn(ACTION, F.lit(UPDATED)), 3)
    delta_merge.write_changes(changes, path, "{}", key=names, numbers={UPDATED: 3})
    delta_merge.insert_new(keys(spark), path, "{}", key=names)
    delta_merge.delete_matching(keys(spark).where("k = 5 or k = 390"), path, "{}", key=names)
    gone = spark.read.format("delta").load(path).where(near)
    assert sorted((row.k, row.v) for row in gone.where("k in (5, 25, 390)").collect()) == [(25, 2)]


@pytest.mark.parametrize("key", KEYS_OF_GROUPS)
@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
def test_groups_are_replaced_where_they_are(
    spark: Any, tmp_path: Path, key: str, limits: DriverLimits
) -> None:
    path = table(spark, tmp_path)
    want = keys(spark).where("k <> 390")
    with SparkRows(keys(spark).select(key), None, limits).kept() as groups:
        done = delta_merge.replace_groups(want, path, BATCH, {}, touched=groups, group=[key], key=[key])
    assert done == {"inserted": 0, "updated": 2, "deleted": 1}
    commit = LogReader(path).commit(1)
    assert commit is not None
    assert commit.removed_files == 3
    assert str(commit.engine).startswith("delta-rs" if limits.rows else "Apache-Spark")


@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
def test_what_is_listed_are_all_values_and_null_where_there_is_one(spark: Any, limits: DriverLimits) -> None:
    """Up to a few of them; of more, their ends."""
    everything = spark.range(100).selectExpr("if(id = 99, null, id) n")
    for wanted in ([1, 50, None], [1, 50], [7], list(range(0, 90, 10)), list(range(0, 98, 2))):
        frame = spark.createDataFrame([(n,) for n in wanted], "n long")
        with SparkRows(frame, None, limits).kept() as rows:
            near = rows.bounds(["n"])[0]
        found = {row.n for row in everything.where(near).collect()}
        few = len(wanted) < 20
        known = [n for n in wanted if n is not None]
        assert found == (set(wanted) if few else set(range(min(known), max(known) + 1)))


@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
def test_maps_are_written_where_they_differ(spark: Any, tmp_path: Path, limits: DriverLimits) -> None:
    path = str(tmp_path / "t")
    rows = spark.sql("select * from values ('a', map('x', 1)), ('b', map('x', 2)) t(k, counts)")
    rows.write.format("delta").save(path)
    want = spark.sql("select * from values ('a', map('x', 1, 'y', 3)), ('b', map('x', 2)) t(k, counts)")
    with SparkRows(want.select("k"), None, limits).kept() as groups:
        done = delta_merge.replace_groups(want, path, BATCH, {}, touched=groups, group=["k"], key=["k"])
    assert done == {"inserted": 0, "updated": 1, "deleted": 0}
    found = {row.k: row.counts for row in spark.read.format("delta").load(path).collect()}
    assert found == {"a": {"x": 1, "y": 3}, "b": {"x": 2}}


def test_days_that_javas_older_calendar_lacks_are_found(spark: Any, tmp_path: Path) -> None:
    """A file has nothing but such days, of October 1582: it was skipped where one of them is sought."""
    path = str(tmp_path / "t")
    days = spark.range(1, 32).selectExpr("make_date(1582, 10, cast(id as int)) d", "cast(d as timestamp) at")
    for lacking in (True, False):
        some = days.where(F.expr("day(d) between 5 and 14") == lacking)
        some.coalesce(1).write.format("delta").mode("append").save(path)
    table = spark.read.format("delta").load(path)
    for column in ("d", "at"):
        for first, last in ((7, 7), (3, 17), (12, 16)):
            sought = days.where(F.expr(f"day(d) between {first} and {last}")).select(column)
            near = SparkRows(sought, None, IN_DRIVER).bounds([column])[0]
            assert table.where(near).count() == last - first + 1
