"""Small tables written by delta-rs: the same rows as Spark's, each write once, and Spark where it cannot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import delta_rs
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.delta_rs import ACTION, DeltaRsTable
from common.delta.log import LogReader
from common.delta.maintenance import compaction
from common.delta.micro_batch import MicroBatch
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows, rows_in_driver
from gold.table.create import PROPERTIES
from tests.conftest import IN_DRIVER

SMALL = DriverLimits(100, 1_000)
DDL = (
    "`Key.Of` string, n int, day date, at timestamp, price decimal(12,2), x double, "
    "raw binary, is_paid boolean, tags array<string>, counts map<string,int>, "
    "place struct<x:int,`y.z`:string>"
)
ROWS = """
    select * from values
    ('a', 1, date'1899-12-31', timestamp'1899-12-31 23:59:59.999999Z',
        1.25bd, double('nan'), x'00ff', true, array('p', null),
        map('m', 1), named_struct('x', 1, 'y.z', 'q')),
    ('b''s "q" \\\\', 2, date'2099-01-01', timestamp'2099-01-01 00:00:00Z', -0.01bd,
        double('infinity'), x'', false, array(), map(), named_struct('x', null, 'y.z', null)),
    (null, 3, null, null, null, null, null, null, null, null, null),
    ('ü', -4, date'1970-01-01', timestamp'1970-01-01 00:00:00Z',
        9999999999.99bd, -0.0D, x'61', null, null, map('m', null), null)
