"""A Delta table as a source: each row once and typed, through kills, restarts and changes of the source."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from delta.tables import DeltaTable as Target

from common.declare import Aggregate, Columns, DeltaTable, Pipeline, Reading, Silver, Upsert, Window
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.table import ERASED
from common.errors import (
    CheckpointMismatchError,
    ForeignChangeError,
    HistoryGoneError,
    MedallionError,
    PipelineError,
    TableMissingError,
    TableShapeError,
    UsageError,
)
from orchestration.access.query.record_place import Place
from orchestration.change.plan.plan import plan
from orchestration.change.recover import accept_versions
from orchestration.change.recover.carry_out import accept_all_gaps, recover_all
from orchestration.cli.change.recover_output import gap_line
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.records.audit.accepted_gaps import read_gaps
from orchestration.records.audit.audit import audit
from orchestration.records.erasure.erase import planned
from orchestration.records.trace.trace import Trace
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine

NAME = "bronze.history"
SCHEMA = "id bigint, customer string, amount decimal(9,2), at timestamp"


def orders(numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """Rows of orders; every seventh has no amount."""
    return [
        (
            number,
            f"c{number % 3}",
            None if number % 7 == 0 else Decimal(number) / 4,
            datetime(2026, 1, 1, number // 60 % 24, number % 60, tzinfo=UTC),
        )
        for number in numbers
    ]


class Source:
    """A Delta table that another program writes."""

    def __init__(self, spark: Any, path: Path, schema: str = SCHEMA, **properties: str) -> None:
        self.spark, self.path = spark, str(path)
        builder = (
            Target.create(spark).location(self.path).addColumns(spark.createDataFrame([], schema).schema)
        )
        for name, value in properties.items():
            builder = builder.property(f"delta.{name}", value)
        builder.execute()

    def add(self, numbers: Sequence[int], files: int = 1) -> None:
        """One commit of some files."""
        rows = self.spark.createDataFrame(orders(numbers), SCHEMA)
        rows.repartition(files).write.format("delta").mode("append").save(self.path)

    def sql(self, statement: str) -> None:
        """A statement about the table, which is ``{t}`` in it."""
        self.spark.sql(statement.format(t=f"delta.`{self.path}`"))


def silver(**changes: Any) -> Silver:
    """Orders of the table."""
    given: dict[str, Any] = {
        "name": "orders",
        "reads": NAME,
        "value": Columns(SCHEMA),
        "columns": {"id": "id", "customer": "customer", "amount": "amount", "at": "at"},
        "key": ["id"],
        "event_time": "at",
        "watermark": "2 days",
    }
    return Silver(**given | changes)


GOLD = Upsert("latest", "silver.orders", key=["customer"], newest_by=["at"], columns=["customer", "id", "at"])


def engine_of(spark: Any, folder: Path, source: Source, *, of: Silver | None = None, **given: Any) -> Engine:
    """A pipeline of the table, without a broker."""
    declared = DeltaTable("history", source.path, **given)
    pipeline = Pipeline(name="shop", bronze=[declared], silver=[of or silver()], gold=[GOLD])
    return Engine(spark, pipeline, make_settings(folder, "none:1", "spark.shuffle_partitions=1"))


def bronze(engine: Engine) -> list[dict[str, Any]]:
    """The source's columns in bronze by offset; checks that the offsets are dense, and all other columns."""
    rows = sorted(engine.rows(NAME), key=lambda row: int(row["offset"]))
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    places = []
    for row in rows:
        assert (row["topic"], row["partition"], row["key"]) == ("delta:history", 0, None)
        headers = {one["key"]: int(one["value"]) for one in row["headers"]}
        places.append((headers["batch"], headers["row"]))
    assert places == sorted(set(places))
    return [row["value"] for row in rows]


