"""A rebuilt gold table gets other columns: the first micro-batch replaces rows and columns by one commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrameWriter

from common.declare import (
    Aggregate,
    ForeachSink,
    History,
    Pipeline,
    Publish,
    Reading,
    Storage,
    Topic,
    Upsert,
)
from common.errors import CheckpointMismatchError, QueryFailedError, SourceReplacedError, TableShapeError
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import IN_DRIVER, make_settings
from tests.pipeline.gold.test_starts import BY_COUNTRY, COMMITS, READS, Ran
from tests.support.engine import Engine

pytestmark = pytest.mark.long

LATEST = Upsert(
    "latest",
    reads=READS,
    key=["k"],
    newest_by=["n"],
    columns=["k", "country", "n"],
    delete_when="n < 0",
    storage=BY_COUNTRY,
)
COUNTS = Aggregate(
    "counts",
    reads=READS,
    by=["country"],
    measures={"rows": "count(*)", "most": "max(n)"},
    storage=Storage(cluster_by=["country"]),
)
AGAIN = replace(COUNTS, name="again", mode="recompute", storage=Storage(change_feed=True))
STATES = History("states", reads=READS, key=["k"], valid_by="at", columns=["n"])
BEFORE = (LATEST, COUNTS, AGAIN, STATES)
TEXT = "cast(n as string)"
NOW = (
    # Without the column that partitions the table, and with a key and an order of another type.
    replace(LATEST, columns={"k": "concat(k, '!')", "n": "cast(n as bigint)"}),
    replace(COUNTS, by={"land": "country"}, measures={"number": "count(*)"}, storage=Storage()),
    replace(AGAIN, by={"n": "n % 2 = 0"}, measures={"rows": f"max({TEXT})"}),
    replace(STATES, columns=["country"]),
)
ROWS = [(k, country, n) for commit in COMMITS for k, country, n in commit]


def declare(ran: Ran, folder: Path, *gold: Any) -> None:
    """The same tables under another declaration."""
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=gold)
    ran.engine = Engine(ran.engine.spark, pipeline, make_settings(folder, "none:1"))


def outcomes(path: str) -> list[tuple[tuple[str, ...], int]]:
    """Columns and number of rows of each version of a table, one after the other, without repeats."""
    found: list[tuple[tuple[str, ...], int]] = []
    for version in range(DeltaTable(path).version() + 1):
        rows = DeltaTable(path, version=version).to_pyarrow_table()
        one = (tuple(sorted(rows.column_names)), rows.num_rows)
        if not found or found[-1] != one:
            found.append(one)
    return found


def test_every_kind_gets_other_columns_by_one_commit(spark: Any, tmp_path: Path) -> None:
    """Readers see the former rows and columns, then the new ones; also after a start that failed."""
    ran = Ran(spark, tmp_path, IN_DRIVER, *BEFORE)
    for commit in COMMITS:
        ran.bring(commit)
    ran.engine.run("gold")
    before = ran.content()
    for gold in NOW:
        declare(ran, tmp_path, gold)
        with pytest.raises((TableShapeError, QueryFailedError), match=f"medallion rebuild {gold.table}"):
            ran.engine.run("gold")
    declare(ran, tmp_path, *NOW)
    held = {gold.table: ran.engine.version(gold.table) for gold in NOW}
    for gold in NOW:
        assert refill(ran.engine.pipeline, ran.engine.layout, gold.table)
    full = mock.patch.object(DataFrameWriter, "save", side_effect=OSError("no space left on device"))
    with full, pytest.raises(QueryFailedError, match="no space left on device"):
        ran.engine.run("gold")
    assert ran.content() == before
    ran.engine.run("gold")

    newest = {k: n for k, _, n in sorted(ROWS, key=lambda row: row[2])}
    assert ran.values("gold.latest", "k", "n") == Counter((f"{k}!", n) for k, n in newest.items() if n > 0)
    lands = Counter(country for _, country, _ in ROWS)
    assert ran.values("gold.counts", "land", "number") == Counter(lands.items())
    even = {True: max(str(n) for *_, n in ROWS if n % 2 == 0), False: max(str(n) for *_, n in ROWS if n % 2)}
    assert ran.values("gold.again", "n", "rows") == Counter(even.items())
    assert set(ran.engine.rows("gold.states")[0]) >= {"country", "k"}
    assert "n" not in ran.engine.rows("gold.states")[0]
    for gold in NOW:
        path = ran.engine.path(gold.table)
        assert ran.engine.version(gold.table) == held[gold.table] + 1
        assert len(outcomes(path)) == 3, "created, filled, and replaced by one commit"
    assert DeltaTable(ran.engine.path("gold.again")).metadata().configuration["delta.enableChangeDataFeed"]
    assert DeltaTable(ran.engine.path("gold.latest")).metadata().partition_columns == []

    ran.bring([("a", "DE", 99), ("f", "", -2)])
    ran.engine.run("gold")
    assert ran.values("gold.latest", "k", "n")["a!", 99] == 1
    assert ran.values("gold.counts", "land", "number")["DE", lands["DE"] + 1] == 1
    assert ran.values("gold.again", "n", "rows")[False, "99"] == 1


def test_a_table_without_declared_columns_gets_those_of_its_source(spark: Any, tmp_path: Path) -> None:
    """By a rebuild; without one it keeps the columns that it was created with."""
    gold = Upsert("latest", reads=READS, key=["k"], newest_by=["n"])
    ran = Ran(spark, tmp_path, IN_DRIVER, gold)
    ran.bring(COMMITS[0])
    ran.engine.run("gold")
    spark.sql(f"ALTER TABLE delta.`{ran.engine.path(READS)}` ADD COLUMNS (more string)")
    ran.bring(COMMITS[1])
    ran.engine.run("gold")
    assert "more" not in ran.engine.rows("gold.latest")[0]
    assert refill(ran.engine.pipeline, ran.engine.layout, gold.table)
    ran.engine.run("gold")
    assert {row["more"] for row in ran.engine.rows("gold.latest")} == {None}


def test_a_history_that_keeps_earlier_rows_refuses_other_columns(spark: Any, tmp_path: Path) -> None:
    """Its first micro-batch reads the rows of the table; nothing is written."""
    ran = Ran(spark, tmp_path, IN_DRIVER, STATES)
    ran.bring(COMMITS[0])
    ran.engine.run("gold")
    before = ran.content()
    later = replace(STATES, columns=["country"], reading=Reading(starting_version=1))
    declare(ran, tmp_path, later)
    assert refill(ran.engine.pipeline, ran.engine.layout, later.table)
    with pytest.raises((TableShapeError, QueryFailedError), match="new name"):
        ran.engine.run("gold")
    assert ran.content() == before


def test_readers_of_a_table_whose_columns_were_replaced_are_refused_in_words(
    spark: Any, tmp_path: Path
) -> None:
    """No stream reads on there: not one that is built again without end, and not in silence."""
    sent = tmp_path / "sent"

    def send(row: Any) -> None:
        with sent.open("a", encoding="utf-8") as file:
            file.write(f"{row.k}\n")

    latest = Upsert("latest", reads=READS, key=["k"], newest_by=["n"], storage=Storage(change_feed=True))
    numbers = Aggregate(
        "numbers", reads="gold.latest", by=["n"], measures={"rows": "count(*)"}, mode="recompute"
    )
    publication = Publish("sent", reads="gold.latest", to=ForeachSink(send))

    def declared(gold: Any) -> Pipeline:
        return Pipeline(name="shop", bronze=[Topic("orders")], gold=[gold, numbers], publish=[publication])

    ran = Ran(spark, tmp_path, IN_DRIVER)
    settings = ran.engine.settings
    ran.engine = Engine(spark, declared(latest), settings)
    ran.bring(COMMITS[0])
    ran.engine.run("gold")
    ran.engine.publish()
    rows = sent.read_text(encoding="utf-8")
    assert len(rows.split()) == len(COMMITS[0])

    now = replace(latest, columns={"k": "k", "n": "n", "land": "country"})
    ran.engine = Engine(spark, declared(now), settings)
    assert refill(ran.engine.pipeline, ran.engine.layout, "gold.latest")
    with pytest.raises(
        SourceReplacedError, match=r"gold\.latest were replaced.*medallion rebuild gold\.numbers"
    ):
        ran.engine.run("gold")
    with pytest.raises(SourceReplacedError, match=r"gold\.latest were replaced.*under a new name"):
        ran.engine.publish()
    assert sent.read_text(encoding="utf-8") == rows
    assert refill(ran.engine.pipeline, ran.engine.layout, "gold.numbers")
    ran.bring(COMMITS[1])
    ran.engine.run("gold")
    newest = {k: n for k, _, n in sorted((*COMMITS[0], *COMMITS[1]), key=lambda row: row[2])}
    assert ran.values("gold.numbers", "n", "rows") == Counter((n, 1) for n in newest.values())


def test_a_table_that_somebody_else_has_written_is_not_replaced(spark: Any, tmp_path: Path) -> None:
    """Neither with the same columns nor with others; an empty one is taken."""
    gold = Aggregate("counts", reads=READS, by=["country"], measures={"rows": "count(*)"})
    ran = Ran(spark, tmp_path, IN_DRIVER, gold)
    path = ran.engine.path(gold.table)
    ran.bring(COMMITS[0])
    for ddl in ("country string, rows bigint", "name string"):
        rows = spark.createDataFrame([("DE", 1)] if "," in ddl else [("mine",)], ddl)
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        before = (ran.content(), ran.engine.version(gold.table))
        with pytest.raises(
            CheckpointMismatchError, match="holds rows that no query of this name has written"
        ):
            ran.engine.run("gold")
        assert (ran.content(), ran.engine.version(gold.table)) == before
    spark.sql(f"DELETE FROM delta.`{path}`")
    ran.engine.run("gold")
    assert ran.values("gold.counts", "country", "rows") == Counter((c, 1) for _, c, _ in COMMITS[0])