"""


def made(spark: Any, folder: Path, name: str = "t", **properties: str) -> str:
    """An empty table."""
    path = str(folder / name)
    given = {**PROPERTIES, **{key.replace("__", "."): value for key, value in properties.items()}}
    delta_table.ensure(spark, name, path, StructType.fromDDL(DDL), given)
    return path


def rows(spark: Any) -> Any:
    """One row of each kind of value."""
    schema = StructType.fromDDL(DDL)
    return spark.sql(ROWS).toDF(*schema.names).to(schema)


def held(spark: Any, path: str) -> Counter[str]:
    """What Spark reads, order aside."""
    return Counter(map(str, spark.read.format("delta").load(path).collect()))


def changes(spark: Any, frame: Any, path: str, limits: DriverLimits = SMALL, **do: str) -> Rows:
    """Rows of ``frame`` with what is to be done, by their numbers."""
    empty = spark.read.format("delta").load(path).limit(0)
    arrow = empty.union(frame).toArrow()
    words = [do.get(f"n{number}".replace("-", "_")) for number in arrow["n"].to_pylist()]
    return rows_in_driver(
        spark,
        arrow.append_column(ACTION, pa.array(words, pa.string())).filter(pa.compute.is_valid(words)),
        limits,
    )


def test_values_of_every_type_are_inserted_updated_and_deleted_as_by_spark(
    spark: Any, tmp_path: Path
) -> None:
    paths = {
        limits: made(spark, tmp_path, name) for name, limits in (("direct", SMALL), ("spark", DriverLimits()))
    }
    newer = rows(spark).selectExpr("`Key.Of`", *(f"`{name}`" for name in StructType.fromDDL(DDL).names[1:]))
    for limits, path in paths.items():
        for step, (frame, do) in enumerate(
            [
                (rows(spark).where("n <> 2"), {"n1": "inserted", "n3": "inserted", "n_4": "inserted"}),
                (
                    newer.withColumn("x", F.col("n") * 1.5),
                    {"n1": "updated", "n2": "inserted", "n3": "deleted"},
                ),
                (rows(spark), {"n3": "inserted", "n_4": "updated", "n2": "deleted"}),
            ]
        ):
            done = changes(spark, frame, path, limits, **do)
            delta_merge.write_changes(
                done,
                path,
                f"step {step}",
                key=["Key.Of"],
                numbers=done.count_by(ACTION),
            )
    direct, of_spark = paths.values()
    assert held(spark, direct) == held(spark, of_spark)
    assert len(held(spark, direct)) == 3
    engines = {path: {str(c.engine)[:8] for c in LogReader(path).commits(1)} for path in paths.values()}
    assert engines == {direct: {"delta-rs"}, of_spark: {"Apache-S"}}
    assert [c.user_metadata for c in LogReader(direct).commits(1)] == ["step 0", "step 1", "step 2"]


@pytest.mark.long
@pytest.mark.parametrize("key", ["Key.Of", "n", "day", "at", "price"])
def test_rows_of_some_groups_are_found_whatever_their_type(spark: Any, tmp_path: Path, key: str) -> None:
    path = made(spark, tmp_path)
    for part in ("n = 1", "n = 2", "n = 3", "n = -4"):
        rows(spark).where(part).write.format("delta").mode("append").save(path)
    for wanted in ([1], [3], [1, -4], [1, 2, 3, -4]):
        groups = rows(spark).where(F.col("n").isin(wanted)).select(f"`{key}`").toArrow()
        found = delta_rs.rows_with_keys(path, groups, SMALL)
        assert found is not None
        assert sorted(found["n"].to_pylist()) == sorted(wanted)
        assert found.schema == pa.schema(DeltaTable(path).schema())


@pytest.mark.long
def test_days_and_times_between_files_are_not_read(spark: Any, tmp_path: Path) -> None:
    """The file between two keys is not even there."""
    path = made(spark, tmp_path)
    for part in ("n = 1", "n = -4", "n = 2"):
        rows(spark).where(part).write.format("delta").mode("append").save(path)
    for uri in DeltaTable(path).file_uris():
        file = Path(uri)
        if spark.read.parquet(str(file)).where("n = -4").count():
            file.unlink()
    for key in ("Key.Of", "day", "at", "price"):
        groups = rows(spark).where("n in (1, 2)").select(f"`{key}`").toArrow()
        direct = delta_rs.open_table(path, SMALL)
        assert direct is not None
        if key == "price":  # of no type that bounds anything
            with pytest.raises(Exception, match=r"not found|No such file"):
                direct.rows_with_keys(groups)
        else:
            found = direct.rows_with_keys(groups)
            assert found is not None
            assert sorted(found["n"].to_pylist()) == [1, 2]


@pytest.mark.long
def test_spark_reads_the_feed_of_what_delta_rs_has_merged(spark: Any, tmp_path: Path) -> None:
    path = made(spark, tmp_path, delta__enableChangeDataFeed="true", delta__minWriterVersion="4")
    rows(spark).write.format("delta").mode("append").save(path)
    done = changes(spark, rows(spark), path, n1="updated", n2="deleted")
    delta_merge.write_changes(done, path, "x", key=["n"], numbers={"updated": 1, "deleted": 1})
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
    assert sorted((row.n, row._change_type) for row in feed.collect()) == [
        (1, "update_postimage"),
        (1, "update_preimage"),
        (2, "delete"),
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "limits"),
    [
        (lambda spark, t: None, DriverLimits(0, 1_000)),
        (lambda spark, t: spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT few CHECK (n < 100)"), SMALL),
        (
            lambda spark, t: spark.sql(
                f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            ),
            SMALL,
        ),
        (
            lambda spark, t: spark.sql(
                f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
            ),
            SMALL,
        ),
        (lambda spark, t: spark.sql(f"ALTER TABLE {t} CLUSTER BY (n)"), SMALL),
        (lambda spark, t: spark.sql(f"ALTER TABLE {t} ADD COLUMNS (code varchar(2))"), SMALL),
        (
            lambda spark, t: spark.sql(
                f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')"
            ),
            SMALL,
        ),
    ],
    ids=["never", "constraint", "deletion vectors", "mapping", "clustering", "varchar", "compacts itself"],
)
def test_a_table_that_delta_rs_would_not_write_as_spark_is_sparks(
    spark: Any, tmp_path: Path, spoil: Callable[[Any, str], Any], limits: DriverLimits
) -> None:
    path = made(spark, tmp_path)
    rows(spark).write.format("delta").mode("append").save(path)
    spoil(spark, f"delta.`{path}`")
    assert delta_rs.open_table(path, limits) is None
    assert not delta_rs.try_write(path, limits, "x", lambda table: pytest.fail("opened"))
    assert delta_rs.rows_with_keys(path, pa.table({"n": pa.array([1], pa.int32())}), limits) is None


@pytest.mark.long
def test_files_with_many_rows_are_left_to_spark_and_others_are_not_counted(
    spark: Any, tmp_path: Path
) -> None:
    path = made(spark, tmp_path)
    for part in ("n in (1, 2, 3)", "n = -4"):
        rows(spark).where(part).coalesce(1).write.format("delta").mode("append").save(path)
    few = DriverLimits(100, 2, fsync=False)
    for number, is_done in ((-4, True), (1, False)):
        groups = pa.table({"n": pa.array([number], pa.int32())})
        assert (delta_rs.rows_with_keys(path, groups, few) is not None) is is_done
        done = changes(spark, rows(spark), path, **{f"n{number}".replace("-", "_"): "deleted"}).arrow
        assert (
            delta_rs.try_write(path, few, "x", lambda t, done=done: t.change(done, "x", key=["n"])) is is_done
        )  # type: ignore[misc]
    assert sorted(row.n for row in spark.read.format("delta").load(path).collect()) == [1, 2, 3]


def test_a_table_of_many_files_is_sparks(spark: Any, tmp_path: Path) -> None:
    """Its checkpoint's hint says how many."""
    path = made(spark, tmp_path)
    DeltaTable(path).create_checkpoint()
    hint = Path(path) / "_delta_log" / "_last_checkpoint"
    told = json.loads(hint.read_text())
    assert delta_rs.open_table(path, SMALL) is not None
    hint.write_text(json.dumps({**told, "size": 100_001}))
    assert delta_rs.open_table(path, SMALL) is None