def check(engine: Engine, numbers: Sequence[int]) -> None:
    """Bronze, silver and gold have these orders with their values, by an account made here."""
    expected = {row[0]: row for row in orders(numbers)}
    found = [(row["id"], row["customer"], row["amount"], row["at"]) for row in bronze(engine)]
    assert Counter(found) == Counter(expected.values())
    rows = [(row["id"], row["customer"], row["amount"], row["at"]) for row in engine.rows("silver.orders")]
    assert Counter(rows) == Counter(expected.values())
    newest = {f"c{n % 3}": n for n in sorted(numbers)}
    assert {row["customer"]: row["id"] for row in engine.rows("gold.latest")} == newest
    assert engine.faults() == ()


def test_each_row_is_read_once_over_restarts(spark: Any, tmp_path: Path) -> None:
    """Micro-batches end inside of a commit, also of the first state; commits come while no job runs."""
    properties = {"enableDeletionVectors": "true", "columnMapping.mode": "name", "checkpointInterval": "2"}
    source = Source(spark, tmp_path / "source", **properties)
    source.add(range(6), files=3)
    source.add(range(6, 9))
    engine = engine_of(spark, tmp_path, source, max_files_per_trigger=1)
    engine.run("bronze", stop_after=2)
    assert 0 < len(bronze(engine)) < 9
    engine.run()
    source.add(range(9, 20), files=4)
    source.sql("OPTIMIZE {t}")
    source.add([20])
    engine.run()
    engine.run()
    check(engine, range(21))


