"""Tables that a function of the user's own writes: each write once, and no setting left for another."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Custom, Pipeline, Reading, Topic
from common.delta import table as delta_table
from common.delta.user_writes import APPLICATION, VERSION
from common.errors import ChangeRefusedError, CheckpointMismatchError, PipelineError, QueryFailedError
from gold.custom import Writer, build_query
from gold.table.context import Context
from tests.conftest import make_settings
from tests.support.engine import Engine, batch

SCHEMA = "id bigint, country string, amount bigint"
ORDERS = [
    [(1, "de", 10), (2, "fr", 20), (3, None, 30)],
    [(4, "de", 1), (5, None, 2), (6, "it", 3)],
    [(7, "fr", 100), (8, "fr", 200), (2, "fr", 20)],
]
ALL = [row for rows in ORDERS for row in rows]
TABLES = {
    "every": "id bigint, country string, amount bigint",
    "by_country": "country string, amount bigint",
    "newest": "batch bigint, rows bigint",
    "ids": "id bigint, big boolean",
}


def write_all(rows: DataFrame, gold: Writer) -> None:
    """Four tables in every way that there is, two writes into one of them."""
    gold.append(rows.where("amount < 100"), "every", step="small")
    gold.append(rows.where("amount >= 100"), "every", step="large")
    sums = rows.groupBy("country").agg(F.sum("amount").alias("amount"))
    gold.sql(
        "MERGE INTO {by_country} t USING {sums} s ON t.country <=> s.country "
        "WHEN MATCHED THEN UPDATE SET amount = t.amount + s.amount WHEN NOT MATCHED THEN INSERT *",
        "by_country",
        sums=sums,
    )
    gold.overwrite(
        gold.spark.createDataFrame([(gold.batch_id, gold.read("every").count())], TABLES["newest"]), "newest"
    )
    with gold.once("ids", "api"):
        target = gold.delta_table("ids").alias("t")
        target.merge(
            rows.selectExpr("id", "amount >= 100 big").alias("s"), "t.id = s.id"
        ).whenNotMatchedInsertAll().execute()


def pipeline(write: Callable[[DataFrame, Writer], None], tables: dict[str, str], name: str) -> Pipeline:
    """One function over silver."""
    custom = Custom(name, reads="silver.orders", write=write, tables=tables)
    return Pipeline("shop", bronze=[Topic("orders")], gold=[custom])


def started(spark: Any, folder: Path, declared: Pipeline, batches: int = 3) -> Engine:
    """Silver with some commits, gold not run yet; a commit is a micro-batch."""
    engine = Engine(spark, declared, make_settings(folder, "none:1", "gold.max_files_per_trigger=1"))
    for rows in ORDERS[:batches]:
        engine.append("silver.orders", rows, SCHEMA)
    return engine


class Direct:
    """A function whose micro-batches are handed to it here, without a query around them."""

    def __init__(
        self, engine: Engine, name: str, write: Callable[[DataFrame, Writer], None], tables: dict[str, str]
    ) -> None:
        self.engine, self.spark = engine, engine.spark
        custom = Custom(name, reads="silver.orders", write=write, tables=tables)
        declared = Pipeline("shop", bronze=[Topic("orders")], gold=[custom])
        self.query = custom.table
        self.stream = build_query(Context(self.spark, declared, engine.settings, engine.layout), custom)

    def batch(self, batch_id: int, rows: list[Any]) -> None:
        """One micro-batch."""
        self.stream.write(self.spark.createDataFrame(rows, SCHEMA), batch(batch_id, query=self.query))


def found(engine: Engine, table: str) -> Counter[tuple[Any, ...]]:
    """A table's rows, as a multiset."""
    return Counter(tuple(row.values()) for row in engine.rows(f"gold.{table}"))


def applications(engine: Engine, table: str) -> Counter[tuple[str, int]]:
    """The transaction ids in a table's log, without the query's id."""
    told: list[tuple[str, int]] = []
    for file in sorted((Path(engine.path(table)) / "_delta_log").glob("*.json")):
        actions = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        told += [
            (action["txn"]["appId"].rpartition("/")[0], action["txn"]["version"])
            for action in actions
            if "txn" in action
        ]
    return Counter(told)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Three micro-batches, each of which is replayed once."""
    engine = started(spark, tmp_path_factory.mktemp("custom"), pipeline(write_all, TABLES, "every"), 1)
    for rows in [*ORDERS[1:], None]:
        engine.run("gold")
        engine.undo_last_commit("gold.every")
        engine.run("gold")
        if rows is not None:
            engine.append("silver.orders", rows, SCHEMA)
    return engine


@pytest.fixture(scope="module")
def silver(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A silver table that no query has read."""
    return started(spark, tmp_path_factory.mktemp("direct"), pipeline(write_all, TABLES, "every"), 1)


