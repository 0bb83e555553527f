"""Each write once by its identity, each table in the shape that was declared."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.delta.written_once import is_written
from common.errors import TableShapeError
from common.rows.spark_rows import SparkRows
from tests.conftest import IN_DRIVER

PROPERTIES = {"delta.appendOnly": "true", "delta.checkpointInterval": "7"}


def batch(batch_id: int, query_id: str = "q1", *, is_first: bool = True) -> MicroBatch:
    """A micro-batch's identity; the first of its run, which may be a replay, unless said otherwise."""
    positions = ({"reservoirVersion": 3}, None)
    return MicroBatch("shop", "silver.orders", query_id, batch_id, positions, is_first)


def rows(path: str) -> list[tuple[Any, ...]]:
    """Rows by delta-rs, in order."""
    return sorted(tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def struct(spark: Any, ddl: str) -> Any:
    """A schema."""
    return spark.createDataFrame([], ddl).schema


@pytest.mark.parametrize(
    "left",
    [(), ("_staged_commits/",), ("_staged_commits/", ".00000000000000000000.json.5f1c.tmp")],
    ids=["an empty log", "a folder", "a draft"],
)
def test_a_creation_that_was_killed_is_begun_again(spark: Any, tmp_path: Path, left: tuple[str, ...]) -> None:
    """Delta takes a log without a commit for a table, and then does not find it."""
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    for name in left:
        if name.endswith("/"):
            (log / name).mkdir()
        else:
            (log / name).write_text("{", encoding="utf-8")
    path = str(tmp_path / "t")
    delta_table.ensure(spark, "silver.t", path, struct(spark, "id string"), PROPERTIES)
    assert DeltaTable(path).version() == 0
    delta_table.append(spark.createDataFrame([("a",)], "id string"), path, batch(0), "append", {})
    assert rows(path) == [("a",)]


def test_a_table_is_made_once_with_its_properties_and_later_only_looked_at(
    spark: Any, tmp_path: Path
) -> None:
    path, schema = str(tmp_path / "t"), struct(spark, "id string, n int, deep struct<a: int>")
    assert not delta_table.exists(path)
    delta_table.ensure(spark, "silver.t", path, schema, PROPERTIES)
    assert delta_table.exists(path)
    table = DeltaTable(path)
    assert table.metadata().configuration == PROPERTIES
    assert [field.name for field in table.schema().fields] == ["id", "n", "deep"]
    delta_table.ensure(spark, "silver.t", path, schema, {"delta.appendOnly": "false"})
    assert DeltaTable(path).version() == 0
    for changed, told in {
        "id string, n bigint, deep struct<a: int>": "n is int, declared bigint",
        "id string, n int, deep struct<a: bigint>": "deep is struct<a:int>, declared struct<a:bigint>",
        "id string, n int, deep struct<a: int>, extra date": "extra date is missing",
        "id string, deep struct<a: int>": "n int is not declared",
    }.items():
        with pytest.raises(TableShapeError) as refused:
            delta_table.ensure(spark, "silver.t", path, struct(spark, changed), {})
        assert told in str(refused.value)
        assert "silver.t" in str(refused.value)
        assert path in str(refused.value)


TYPES = (
    "a string, b binary, c boolean, d tinyint, e smallint, f int, g bigint, h float, i double, j date, "
    "k timestamp, l timestamp_ntz, m decimal(38,2), n array<int>, o map<string,array<binary>>, "
    "p struct<q:int,r:array<struct<s:timestamp,t_u:decimal(5,0)>>>, w int"
)


@pytest.mark.parametrize("has_checksum", [True, False])
def test_the_columns_of_a_table_are_those_of_its_log(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_checksum: bool
) -> None:
    """Every type by the checksum beside the newest commit, and by delta-rs, as Spark has it."""
    path = str(tmp_path / "t")
    schema = struct(spark, TYPES)
    delta_table.ensure(spark, "silver.t", path, schema, PROPERTIES)
    if not has_checksum:
        (tmp_path / "t" / "_delta_log" / f"{0:020}.crc").unlink()
    found = spark.read.format("delta").load(path).schema
    assert LogReader(path).column_types() == {field.name: field.dataType.simpleString() for field in found}
    monkeypatch.setattr("delta.tables.DeltaTable.forPath", None)
    delta_table.ensure(spark, "silver.t", path, schema, PROPERTIES)
    fewer = struct(spark, "a string, f int")
    delta_table.ensure(spark, "silver.t", path, fewer, PROPERTIES, may_have_more=True)
    assert delta_table.columns(spark, path) == tuple(schema.names)


def test_a_write_of_the_same_identity_is_skipped_and_of_any_other_is_not(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")

    def append(n: int, batch: MicroBatch) -> None:
        delta_table.append(spark.createDataFrame([(n,)], "n int"), path, batch, "append", {"rows": n})

    delta_table.ensure(spark, "silver.t", path, struct(spark, "n int"), {})
    append(1, batch(4))
    append(2, batch(4))
    append(3, batch(3))
    assert rows(path) == [(1,)]
    assert DeltaTable(path).version() == 1
    append(5, batch(5))
    append(6, batch(6, is_first=False))
    append(7, batch(0, "q2"))
    assert rows(path) == [(1,), (5,), (6,), (7,)]
    history = DeltaTable(path).history()
    assert [json.loads(one["userMetadata"])["batch_id"] for one in history[:4]] == [0, 6, 5, 4]
    assert json.loads(history[1]["userMetadata"]) == {
        "format": 1,
        "pipeline": "shop",
        "query": "silver.orders",
        "query_id": "q1",
        "batch_id": 6,
        "step": "append",
        "positions": [{"reservoirVersion": 3}, None],
        "counts": {"rows": 6},
    }


def test_each_step_of_a_batch_is_written_once_and_a_replay_does_those_that_lack(
    spark: Any, tmp_path: Path
) -> None:
    """Three appends by one batch into one table; maintenance in between."""
    path, done = str(tmp_path / "t"), batch(4, is_first=False)
    delta_table.ensure(spark, "silver.t", path, struct(spark, "n int"), {})

    def frame(*numbers: int) -> Any:
        return spark.createDataFrame([(n,) for n in numbers], "n int")

    def steps(batch: MicroBatch) -> None:
        delta_table.append(frame(1), path, batch, "accepted", {"accepted": 1})
        delta_table.append(frame(2), path, batch, "more", {})
        delta_table.append(frame(3), path, batch, "late", {"merged": 1, "rules": {"r": 2}})

    delta_table.append(frame(1), path, done, "accepted", {"accepted": 1})
    frame().write.format("delta").mode("append").save(path)
    steps(batch(4))
    assert rows(path) == [(1,), (2,), (3,)]
    version = DeltaTable(path).version()
    steps(batch(4))
    assert DeltaTable(path).version() == version
    told = [json.loads(one["userMetadata"]) for one in DeltaTable(path).history(2)]
    assert [(one["batch_id"], one["step"]) for one in told] == [(4, "late"), (4, "more")]
    assert told[0]["counts"] == {"merged": 1, "rules": {"r": 2}}
    steps(batch(5, is_first=False))
    assert rows(path) == [(1,), (1,), (2,), (2,), (3,), (3,)]
    steps_of_5 = ("accepted", "more", "late", "another")
    assert [is_written(path, batch(5), each) for each in steps_of_5] == [True, True, True, False]
    assert spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None


@pytest.mark.long
def test_an_empty_batch_leaves_its_mark_and_an_overwrite_replaces_all(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.createDataFrame([(1,), (2,)], "n int")
    delta_table.ensure(spark, "gold.t", path, frame.schema, {})
    delta_table.append(frame, path, batch(0), "complete", {}, mode="overwrite")
    delta_table.append(frame.limit(0), path, batch(1), "append", {"rows": 0})
    assert DeltaTable(path).version() == 2
    assert rows(path) == [(1,), (2,)]
    other = spark.createDataFrame([(3,)], "n int")
    delta_table.append(other, path, batch(2), "complete", {}, mode="overwrite")
    delta_table.append(frame, path, batch(2), "complete", {}, mode="overwrite")
    assert rows(path) == [(3,)]


def _plain(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return found


MOMENTS = (
    "-0044-03-15 00:00:00",
    "0001-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "9999-12-31 23:59:59.999999",
    "+10000-01-01 00:00:00",
)


@pytest.mark.long
@pytest.mark.parametrize("text", MOMENTS)
def test_bounds_hold_of_every_moment(spark: Any, text: str) -> None:
    """In Python's years and beyond them: Go's zero time is a timestamp like any other."""
    at = f"timestamp'{text}Z'"
    frame = spark.range(1).selectExpr(f"{at} at", f"cast({at} as date) day", "'b' id", "7 n", "1.5 ratio")
    found = SparkRows(frame).bounds(["id", "at", "n", "day", "ratio"], "t")
    assert len(found) == 4
    assert frame.alias("t").where(reduce(and_, found)).count() == 1
    for other in (f"{at} - interval 1 microsecond", f"{at} + interval 1 microsecond"):
        assert frame.withColumn("at", F.expr(other)).alias("t").where(found[1]).count() == 0
    for other in ("date_add(day, 1)", "date_add(day, -1)"):
        assert frame.withColumn("day", F.expr(other)).alias("t").where(found[3]).count() == 0


@pytest.mark.long
def test_null_keys_stay_within_bounds_where_the_frame_has_one(spark: Any) -> None:
    some = spark.createDataFrame([(1,), (None,), (3,)], "n int")
    table = spark.createDataFrame([(0,), (3,), (None,)], "n int")
    assert {row.n for row in table.where(SparkRows(some).bounds(["n"])[0]).collect()} == {3, None}
    known = SparkRows(some.where("n > 0")).bounds(["n"])
    assert {row.n for row in table.where(known[0]).collect()} == {3}
    assert SparkRows(some.where("n is null")).bounds(["n"]) == []


@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
def test_groups_are_made_what_they_should_be_and_nothing_else_is_written(
    spark: Any, tmp_path: Path, limits: DriverLimits
) -> None:
    """Rows inserted, changed and gone, also of a null group; other groups and equal rows stay as they are."""
    path, schema = str(tmp_path / "t"), "g string, k int, v double"
    others = [("b", 1, 1.0), ("b", 2, 9.0)]
    rows = [("a", 1, 1.0), ("a", 2, float("nan")), ("a", 3, None), (None, 1, 1.0), *others]
    spark.createDataFrame(rows, schema).write.format("delta").save(path)

    def replaced(number: int, want: list[Any], groups: list[Any], *, is_first: bool = False) -> Any:
        identity = dataclasses.replace(batch(number), is_first=is_first)
        frame, asked = spark.createDataFrame(want, schema), spark.createDataFrame(groups, "g string")
        with SparkRows(asked, None, limits).kept() as touched:
            return delta_merge.replace_groups(
                frame, path, identity, {}, touched=touched, group=["g"], key=["g", "k"]
            )

    want = [("a", 1, 1.5), ("a", 2, float("nan")), ("a", 4, 4.0), (None, 1, 2.0), ("c", 1, 1.0)]
    done = replaced(0, want, [("a",), (None,), ("c",)])
    assert done == {"inserted": 2, "updated": 2, "deleted": 1}
    assert Counter(map(str, _plain(path))) == Counter(
        str(dict(zip("gkv", row, strict=True))) for row in [*want, *others]
    )
    files = set(DeltaTable(path).file_uris())
    assert replaced(1, want, [("a",), (None,), ("c",)]) == {"inserted": 0, "updated": 0, "deleted": 0}
    assert set(DeltaTable(path).file_uris()) == files
    assert replaced(1, [], [("a",)], is_first=True) == {}
    assert replaced(2, [], [("a",), (None,), ("c",)]) == {"inserted": 0, "updated": 0, "deleted": 5}
    assert {row["g"] for row in _plain(path)} == {"b"}


def at(version: int, index: int, *, is_first: bool) -> dict[str, Any]:
    return {"reservoirVersion": version, "index": index, "isStartingVersion": is_first}


@pytest.mark.parametrize(
    ("before", "position", "known"),
    [
        (None, None, (False, None)),
        (None, at(7, 3, is_first=True), (False, 7)),
        (at(7, 3, is_first=True), at(7, 9, is_first=True), (True, 7)),
        (at(7, 9, is_first=True), at(8, -1, is_first=False), (True, 7)),
        (at(7, 9, is_first=True), at(8, 0, is_first=False), (False, 8)),
        (at(7, 3, is_first=False), at(8, -1, is_first=False), (False, 7)),
        (None, at(8, -1, is_first=False), (False, 7)),
    ],
)
def test_a_batch_knows_how_far_it_has_read(
    before: Any, position: Any, known: tuple[bool, int | None]
) -> None:
    """Nothing yet; a source that came later; inside the first state, at its end, beyond it; commits."""
    batch = MicroBatch("shop", "gold.x", "q", 1, (position,), before=(before,))
    assert (batch.in_first_state(), batch.source_version()) == known


@pytest.mark.parametrize(
    ("before", "position", "is_known"),
    [
        (at(7, 0, is_first=False), at(7, 1, is_first=False), True),
        (at(7, 0, is_first=False), at(8, -1, is_first=False), True),
        (at(7, 0, is_first=False), at(8, 0, is_first=False), False),
        (at(7, -1, is_first=False), at(7, 1, is_first=False), False),
        (at(7, 0, is_first=True), at(7, 1, is_first=True), False),
        (None, at(7, 1, is_first=False), False),
    ],
)
def test_a_batch_knows_that_it_goes_on_with_a_commit(before: Any, position: Any, is_known: Any) -> None:
    batch = MicroBatch("shop", "gold.x", "q", 1, (position,), before=(before,))
    assert batch.in_commit_before() is is_known