@pytest.mark.long
def test_a_first_load_by_event_time_leaves_no_row_late(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest events come first, and a file is a micro-batch from end to end; a later commit goes on."""
    monkeypatch.setattr("bronze.typed_query.FILE_BYTES", 1)
    monkeypatch.setattr("bronze.typed_query.MOST_FILES", 3)
    source = Source(spark, tmp_path / "source")
    for first in (20, 10, 0):
        source.add(range(first, first + 10))
    by_minute = Aggregate(
        "by_minute",
        reads="silver.orders",
        measures={"n": "count(*)"},
        window=Window("at", "1 minute"),
        mode="update",
        watermark="10 seconds",
        max_files_per_trigger=1,
    )
    ordered = replace(by_minute, name="ordered", reading=Reading(event_time_order=True))
    of = silver(watermark="10 seconds", max_files_per_trigger=1)

    def ran(name: str, gold: Sequence[Aggregate], **given: Any) -> Engine:
        (tmp_path / name).mkdir(exist_ok=True)
        declared = DeltaTable("history", source.path, max_files_per_trigger=1, **given)
        pipeline = Pipeline(name="shop", bronze=[declared], silver=[of], gold=gold)
        settings = make_settings(tmp_path / name, "none:1", "spark.shuffle_partitions=1")
        engine = Engine(spark, pipeline, settings)
        engine.run()
        return engine

    by_file = ran("by_file", [by_minute, ordered])
    by_event = ran("by_event", [by_minute], event_time_order="at + interval 1 day")
    assert len(by_file.rows("gold.by_minute")) < 30, "the order of files leaves rows late"
    assert sum(one["counts"]["late"] for one in by_event.commits("silver.orders")) == 0
    assert len(by_event.files(NAME)) > 1, "one file would have any order"
    source.add([30, 31], files=2)
    by_event.run()
    assert [row["id"] for row in bronze(by_event)][:30] == list(range(30))
    assert len(by_event.commits(NAME)) == 3, "the whole first state at once, then a file per micro-batch"
    for table, rows in ((by_file.rows("gold.ordered"), 30), (by_event.rows("gold.by_minute"), 32)):
        expected = Counter(row[3] for row in orders(range(rows)))
        assert {row["window_start"]: row["n"] for row in table} == expected
    assert by_event.faults() == by_file.faults() == ()
    # After an erasure no commit is read again, and the remedy that the error names reads the table as it is.
    path = by_file.path("silver.orders")
    delta_table.set_property(
        spark, path, delta_table.maintenance_metadata("shop", "silver.orders", "repair"), ERASED, "2026-01-01"
    )
    with pytest.raises(HistoryGoneError, match=r"Reading\(event_time_order=True\)"):
        ran("by_file", [replace(by_minute, name="later")])
    late = ran("by_file", [replace(ordered, name="later")])
    assert sum(row["n"] for row in late.rows("gold.later")) == 32


def test_an_order_that_does_not_fit_the_source_is_refused(spark: Any, tmp_path: Path) -> None:
    source = Source(spark, tmp_path / "source")
    with pytest.raises(PipelineError, match=r"event_time_order 'att' does not fit the Delta table in"):
        engine_of(spark, tmp_path, source, event_time_order="att").run("bronze")


@pytest.mark.long
@pytest.mark.parametrize("done_first", [0, 1])
def test_kills_at_every_write_lose_and_double_nothing(spark: Any, tmp_path: Path, done_first: int) -> None:
    """Each write of three layers in turn is not done before its process ends, or is the last it does."""
    source = Source(spark, tmp_path / "source")
    for first in range(0, 12, 4):
        source.add(range(first, first + 4), files=2)
    engine = engine_of(spark, tmp_path, source, max_files_per_trigger=2)
    kills = {number: number % 2 == done_first for number in range(14)}
    assert run_through_crashes(engine.run, kills) > 8
    check(engine, range(12))


@pytest.mark.long
def test_types_are_kept_as_they_are(spark: Any, tmp_path: Path) -> None:
    """Nested types, and wider types in silver; a partitioned source of another program."""
    schema = (
        "id int, small smallint, d date, ok boolean, bin binary, ratio float, tags array<string>, "
        "place struct<x: int, weird: array<struct<n: int>>>, facts map<string, bigint>, `Große-Zahl` bigint"
    )
    day = datetime(2026, 1, 2, tzinfo=UTC).date()
    rows = [
        (1, 2, day, True, bytearray(b"\x00\xff"), 0.5, ["a", None], (3, [(4,)]), {"k": 2**40}, 2**62),
        (2, *[None] * 9),
    ]
    spark.createDataFrame(rows, schema).write.format("delta").partitionBy("ok").save(str(tmp_path / "s"))
    of = silver(
        value=Columns(
            "id bigint, small decimal(7,1), ratio double, place struct<x: bigint>, tags array<string>"
        ),
        columns={
            "id": "id",
            "small": "small",
            "ratio": "ratio",
            "x": "place.x",
            "tag": "tags[0]",
            "at": "_kafka.timestamp",
        },
    )
    declared = DeltaTable("history", str(tmp_path / "s"))
    pipeline = Pipeline(name="shop", bronze=[declared], silver=[of])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    engine.run("bronze", "silver")
    found = {value["id"]: value for value in bronze(engine)}
    assert found[1]["bin"] == b"\x00\xff"
    assert found[1]["place"] == {"x": 3, "weird": [{"n": 4}]}
    assert dict(found[1]["facts"]) == {"k": 2**40}
    assert (found[1]["d"], found[1]["tags"], found[1]["Große-Zahl"]) == (day, ["a", None], 2**62)
    assert {name: value for name, value in found[2].items() if value is not None} == {"id": 2}
    rows_found = {row["id"]: row for row in engine.rows("silver.orders")}
    assert rows_found[1]["small"] == Decimal("2.0")
    assert (rows_found[1]["ratio"], rows_found[1]["x"], rows_found[1]["tag"]) == (0.5, 3, "a")
    assert rows_found[2]["x"] is None
    assert engine.faults() == ()


@pytest.mark.long
def test_rejected_rows_keep_their_columns_and_can_be_erased(spark: Any, tmp_path: Path) -> None:
    """A typed row goes to quarantine by a rule, with its columns; an erasure takes it from all tables."""
    from common.declare import Rule

    source = Source(spark, tmp_path / "source")
    source.add(range(8))
    of = silver(rules=[Rule("has_amount", "amount is not null", on_fail="quarantine")])
    engine = engine_of(spark, tmp_path, source, of=of)
    engine.run()
    aside = engine.rows("silver.orders__quarantine")
    assert sorted(row["value"]["id"] for row in aside) == [0, 7]
    assert engine.faults() == ()
    where = "id in (1, 7)"
    with planned(spark, engine.pipeline, of, engine.layout, where, is_dry_run=False) as erasure:
        erasure.carry_out(lambda text: None)
    left = sorted(value["id"] for row in engine.rows(NAME) if (value := row["value"]))
    assert left == [0, 2, 3, 4, 5, 6]
    assert [row["value"]["id"] for row in engine.rows("silver.orders__quarantine")] == [0]
    assert engine.faults() == ()
    source.add([8, 9])
    engine.run()
    assert sorted(row["offset"] for row in engine.rows(NAME))[-2:] == [8, 9]
    assert engine.faults() == ()


@pytest.mark.long
def test_updates_and_deletions_of_the_source_stop_until_the_declaration_says(
    spark: Any, tmp_path: Path
) -> None:
    """By default a stop that names the version; after that as declared, from the same checkpoint."""
    source = Source(spark, tmp_path / "source")
    source.add(range(4))
    engine = engine_of(spark, tmp_path, source)
    engine.run()
    source.sql("UPDATE {t} SET amount = 100 WHERE id = 1")
    with pytest.raises(ForeignChangeError, match=r"version 2 of .*source has updated or deleted.*appends"):
        engine.run()
    check(engine, range(4))
    source.add([4])
    with pytest.raises(ForeignChangeError):
        engine_of(spark, tmp_path, source, changes="ignore_deletes").run()
    skipping = engine_of(spark, tmp_path, source, changes="appends")
    skipping.run()
    check(skipping, range(5))


@pytest.mark.long
def test_ignored_changes_read_rewritten_rows_again(spark: Any, tmp_path: Path) -> None:
    """Bronze has both rows of an order that was rewritten with its file; silver has each order once."""
    source = Source(spark, tmp_path / "source")
    source.add(range(4))
    engine = engine_of(spark, tmp_path, source, changes="ignore_changes")
    engine.run()
    source.sql("UPDATE {t} SET amount = 100 WHERE id = 1")
    engine.run()
    assert Counter(value["id"] for value in bronze(engine)) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert sorted(row["id"] for row in engine.rows("silver.orders")) == [0, 1, 2, 3]
    assert engine.faults() == ()


@pytest.mark.long
def test_a_change_data_feed_has_each_change_once(spark: Any, tmp_path: Path) -> None:
    """The first state as insertions, then each change with its kind, version and time."""
    source = Source(spark, tmp_path / "source", enableChangeDataFeed="true")
    source.add(range(3))
    of = silver(
        value=Columns(),
        columns={
            "id": "id",
            "amount": "amount",
            "kind": "_change_type",
            "version": "_commit_version",
            "at": "_commit_timestamp",
        },
        key=["id", "version", "kind"],
        where="_change_type <> 'update_preimage'",
    )
    pipeline = Pipeline(name="shop", bronze=[DeltaTable("history", source.path, changes="feed")], silver=[of])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    engine.run("bronze", "silver")
    source.sql("UPDATE {t} SET amount = 100 WHERE id = 1")
    source.sql("DELETE FROM {t} WHERE id = 2")
    engine.run("bronze", "silver")
    found = Counter((row["id"], row["kind"]) for row in engine.rows("silver.orders"))
    inserted = {(number, "insert"): 1 for number in range(3)}
    assert found == inserted | {(1, "update_postimage"): 1, (2, "delete"): 1}
    assert len(bronze(engine)) == 6
    assert engine.faults() == ()


@pytest.mark.long
def test_reading_begins_where_it_is_declared(spark: Any, tmp_path: Path) -> None:
    """At a version, at a time, or with what comes after the first start, also if that read nothing."""
    source = Source(spark, tmp_path / "source")
    source.add([0, 1])
    source.add([2])
    ends = {}
    moment = Target.forPath(spark, source.path).history(1).collect()[0]["timestamp"]
    for name, given in (
        ("version", {"starting_version": 2}),
        ("time", {"starting_timestamp": f"{moment:%Y-%m-%d %H:%M:%S.%f}"}),
        ("latest", {"starting_version": "latest"}),
    ):
        (tmp_path / name).mkdir()
        engine = engine_of(spark, tmp_path / name, source, **given)
        ends[name] = engine
        engine.run("bronze")
    assert [value["id"] for value in bronze(ends["version"])] == [2]
    assert [value["id"] for value in bronze(ends["time"])] == [2]
    assert bronze(ends["latest"]) == []
    source.add([3])
    for engine in ends.values():
        engine.run()
    check(ends["version"], [2, 3])
    check(ends["latest"], [3])


@pytest.mark.long
def test_commits_that_are_gone_stop_by_name(spark: Any, tmp_path: Path) -> None:
    """What the log's clean-up took before it was read is left out by a command alone, and is written down."""
    source = Source(spark, tmp_path / "source", checkpointInterval="2")
    source.add([0])
    engine = engine_of(spark, tmp_path, source)
    engine.run()
    source.add([1])
    engine.run()
    for number in range(2, 6):
        source.add([number])
    for version in range(5):
        (tmp_path / "source" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(
        HistoryGoneError, match=r"has no longer version 2, .* medallion recover bronze\.history --accept-gap"
    ):
        engine.run()
    check(engine, [0, 1])
    planned = accept_all_gaps(engine.pipeline, engine.settings, engine.layout, only=NAME, is_plan=True)
    with (
        mock.patch.object(accept_versions, "bring_to_newest", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        accept_all_gaps(engine.pipeline, engine.settings, engine.layout)
    # The command that was cut off has written the gap, and the same command ends what it began.
    assert accept_all_gaps(engine.pipeline, engine.settings, engine.layout)[0].gaps == ()
    lost = f"versions 3 to 4 of {source.path}, rows not known"
    for (gap,) in (planned[0].gaps, read_gaps(engine.layout, NAME)):
        assert (gap.topic, gap.first_offset, gap.offsets, gap.reason) == ("delta:history", 2, 0, lost)
        assert lost in gap_line(gap, is_plan=False)
    assert accept_all_gaps(engine.pipeline, engine.settings, engine.layout)[0].gaps == ()
    engine.run()
    check(engine, [0, 1, 4, 5])
    account = audit(spark, engine.pipeline, engine.pipeline.silver[0], engine.layout, again_seconds=0)
    assert f"delta:history: before offset 2 {lost} were lost and accepted" in account.notes
    places = [Place("delta:history", 0, offset) for offset in (1, 2)]
    found = [one["bronze"]["place"] for one in Trace(engine.pipeline, engine.layout).records(places)]
    assert found == ["held", f"held; before offset 2 {lost} were lost and accepted"]


@pytest.mark.long
def test_new_columns_of_the_source_are_added_and_other_types_refused(spark: Any, tmp_path: Path) -> None:
    """Bronze's and silver's queries go on with a new column by themselves; a new type stops."""
    source = Source(spark, tmp_path / "source")
    source.add(range(3))
    engine = engine_of(spark, tmp_path, source, of=silver(value=Columns()))
    engine.run()
    source.sql("ALTER TABLE {t} ADD COLUMNS (note string, place struct<x: int>)")
    source.sql("INSERT INTO {t} VALUES (3, 'c0', 1, timestamp'2026-01-01 00:03:00Z', 'n', struct(7))")
    engine.run()
    source.sql("ALTER TABLE {t} ADD COLUMNS (place.y int)")
    source.sql("INSERT INTO {t} VALUES (4, 'c1', 1, timestamp'2026-01-01 00:04:00Z', 'n', struct(7, 8))")
    engine.run()
    values = {value["id"]: value for value in bronze(engine)}
    assert (values[0]["note"], values[0]["place"]) == (None, None)
    assert (values[3]["note"], values[3]["place"]) == ("n", {"x": 7, "y": None})
    assert values[4]["place"] == {"x": 7, "y": 8}
    assert sorted(row["id"] for row in engine.rows("silver.orders")) == list(range(5))
    assert engine.faults() == ()
    changed = spark.read.format("delta").load(source.path).selectExpr("* except (amount)", "'x' as amount")
    changed.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(source.path)
    with pytest.raises(MedallionError) as raised:
        engine.run()
    assert isinstance(raised.value, TableShapeError)
    assert "column 'amount' of the Delta table in " in str(raised.value)
    assert "/source is string now, and was decimal(9,2)" in str(raised.value)
    assert len(bronze(engine)) == 5


@pytest.mark.long
@pytest.mark.parametrize("is_late", [False, True])
def test_renamed_and_dropped_columns_of_the_source_are_read_on(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_late: bool
) -> None:
    """Also where the source maps its columns only since after the first start; each column is told."""
    mapped = {"columnMapping.mode": "name"}
    source = Source(spark, tmp_path / "source", **({} if is_late else mapped))
    source.add(range(3))
    engine = engine_of(spark, tmp_path, source)
    engine.run()
    if is_late:
        source.sql(
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
            "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
        )
    source.sql("INSERT INTO {t} VALUES (3, 'c0', 1, timestamp'2026-01-01 00:03:00Z')")
    source.sql("ALTER TABLE {t} RENAME COLUMN customer TO client")
    source.sql("INSERT INTO {t} VALUES (4, 'c1', 1, timestamp'2026-01-01 00:04:00Z')")
    (planned_start, *_) = plan(engine.pipeline, engine.settings, engine.layout)
    assert [(one.name, one.old, one.new, one.effect) for one in planned_start.changes] == [
        ("source column client", "", "string", "new column"),
        ("source column customer", "string", "", "next start"),
    ]
    assert "null there, in bronze.history and silver.orders" in planned_start.changes[1].why
    engine.run()
    assert "the source has these columns no longer, value keeps them: customer" in capsys.readouterr().err
    source.sql("ALTER TABLE {t} DROP COLUMN amount")
    source.sql("INSERT INTO {t} VALUES (5, 'c2', timestamp'2026-01-01 00:05:00Z')")
    engine.run()
    engine.run()
    found = {value["id"]: (value["customer"], value["client"], value["amount"]) for value in bronze(engine)}
    assert sorted(found) == list(range(6))
    assert found[2] == ("c2", None, Decimal("0.50"))
    assert found[3] == ("c0", None, Decimal("1.00"))
    assert found[4] == (None, "c1", Decimal("1.00"))
    assert found[5] == (None, "c2", None)
    assert engine.faults() == ()


@pytest.mark.long
def test_a_lost_checkpoint_is_written_again_by_the_commits(spark: Any, tmp_path: Path) -> None:
    """A start without it is refused; after the recovery no row is there twice."""
    source = Source(spark, tmp_path / "source")
    source.add(range(4), files=2)
    engine = engine_of(spark, tmp_path, source, max_files_per_trigger=1)
    engine.run()
    engine.remove(engine.checkpoint(NAME))
    source.add([4])
    with pytest.raises(CheckpointMismatchError, match=r"medallion recover bronze\.history"):
        engine.run()
    recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: spark)
    engine.run()
    check(engine, range(5))


@pytest.mark.long
def test_a_source_that_is_missing_or_an_older_copy_is_refused(spark: Any, tmp_path: Path) -> None:
    """Nothing is written; the newest copy is read on."""
    source = Source(spark, tmp_path / "source")
    source.add(range(2))
    shutil.copytree(source.path, tmp_path / "older")
    source.add([2])
    engine = engine_of(spark, tmp_path, source)
    engine.run()
    shutil.move(source.path, tmp_path / "newest")
    with pytest.raises(TableMissingError, match=r"the Delta table that bronze\.history reads does not exist"):
        engine.run()
    shutil.copytree(tmp_path / "older", source.path)
    with pytest.raises(CheckpointMismatchError, match="an older copy of it was restored"):
        engine.run()
    shutil.rmtree(source.path)
    shutil.move(tmp_path / "newest", source.path)
    source.add([3])
    engine.run()
    check(engine, range(4))


PROTOCOLS = {
    "a collation": (
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["collations"]},
        TableShapeError,
        r"column 'word' of the Delta table in /\S+/source is string collate UTF8_LCASE",
    ),
    "a protocol of the future": (
        {"minReaderVersion": 99, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []},
        UsageError,
        "cannot be read as declared",
    ),
}
"""What a table has that Spark cannot copy: its protocol, the error, and what that says."""


@pytest.mark.long
@pytest.mark.parametrize("what", PROTOCOLS)
def test_a_source_that_cannot_be_copied_is_refused_by_name(spark: Any, tmp_path: Path, what: str) -> None:
    protocol, error, said = PROTOCOLS[what]
    word = {"name": "word", "type": "string", "nullable": True}
    word["metadata"] = {"__COLLATIONS": {"word": "spark.UTF8_LCASE"}}
    metadata = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [word]}),
        "partitionColumns": [],
        "configuration": {},
    }
    log = tmp_path / "source" / "_delta_log"
    log.mkdir(parents=True)
    text = f"{json.dumps({'protocol': protocol})}\n{json.dumps({'metaData': metadata})}\n"
    (log / f"{0:020}.json").write_text(text, encoding="utf-8")
    pipeline = Pipeline("shop", bronze=[DeltaTable("history", str(log.parent))], silver=[])
    with pytest.raises(error, match=said) as raised:
        Engine(spark, pipeline, make_settings(tmp_path, "none:1")).run("bronze")
    assert "bronze.history" in str(raised.value)