def test_a_write_that_delta_rs_refuses_is_left_to_spark(spark: Any, tmp_path: Path, capsys: Any) -> None:
    path = made(spark, tmp_path)
    wrong = pa.table({"n": pa.array(["x"])})
    assert not delta_rs.try_write(
        path, SMALL, "x", lambda table: table.table.merge(wrong, "no sql (").execute()
    )
    # A column that the table lacks would be left out without a word, and one that it has be null.
    more = pa.schema(DeltaTable(path).schema()).empty_table().append_column("more", [pa.array([], "int32")])
    for other in (more, more.drop_columns(["more", "n"])):
        assert not delta_rs.try_write(path, SMALL, "x", lambda table, rows=other: table.append(rows, "x"))
    assert LogReader(path).latest_version() == 0


@pytest.mark.long
def test_where_another_writer_has_compacted_first_the_write_is_done_anew(spark: Any, tmp_path: Path) -> None:
    path, seen = made(spark, tmp_path), []
    for part in ("n < 2", "n >= 2"):
        rows(spark).where(part).write.format("delta").mode("append").save(path)
    done = changes(spark, rows(spark).withColumn("x", F.col("n") * 2.0), path, n1="updated").arrow

    def late(table: DeltaRsTable) -> None:
        if not seen:
            DeltaTable(path).optimize.compact()
        seen.append(table.table.version())
        table.change(done, "mine", key=["n"])

    assert delta_rs.try_write(path, SMALL, "mine", late)
    assert seen == [2, 3]
    assert [c.user_metadata for c in LogReader(path).commits(4)] == ["mine"]
    found = spark.read.format("delta").load(path).where("n = 1").collect()
    assert [row.x for row in found] == [2.0]