@pytest.mark.long
def test_every_write_of_every_micro_batch_is_there_once(ran: Engine) -> None:
    """By DataFrame, SQL and DeltaTable; two steps on one table; each batch came twice."""
    assert found(ran, "every") == Counter(ALL)
    sums: Counter[str | None] = Counter()
    for _, country, amount in ALL:
        sums[country] += amount
    assert found(ran, "by_country") == Counter(list(sums.items()))
    assert found(ran, "newest") == Counter([(2, len(ALL))])
    assert found(ran, "ids") == Counter({(id_, amount >= 100) for id_, _, amount in ALL})


@pytest.mark.long
def test_each_write_is_named_by_table_and_step_and_its_commit_tells_it(ran: Engine) -> None:
    steps = {"every": ["small", "large"], "by_country": ["sql"], "newest": ["overwrite"], "ids": ["api"]}
    for table, names in steps.items():
        wanted = Counter((f"shop/gold.every/{table}/{step}", batch) for step in names for batch in range(3))
        assert applications(ran, f"gold.{table}") == wanted
        told = [(one["query"], one["batch_id"], one["step"]) for one in ran.commits(f"gold.{table}")]
        assert Counter(told) == Counter(("gold.every", batch, step) for batch in range(3) for step in names)


@pytest.mark.long
def test_a_lost_or_a_foreign_checkpoint_is_refused(ran: Engine) -> None:
    """Begun anew, the function would write everything again; the tables beside the first are asked too."""
    versions = {table: ran.version(f"gold.{table}") for table in TABLES}
    folder, aside = ran.checkpoint("gold.every"), ran.checkpoint("gold.every").with_name("aside")
    folder.rename(aside)
    try:
        with pytest.raises(CheckpointMismatchError, match=r"gold\.every: .* is gone"):
            ran.run("gold")
        Path(ran.path("gold.every")).rename(ran.path("gold.every") + "_aside")
        try:
            with pytest.raises(CheckpointMismatchError, match=r"gold\.by_country: .* is gone"):
                ran.run("gold")
        finally:
            Path(ran.path("gold.every") + "_aside").rename(ran.path("gold.every"))
        folder.mkdir()
        (folder / "metadata").write_text('{"id":"another"}', encoding="utf-8")
        with pytest.raises(CheckpointMismatchError, match=r"written by query .* that of query another"):
            ran.run("gold")
        ran.remove(folder)
    finally:
        aside.rename(folder)
    ran.run("gold")
    assert {table: ran.version(f"gold.{table}") for table in TABLES} == versions


def die_if(condition: bool) -> None:  # noqa: FBT001  # it reads as what it does
    """What a function's own mistake looks like."""
    if condition:
        raise ValueError("died")


def test_nothing_is_left_behind_by_a_write_that_fails(silver: Engine) -> None:
    """Of two steps and two tables, dying inside ``once`` again and again, each write is there once."""
    deaths = ["before", "between", "after"]
    left: list[tuple[Any, Any]] = []

    def write(rows: DataFrame, gold: Writer) -> None:
        left.append((gold.spark.conf.get(APPLICATION, None), gold.spark.conf.get(VERSION, None)))
        death = deaths[0] if deaths and gold.batch_id == 1 else ""
        try:
            with gold.once("a_death", "one"):
                die_if(death == "before")
                rows.write.format("delta").mode("append").save(gold.path("a_death"))
                die_if(death == "between")
        except ValueError:
            # A function that goes on all the same: what it then writes must not be skipped.
            deaths.pop(0)
            with gold.once("beside", f"after {death}"):
                rows.write.format("delta").mode("append").save(gold.path("beside"))
            raise
        gold.append(rows, "a_death", step="two")
        gold.append(rows, "beside")
        gold.spark.conf.set(APPLICATION, "left by the function itself")
        gold.spark.conf.set(VERSION, "99")
        if death == "after":
            deaths.pop(0)
        die_if(death == "after")

    direct = Direct(silver, "a_death", write, {"a_death": SCHEMA, "beside": SCHEMA})
    direct.batch(0, ORDERS[0])
    for _ in range(3):
        with pytest.raises(ValueError, match="died"):
            direct.batch(1, ORDERS[1])
    direct.batch(1, ORDERS[1])
    direct.batch(2, ORDERS[2])
    assert deaths == []
    assert set(left) == {(None, None)}
    assert found(silver, "a_death") == Counter(ALL * 2)
    # The two writes that came after a death are writes of their own.
    assert found(silver, "beside") == Counter(ALL + ORDERS[1] * 2)
    settings = direct.spark.conf
    assert [settings.get(name, None) for name in (APPLICATION, VERSION)] == [None, None]


