"""Starts that go wrong, or elsewhere: a first micro-batch that dies, a power cut, a start at a version."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import DataFrameWriter

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.declare import Aggregate, History, Pipeline, Reading, Storage, Topic, Upsert
from common.delta import table as delta_table
from common.delta.delta_rs import DeltaRsTable
from common.delta.table import RANDOM_FOLDERS
from common.delta.user_writes import APPLICATION, VERSION, clear_transaction_ids
from common.errors import PipelineError, QueryFailedError
from orchestration.access.progress.rows_read import RowsRead
from orchestration.records.rejudge.refill_gold import refill
from silver.write.table_columns import properties
from tests.conftest import IN_DRIVER, make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

DDL = (
    "k string, country string, n int, at timestamp, _kafka_topic string, _kafka_partition int, "
    "_kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
BY_COUNTRY = Storage(partition_by=["country"])
READS = "silver.orders"
UPSERT = Upsert("latest", reads=READS, key=["country", "k"], newest_by=["n"], storage=BY_COUNTRY)
COUNTS = Aggregate(
    "counts",
    reads=READS,
    by=["country", "k"],
    measures={"rows": "count(*)", "most": "max(n)"},
    mode="recompute",
    storage=BY_COUNTRY,
)
TOTALS = Aggregate(
    "totals",
    reads=READS,
    by=["country"],
    measures={"rows": "count(*)"},
    mode="update",
    storage=BY_COUNTRY,
)
STATES = History(
    "states", reads=READS, key=["country", "k"], valid_by="at", columns=["n"], storage=BY_COUNTRY
)
DELETING = Upsert("living", reads=READS, key=["k"], newest_by=["n"], delete_when="n < 0")
GOLD = (UPSERT, COUNTS, TOTALS, STATES, DELETING)
COMMITS = [
    [("a", "DE", 1), ("b", "", 2), ("c", None, 3), ("d", "a/b=c %20", 4)],
    [("b", "", 5), ("c", None, 6), ("d", "a/b=c %20", 7), ("a", "DE", -1)],
    [("b", None, 8), ("e", "", 9), ("a", "", 10)],
]


class Ran:
    """Gold over a silver table that tests fill."""

    def __init__(self, spark: Any, folder: Path, limits: DriverLimits, *gold: Any) -> None:
        pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=gold)
        settings = make_settings(folder, "none:1", f"driver.batch_rows={limits.rows}")
        self.engine, self.offset = Engine(spark, pipeline, settings), 0
        empty = spark.createDataFrame([], DDL).schema
        delta_table.ensure(spark, READS, self.engine.path(READS), empty, properties())

    def bring(self, commit: list[tuple[str, str | None, int]]) -> None:
        """One commit of silver."""
        rows = []
        for k, country, n in commit:
            self.offset += 1
            at = datetime(2026, 1, 1, 0, 0, self.offset, tzinfo=UTC)
            rows.append((k, country, n, at, "t", 0, self.offset, at, at))
        self.engine.append(READS, rows, DDL)

    def values(self, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
        """Some columns of a table's rows."""
        return Counter(tuple(row[name] for name in columns) for row in self.engine.rows(table))

    def content(self) -> dict[str, Counter[str]]:
        """Rows of all gold tables."""
        return {
            gold.table: Counter(map(repr, self.engine.rows(gold.table))) for gold in self.engine.pipeline.gold
        }


def stored(country: str | None) -> str | None:
    """What Delta keeps of it in a partition."""
    return country or None


def test_an_empty_text_in_a_partition_is_null_in_every_kind(spark: Any, tmp_path: Path) -> None:
    """Delta stores it so: a key with it would else be inserted by every micro-batch that touches it."""
    ran = Ran(spark, tmp_path, IN_DRIVER, *GOLD)
    for number in range(1, len(COMMITS) + 1):
        ran.bring(COMMITS[number - 1])
        ran.engine.run("gold")
        rows = [(stored(c), k, n) for commit in COMMITS[:number] for k, c, n in commit]
        newest = {(c, k): n for c, k, n in sorted(rows, key=lambda row: row[2])}
        assert ran.values("gold.latest", "country", "k", "n") == Counter(
            (c, k, n) for (c, k), n in newest.items()
        )
        assert ran.values("gold.counts", "country", "k", "rows", "most") == Counter(
            (c, k, sum((c, k) == row[:2] for row in rows), n) for (c, k), n in newest.items()
        )
        totals = Counter(c for c, _, _ in rows)
        assert ran.values("gold.totals", "country", "rows") == Counter(totals.items())
        assert ran.values("gold.states", "country", "k", "n") == Counter(rows)
        current = [r for r in ran.engine.rows("gold.states") if r["is_current"]]
        assert len(current) == len({(c, k) for c, k, _ in rows})