def test_where_another_writer_has_changed_rows_first_nothing_is_written(spark: Any, tmp_path: Path) -> None:
    """What was worked out before that is not true any more."""
    path = made(spark, tmp_path)
    rows(spark).coalesce(1).write.format("delta").mode("append").save(path)
    done = changes(spark, rows(spark), path, n1="deleted", n2="updated").arrow

    def late(table: DeltaRsTable) -> None:
        DeltaTable(path).delete("n = 1")
        table.change(done, "mine", key=["n"])

    with pytest.raises(CommitFailedError):
        delta_rs.try_write(path, SMALL, "mine", late)
    assert LogReader(path).latest_version() == 2
    # Without a conflict, a row that is gone already stays gone.
    for limits in (SMALL, DriverLimits()):
        gone = rows_in_driver(spark, done, limits)
        delta_merge.write_changes(gone, path, str(limits), key=["n"], numbers={"deleted": 1, "updated": 1})
        assert sorted(row.n for row in spark.read.format("delta").load(path).collect()) == [-4, 2, 3]


@pytest.mark.long
def test_a_table_that_delta_rs_cannot_open_is_sparks(spark: Any, tmp_path: Path) -> None:
    path = made(spark, tmp_path)
    (Path(path) / "_delta_log" / f"{0:020}.json").write_text('{"metaData":')
    (Path(path) / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    assert not delta_rs.try_write(path, SMALL, "x", lambda table: pytest.fail("opened"))
    assert delta_rs.rows_with_keys(path, pa.table({"n": pa.array([1], pa.int32())}), SMALL) is None
    for name in ("a%20b", "late [a-z]", "ü"):
        assert delta_rs.open_table(made(spark, tmp_path, name), SMALL) is None


@pytest.mark.long
@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
def test_a_key_of_bytes_that_are_no_text_is_merged_once(
    spark: Any, tmp_path: Path, limits: DriverLimits
) -> None:
    """A binary key cast to text: bytes that no literal can say."""
    path = str(tmp_path / "t")
    one = spark.sql("select cast(x'ff01' as string) k, 1 v union all select 'a', 1")
    one.write.format("delta").save(path)
    want = spark.sql("select cast(x'ff01' as string) k, 2 v union all select 'a', 2")
    batch = MicroBatch("shop", "gold.t", "q", 1, ({"reservoirVersion": 3},), is_first=False)
    with SparkRows(want.select("k"), None, limits).kept() as groups:
        done = delta_merge.replace_groups(want, path, batch, {}, touched=groups, group=["k"], key=["k"])
    assert done == {"inserted": 0, "updated": 2, "deleted": 0}
    assert [row.v for row in spark.read.format("delta").load(path).collect()] == [2, 2]


@pytest.mark.long
@pytest.mark.parametrize("limits", [IN_DRIVER, NO_DRIVER], ids=["driver", "executors"])
def test_types_that_arrow_does_not_tell_apart_stay_what_they_are(spark: Any, limits: DriverLimits) -> None:
    frame = spark.sql(
        "select timestamp_ntz'2026-03-29 02:30:00' local, named_struct('at', timestamp_ntz'2026-01-01') s, "
        "timestamp'2026-01-01 00:00:00Z' at, 'x' text"
    )
    for once in (False, True):
        with SparkRows(frame, None, limits).kept(whole=once) as rows_of:
            assert rows_of.frame.dtypes == frame.dtypes
            assert rows_of.frame.collect() == frame.collect()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_commit_whose_answer_got_lost_is_not_made_twice(
    spark: Any, tmp_path: Path, *, is_there: bool
) -> None:
    path, calls = made(spark, tmp_path), []

    def silent(table: DeltaRsTable) -> None:
        calls.append(table)
        if is_there:
            table.append(None, "mine")
        raise CommitFailedError("no answer")

    assert delta_rs.try_write(path, SMALL, "mine", silent) is is_there
    assert len(calls) == (1 if is_there else 3)
    assert LogReader(path).latest_version() == (1 if is_there else 0)


@pytest.mark.long
def test_the_whole_table_is_replaced_and_nothing_is_a_commit_too(spark: Any, tmp_path: Path) -> None:
    path = made(spark, tmp_path)
    rows(spark).write.format("delta").mode("append").save(path)
    two = rows(spark).where("n > 1").toArrow()
    assert delta_rs.try_write(path, SMALL, "two", lambda table: table.append(two, "two", mode="overwrite"))
    assert held(spark, path) == Counter(map(str, rows(spark).where("n > 1").collect()))
    assert delta_rs.try_write(path, SMALL, "none", lambda table: table.append(None, "none"))
    newest = LogReader(path).commit(3)
    assert newest is not None
    assert (newest.user_metadata, newest.added, newest.removed) == ("none", (), ())


@pytest.mark.long
def test_numbers_of_a_price_stay_exact(spark: Any, tmp_path: Path) -> None:
    path = made(spark, tmp_path)
    delta_rs.try_write(path, SMALL, "x", lambda table: table.append(rows(spark).toArrow(), "x"))
    prices = {row.price for row in spark.read.format("delta").load(path).collect()}
    assert prices == {Decimal("1.25"), Decimal("-0.01"), Decimal("9999999999.99"), None}


@pytest.mark.long
def test_a_commit_of_somebody_else_meanwhile_is_no_obstacle_to_an_append(spark: Any, tmp_path: Path) -> None:
    path = made(spark, tmp_path)

    def after_another(table: DeltaRsTable) -> None:
        one = rows(spark).where("n = 1").toArrow()
        write_deltalake(
            path, one, mode="append", commit_properties=CommitProperties({"userMetadata": "other"})
        )
        table.append(rows(spark).where("n = 2").toArrow(), "mine")

    assert delta_rs.try_write(path, SMALL, "mine", after_another)
    assert [c.user_metadata for c in LogReader(path).commits(1)] == ["other", "mine"]
    assert len(held(spark, path)) == 2


@pytest.mark.parametrize("left", [0, 40])
def test_a_newest_commit_that_a_power_cut_left_without_its_text_is_taken_back(
    spark: Any, tmp_path: Path, left: int
) -> None:
    path = made(spark, tmp_path)
    for told in ("one", "two"):
        delta_rs.try_write(path, SMALL, told, lambda t, told=told: t.append(rows(spark).toArrow(), told))  # type: ignore[misc]
    delta_rs.roll_back_torn_commit(path)
    assert LogReader(path).latest_version() == 2
    newest = Path(path) / "_delta_log" / f"{2:020}.json"
    newest.write_bytes(newest.read_bytes()[:left])
    delta_rs.roll_back_torn_commit(path)
    assert LogReader(path).latest_version() == 1
    assert held(spark, path) == Counter(map(str, rows(spark).collect()))
    assert delta_rs.try_write(path, SMALL, "two", lambda t: t.append(rows(spark).toArrow(), "two"))
    assert len(list(spark.read.format("delta").load(path).collect())) == 8


@pytest.mark.long
@pytest.mark.parametrize("limits", [SMALL, DriverLimits()])
def test_small_files_are_put_together_where_there_are_two(
    spark: Any, tmp_path: Path, limits: DriverLimits
) -> None:
    """Each row stays; with nothing to do there is no commit."""
    path = made(spark, tmp_path)
    delta_table.append_with_metadata(rows(spark).coalesce(1), path, "{}")
    compaction.compact(spark, path, "{}", limits=limits)
    assert LogReader(path).latest_version() == 1
    delta_table.append_with_metadata(rows(spark).coalesce(1), path, "{}")
    before = held(spark, path)
    compaction.compact(spark, path, '{"by": "compaction"}', limits=limits)
    assert held(spark, path) == before
    assert len(DeltaTable(path).file_uris()) == 1
    commit = LogReader(path).commit(3)
    assert commit is not None
    assert (commit.operation, commit.metadata) == ("OPTIMIZE", {"by": "compaction"})


@pytest.mark.long
def test_one_small_file_is_nobodys_job(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(spark, tmp_path)
    delta_table.append_with_metadata(rows(spark).coalesce(1), path, "{}")
    asked: list[str] = []
    monkeypatch.setattr(type(spark), "sql", lambda _, text: asked.append(text))
    compaction.compact(spark, path, "{}", limits=SMALL)
    assert asked == []
    compaction.compact(spark, path, "{}")
    assert len(asked) == 1