@pytest.mark.long
def test_three_queries_at_once_do_not_skip_each_others_writes(spark: Any, tmp_path: Path) -> None:
    """All three are inside of ``once``, of one step name, at the same moment, in every micro-batch."""
    meeting = threading.Barrier(3, timeout=60)

    def write(table: str) -> Callable[[DataFrame, Writer], None]:
        def do(rows: DataFrame, gold: Writer) -> None:
            with gold.once(table, "same"):
                meeting.wait()
                rows.write.format("delta").mode("append").save(gold.path(table))
                meeting.wait()
            gold.merge(rows.dropDuplicates(["id"]), f"{table}_merged", on=["id"])

        return do

    customs = [
        Custom(
            name,
            reads="silver.orders",
            write=write(name),
            tables={name: SCHEMA, f"{name}_merged": SCHEMA},
        )
        for name in ("a", "b", "c")
    ]
    declared = Pipeline("shop", bronze=[Topic("orders")], gold=customs)
    engine = started(spark, tmp_path, declared, 2)
    engine.run("gold")
    rows = Counter(ORDERS[0] + ORDERS[1])
    for name in ("a", "b", "c"):
        assert found(engine, name) == rows
        assert found(engine, f"{name}_merged") == rows
        assert applications(engine, f"gold.{name}") == Counter(
            [(f"shop/gold.{name}/{name}/same", number) for number in range(2)]
        )


def test_a_merge_deletes_updates_and_inserts_and_leaves_equal_rows_alone(silver: Engine) -> None:
    def write(rows: DataFrame, gold: Writer) -> None:
        last = rows.groupBy("country").agg(F.max("amount").alias("amount"))
        gold.merge(last, "top", on=["country"], update_when="s.amount > t.amount", delete_when="s.amount = 3")

    direct = Direct(silver, "top", write, {"top": "country string, amount bigint"})
    direct.batch(0, ORDERS[0])
    files = silver.files("gold.top")
    direct.batch(1, [(9, "de", 10), (9, "fr", 19), (9, "at", 3)])
    assert silver.files("gold.top") == files  # older, equal, or to be deleted and not there
    direct.batch(2, [(9, None, 31), (9, "it", 4)])
    direct.batch(3, [(9, "it", 3)])
    assert found(silver, "top") == Counter([("de", 10), ("fr", 20), (None, 31)])