NAMES = ("\0nul", "\0", "\N{GRINNING FACE}" * 80, "y" * 5_000, "..", "/", "\x1b]0;t\x07\x9b\u202e", "DE")
IN_EXECUTORS = DriverLimits(0, 0)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(IN_DRIVER, id="driver", marks=pytest.mark.long),
        pytest.param(IN_EXECUTORS, id="executors", marks=pytest.mark.long),
    ],
)
def test_a_value_that_no_folder_can_be_named_after_is_a_partition(
    spark: Any, tmp_path: Path, limits: DriverLimits
) -> None:
    """A value of the data never ends a query: Delta would name the partition's folder after it."""
    feed = Storage(partition_by=["country"], change_feed=True)
    gold = (replace(UPSERT, storage=feed), COUNTS, TOTALS, STATES)
    ran = Ran(spark, tmp_path, limits, *gold)
    for number in range(2):
        ran.bring([(f"k{place}", name, number) for place, name in enumerate(NAMES)])
        ran.engine.run("gold")
    expected = Counter((name, f"k{place}") for place, name in enumerate(NAMES))
    assert ran.values("gold.latest", "country", "k") == expected
    assert {row["n"] for row in ran.engine.rows("gold.latest")} == {1}
    assert ran.values("gold.counts", "country", "k", "rows") == Counter((*pair, 2) for pair in expected)
    assert ran.values("gold.totals", "country", "rows") == Counter((name, 2) for name in NAMES)
    assert ran.values("gold.states", "country", "k") == expected + expected


def test_the_property_of_random_folders_is_the_operators(spark: Any, tmp_path: Path) -> None:
    """A start leaves the property of an existing table alone; set as the docs say, it takes such values."""
    ran = Ran(spark, tmp_path, IN_EXECUTORS, UPSERT)
    ran.bring([("a", "DE", 1)])
    ran.engine.run("gold")
    path = ran.engine.path("gold.latest")
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{RANDOM_FOLDERS}')")
    version = ran.engine.version("gold.latest")
    ran.engine.run("gold")
    assert ran.engine.version("gold.latest") == version
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{RANDOM_FOLDERS}' = 'true')")
    ran.bring([("b", NAMES[0], 2)])
    ran.engine.run("gold")
    assert ran.values("gold.latest", "country", "k") == Counter([("DE", "a"), (NAMES[0], "b")])


def test_a_first_micro_batch_that_dies_may_come_again(spark: Any, tmp_path: Path) -> None:
    """Of a table that is filled anew, after its checkpoint was lost or it was to be rebuilt."""
    ran = Ran(spark, tmp_path, IN_DRIVER, *GOLD)
    for commit in COMMITS:
        ran.bring(commit)
    ran.engine.run("gold")
    before = ran.content()

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    for gold in GOLD:
        assert refill(ran.engine.pipeline, ran.engine.layout, gold.table)
    with mock.patch.object(DataFrameWriter, "save", full), mock.patch.object(DeltaRsTable, "append", full):
        for _ in range(2):
            with pytest.raises(QueryFailedError, match="no space left on device"):
                ran.engine.run("gold")
    assert ran.content() == before
    ran.engine.run("gold")
    assert ran.content() == before
    ran.bring([("a", "DE", 99)])
    ran.engine.run("gold")
    assert {row["n"] for row in ran.engine.rows("gold.latest") if row["country"] == "DE"} == {99}