@pytest.mark.long
def test_status_counts_unread_rows_of_the_source(spark: Any, tmp_path: Path) -> None:
    """Rows, files and the age of the oldest one; silver counts those of bronze."""
    source = Source(spark, tmp_path / "source")
    source.add(range(4))
    engine = engine_of(spark, tmp_path, source)
    engine.run()
    source.add(range(4, 7), files=2)
    offsets = BrokerOffsets(engine.pipeline, engine.settings)
    status = Collector(engine.pipeline, engine.layout, offsets).collect()
    found = {table.table: table for table in status.tables}
    assert (found[NAME].lag.unit, found[NAME].lag.count, found[NAME].lag.files) == ("rows", 3, 2)
    assert found["silver.orders"].lag.count == 0
    engine.run()
    status = Collector(engine.pipeline, engine.layout, offsets).collect()
    assert {table.table: table.lag.count for table in status.tables} == dict.fromkeys(found, 0)
    check(engine, range(7))


def test_columns_that_do_not_fit_are_mistakes_of_the_declaration(spark: Any, tmp_path: Path) -> None:
    """A column that bronze lacks, with the nearest name; a type that does not hold every value."""
    source = Source(spark, tmp_path / "source")
    source.add([1])
    for schema, text in (
        ("id bigint, custmer string", "no column 'custmer'; did you mean 'customer'?"),
        ("id int", "column 'id' is bigint in bronze, and int does not hold every value"),
    ):
        of = silver(value=Columns(schema), columns={"id": "id", "at": "_kafka.timestamp"})
        engine = engine_of(spark, tmp_path, source, of=of)
        engine.run("bronze")
        with pytest.raises(PipelineError, match=text):
            engine.run("silver")
    assert Checkpoint(str(engine.checkpoint("silver.orders"))).last_planned() is None