WRONG: dict[str, tuple[Callable[[DataFrame, Writer], None], type[Exception], str]] = {
    "one step twice": (
        lambda rows, gold: [gold.append(rows, "a"), gold.append(rows, "a")],  # type: ignore[list-item, return-value, func-returns-value]
        PipelineError,
        "writes 'a' twice as step 'append'",
    ),
    "an unknown table": (
        lambda rows, gold: gold.append(rows, "aa"),
        PipelineError,
        "'aa' is none of its tables; did you mean 'a'",
    ),
    "an unknown word": (
        lambda rows, gold: gold.sql("INSERT INTO {c} SELECT 1", "a"),
        PipelineError,
        r"SQL names \{c\}, which is neither",
    ),
    "a key twice": (
        lambda rows, gold: gold.merge(rows.withColumn("country", F.lit("de")), "a", on=["country"]),
        ChangeRefusedError,
        "3 rows are to be merged by country, and they have 1 keys only",
    ),
    "past once": (
        lambda rows, gold: rows.write.format("delta").mode("append").save(gold.path("b")),
        QueryFailedError,
        r"wrote version \d of gold\.b outside of once",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_would_be_skipped_or_doubled_is_an_error(silver: Engine, case: str) -> None:
    write, kind, told = WRONG[case]
    direct = Direct(silver, "a", write, {"a": SCHEMA, "b": SCHEMA})
    with pytest.raises(kind, match=told):
        direct.batch(list(WRONG).index(case), ORDERS[0])


def test_two_writes_in_one_once_and_one_inside_another_are_errors(silver: Engine) -> None:
    said: list[str] = []

    def write(rows: DataFrame, gold: Writer) -> None:
        try:
            with gold.once("twice", "both"):
                rows.write.format("delta").mode("append").save(gold.path("twice"))
                rows.write.format("delta").mode("append").save(gold.path("twice"))
        except Exception as error:  # noqa: BLE001  # Delta's own
            said.append(str(error))
        try:
            with gold.once("twice", "outer"):
                gold.append(rows, "twice")
        except PipelineError as error:
            said.append(str(error))

    Direct(silver, "twice", write, {"twice": SCHEMA}).batch(0, ORDERS[0])
    assert "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS" in said[0]
    assert "once('twice', 'append') is inside of once('twice', 'outer')" in said[1]
    assert found(silver, "twice") == Counter(ORDERS[0])


def test_a_batch_that_writes_nothing_leaves_its_mark_in_every_table(silver: Engine) -> None:
    direct = Direct(silver, "idle", lambda rows, gold: None, {"idle": SCHEMA, "idler": SCHEMA})
    for again in (0, 1, 1):
        direct.batch(again, ORDERS[0])
    for table in ("gold.idle", "gold.idler"):
        assert [(one["batch_id"], one["step"]) for one in silver.commits(table)] == [(0, "mark"), (1, "mark")]
        assert silver.rows(table) == []


@pytest.mark.long
def test_the_feed_tells_a_function_what_silver_took_back(spark: Any, tmp_path: Path) -> None:
    kinds: list[list[str]] = []

    def write(rows: DataFrame, gold: Writer) -> None:
        kinds.append(sorted(row["_change_type"] for row in rows.select("_change_type").collect()))
        gold.merge(
            rows.where("_change_type <> 'update_preimage'"),
            "kept",
            on=["id"],
            delete_when="s._change_type = 'delete'",
        )

    declared = Pipeline(
        "shop",
        bronze=[Topic("orders")],
        gold=[
            Custom(
                "kept",
                reads="silver.orders",
                write=write,
                tables={"kept": SCHEMA},
                reading=Reading(changes="feed"),
            )
        ],
    )
    engine = started(spark, tmp_path, declared, 0)
    path = engine.path("silver.orders")
    schema = spark.createDataFrame([], SCHEMA).schema
    delta_table.ensure(spark, "silver.orders", path, schema, {"delta.enableChangeDataFeed": "true"})
    engine.append("silver.orders", ORDERS[0], SCHEMA)
    engine.run("gold")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    spark.sql(f"UPDATE delta.`{path}` SET amount = 11 WHERE id = 1")
    engine.run("gold")
    assert found(engine, "kept") == Counter([(1, "de", 11), (3, None, 30)])
    assert kinds[0] == ["insert"] * 3
    assert sorted(kind for one in kinds[1:] for kind in one) == [
        "delete",
        "update_postimage",
        "update_preimage",
    ]


@pytest.mark.long
def test_a_function_over_two_tables_runs_for_each_of_them(spark: Any, tmp_path: Path) -> None:
    """It sees the other table at the version that its micro-batch has read."""
    ran: list[tuple[int, int]] = []

    def write(rows: DataFrame, gold: Writer) -> None:
        others = gold.source("silver.others")
        ran.append((rows.count(), others.count()))
        gold.overwrite(gold.source("silver.orders").join(others, "country").select(*names), "both")

    names = ["id", "country", "amount"]
    custom = Custom(
        "both", reads="silver.orders", write=write, tables={"both": SCHEMA}, also_reads=["silver.others"]
    )
    declared = Pipeline("shop", bronze=[Topic("orders")], gold=[custom])
    engine = started(spark, tmp_path, declared, 0)
    for table, rows, schema in (
        ("silver.orders", ORDERS[0], SCHEMA),
        ("silver.others", [("de",)], "country string"),
    ):
        engine.append(table, rows, schema)
    engine.run("gold")
    engine.append("silver.others", [("fr",)], "country string")
    engine.run("gold")
    assert found(engine, "both") == Counter([(1, "de", 10), (2, "fr", 20)])
    engine.append("silver.orders", ORDERS[2], SCHEMA)
    engine.run("gold")
    assert ran == [(3, 1), (0, 2), (3, 2)]
    fr = [(7, "fr", 100), (8, "fr", 200), (2, "fr", 20)]
    assert found(engine, "both") == Counter([(1, "de", 10), (2, "fr", 20), *fr])