def test_transaction_ids_that_somebody_left_in_the_session_skip_no_write(spark: Any, tmp_path: Path) -> None:
    """Delta takes a write that names an id it knows for done, and says nothing."""
    ran = Ran(spark, tmp_path, IN_DRIVER, *GOLD)
    ran.bring(COMMITS[0])
    ran.engine.run("gold")
    for commit in COMMITS[1:]:
        ran.bring(commit)
        spark.conf.set(APPLICATION, "somebody")
        spark.conf.set(VERSION, "7")
        try:
            ran.engine.run("gold")
        finally:
            clear_transaction_ids(spark)
    rows = [(stored(c), k, n) for commit in COMMITS for k, c, n in commit]
    totals = Counter(c for c, _, _ in rows)
    assert ran.values("gold.totals", "country", "rows") == Counter(totals.items())
    assert {r["k"]: r["n"] for r in ran.engine.rows("gold.living")} == {
        "a": 10, "b": 8, "c": 6, "d": 7, "e": 9,
    }  # fmt: skip
    assert ran.values("gold.states", "country", "k", "n") == Counter(rows)


@pytest.mark.parametrize(
    "cut",
    [
        "data file",
        *(pytest.param(cut, marks=pytest.mark.long) for cut in ("half a commit", "commit", "no data file")),
    ],
)
def test_a_power_cut_in_the_newest_commit_is_mended_by_the_next_start(
    spark: Any, tmp_path: Path, cut: str
) -> None:
    """Of a micro-batch that was written by delta-rs, and that the checkpoint does not count yet."""
    written = (UPSERT, DELETING)
    ran = Ran(spark, tmp_path, DriverLimits(100, 1000), *written)
    for commit in COMMITS[:2]:
        ran.bring(commit)
        ran.engine.run("gold")
    before, versions = ran.content(), {gold.table: ran.engine.version(gold.table) for gold in written}
    for gold in written:
        table = Path(ran.engine.path(gold.table))
        added = ran.engine.files(gold.table) - ran.engine.files(gold.table, versions[gold.table] - 1)
        newest = table / "_delta_log" / f"{versions[gold.table]:020}.json"
        assert added
        ran.engine.undo_last_commit(gold.table)
        if "commit" in cut:
            newest.write_bytes(newest.read_bytes()[: 0 if cut == "commit" else 60])
        for file in map(Path, added if "data" in cut else ()):
            if cut == "data file":
                file.write_bytes(b"")
            else:
                file.unlink()
    ran.engine.run("gold")
    assert ran.content() == before
    assert {gold.table: ran.engine.version(gold.table) for gold in written} == versions


def test_a_declaration_that_means_something_else_is_refused_until_the_table_is_filled_anew(
    spark: Any, tmp_path: Path
) -> None:
    """Rows that no new event touches would stay as the former one made them."""
    ran = Ran(spark, tmp_path, DriverLimits(100, 1000), UPSERT, COUNTS)
    ran.bring(COMMITS[0])
    ran.engine.run("gold")

    def declare(*gold: Any, accepted: str = "") -> None:
        more = [f"gold.accept_changed={accepted}"] if accepted else []
        settings = make_settings(tmp_path, "none:1", *more)
        pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=gold)
        ran.engine = Engine(spark, pipeline, settings)

    least = replace(COUNTS, measures={"rows": "count(*)", "most": "min(n)"})
    other = replace(UPSERT, newest_by=["at"], key=["country", "k"])
    ran.bring(COMMITS[1])
    for gold, attribute in (((UPSERT, least), "counts, measures"), ((other, COUNTS), "latest, newest_by")):
        declare(*gold)
        table = f"gold.{attribute.partition(',')[0]}"
        before = ran.content()[table]
        with pytest.raises(PipelineError, match=rf"gold\.{attribute}: differs from .* medallion rebuild"):
            ran.engine.run("gold")
        assert ran.content()[table] == before
    declare(UPSERT, least)
    assert refill(ran.engine.pipeline, ran.engine.layout, "gold.counts")
    ran.engine.run("gold")
    rows = [(stored(c), k, n) for commit in COMMITS[:2] for k, c, n in commit]
    wanted = {(c, k): min(n for c2, k2, n in rows if (c2, k2) == (c, k)) for c, k, _ in rows}
    assert {(r["country"], r["k"]): r["most"] for r in ran.engine.rows("gold.counts")} == wanted
    declare(UPSERT, COUNTS, accepted='["gold.counts"]')
    ran.bring([("a", "DE", 50)])
    ran.engine.run("gold")
    counts = {(r["country"], r["k"]): r["most"] for r in ran.engine.rows("gold.counts")}
    assert counts == {**wanted, ("DE", "a"): 50}
    spread = replace(COUNTS, measures={"rows": "count( * )", "most": "max(n)"}, storage=Storage())
    declare(UPSERT, replace(spread, measures={"rows": "count(*)", "most": " max(n)\n"}))
    ran.engine.run("gold")


@pytest.mark.parametrize("changes", ["feed", pytest.param("appends", marks=pytest.mark.long)])
def test_a_start_at_a_version_leaves_out_what_was_before(spark: Any, tmp_path: Path, changes: str) -> None:
    reading = Reading(changes=changes, starting_version=2)  # type: ignore[arg-type]
    upsert = Upsert("latest", reads=READS, key=["k"], newest_by=["n"], reading=reading)
    complete = Aggregate(
        "counts", reads=READS, by=["k"], measures={"rows": "count(*)"}, reading=Reading(starting_version=2)
    )
    ran = Ran(spark, tmp_path, DriverLimits(100, 1000), upsert, complete)
    for commit in COMMITS:
        ran.bring(commit)  # versions 1, 2 and 3
    ran.engine.run("gold")
    after = [row for commit in COMMITS[1:] for row in commit]
    newest = {k: n for k, _, n in sorted(after, key=lambda row: row[2])}
    assert {row["k"]: row["n"] for row in ran.engine.rows("gold.latest")} == newest
    assert {row["k"]: row["rows"] for row in ran.engine.rows("gold.counts")} == Counter(
        k for k, _, _ in after
    )
    path = ran.engine.path(READS)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 'e'")
    ran.engine.run("gold")
    kept = {row["k"] for row in ran.engine.rows("gold.latest")}
    assert ("e" in kept) == (changes == "appends")
    ran.engine.remove(ran.engine.checkpoint("gold.counts"))
    ran.engine.run("gold")
    assert "d" in {row["k"] for row in ran.engine.rows("gold.counts")}


def test_rows_are_counted_once_however_often_a_micro_batch_reads_them(spark: Any, tmp_path: Path) -> None:
    """Spark reports no input row of a frame that it reads by other plans, and repeats rows read twice."""
    ran = Ran(spark, tmp_path, NO_DRIVER, COUNTS, TOTALS)
    for commit in COMMITS:
        ran.bring(commit)
    read = {gold.table: RowsRead(gold, ran.engine.layout) for gold in (COUNTS, TOTALS)}
    queries = ran.engine.run("gold")
    reported = {query.name: sum(p["numInputRows"] for p in query.progress()) for query in queries}
    rows = sum(map(len, COMMITS))
    assert {name: one.advance() for name, one in read.items()} == dict.fromkeys(read, rows)
    assert reported[COUNTS.table] != rows


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_groups_have_texts_as_measures(spark: Any, tmp_path: Path, mode: Any) -> None:
    """Spark sorts their rows by the group, and says so by a column that the result does not have."""
    measures = {"least": "min(k)", "newest": "max_by(k, n)", "rows": "count(*)"}
    plain = Aggregate("texts", reads=READS, by=["country"], measures=measures, mode=mode)
    worked_out = replace(plain, name="by_length", by={"long": "length(country) > 2"})
    ran = Ran(spark, tmp_path, NO_DRIVER, plain, worked_out)
    brought: list[tuple[str, str | None, int]] = []
    for commit in COMMITS:
        ran.bring(commit)
        ran.engine.run("gold")
        brought += commit
        for gold, group in ((plain, lambda c: c), (worked_out, lambda c: None if c is None else len(c) > 2)):
            wanted: dict[Any, list[tuple[int, str]]] = {}
            for k, country, n in brought:
                wanted.setdefault(group(country), []).append((n, k))
            found = {
                next(iter(row.values())): (row["least"], row["newest"], row["rows"])
                for row in ran.engine.rows(gold.table)
            }
            assert found == {
                key: (min(k for _, k in rows), max(rows)[1], len(rows)) for key, rows in wanted.items()
            }
