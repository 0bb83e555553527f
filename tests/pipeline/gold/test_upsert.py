"""The newest row per key by a total order, over micro-batches, with what is written for it and replayed.

Columns, deletions and aggregates stand as cases in tests/spec/gold.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Aggregate, Pipeline, Storage, Topic, Upsert
from common.errors import PipelineError, TableShapeError
from orchestration.records.audit.gold.content import ContentAudit, GoldProof
from tests.conftest import make_settings
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = (
    "k string, version int, country string, amount double, note string, _kafka_topic string,"
    "_kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
LATEST = Upsert("latest", reads="silver.orders", key=["k"], newest_by=["version"])
BY_COUNTRY = Aggregate(
    "by_country",
    reads="silver.orders",
    by={"country": "country", "is_large": "amount >= 10"},
    measures={"orders": "count(*)", "total": "sum(amount)", "keys": "size(collect_set(k))"},
    where="version >= 0",
)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=[LATEST, BY_COUNTRY])


class Rows:
    """Silver rows; each gets the next offset unless it has one."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []

    def __call__(
        self,
        k: str | None,
        version: int | None,
        note: str,
        *,
        country: str | None = "de",
        amount: float | None = 1.0,
        seconds: int = 0,
        place: tuple[str, int, int] | None = None,
    ) -> tuple[Any, ...]:
        """A row; ``seconds`` after noon is Kafka's time."""
        topic, partition, offset = place or ("t", 0, len(self.all))
        row = (
            k,
            version,
            country,
            amount,
            note,
            topic,
            partition,
            offset,
            NOON + timedelta(seconds=seconds),
            NOON,
        )
        self.all.append(row)
        return row


class Ran:
    """Three micro-batches: all orders within one, then newer and older rows, then older ones alone."""

    def __init__(self, engine: Engine, rows: Rows) -> None:
        self.engine, self.rows = engine, rows

    def batch(self, *rows: tuple[Any, ...]) -> None:
        """One more commit in silver: one micro-batch of gold."""
        self.engine.append("silver.orders", rows, SCHEMA)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run that most tests look at."""
    settings = make_settings(tmp_path_factory.mktemp("gold"), "none:1", "gold.max_files_per_trigger=1")
    row = Rows()
    made = Ran(Engine(spark, PIPELINE, settings), row)
    made.batch(
        row("older after newer", 2, "kept"),
        row("older after newer", 1, "old"),
        row("null is lowest", None, "old", seconds=9),
        row("null is lowest", -1, "kept"),
        row("by time", 1, "old", seconds=1, place=("z", 9, 999)),
        row("by time", 1, "kept", seconds=2, place=("t", 0, 1000)),
        row("by topic", 1, "old", place=("s", 9, 999)),
        row("by topic", 1, "kept", place=("t", 0, 1001)),
        row("by partition", 1, "old", place=("t", 2, 999)),
        row("by partition", 1, "kept", place=("t", 10, 0)),
        row("by offset", 1, "kept", place=("t", 5, 10)),
        row("by offset", 1, "old", place=("t", 5, 9)),
        row(None, 1, "old"),
        row(None, 2, "kept", country=None, amount=None),
        row("later batch", 5, "kept", country="fr", amount=10.0),
        row("grows", 1, "old", country="fr", amount=20.0),
        row("at once", None, "old"),
    )
    # What is there at first is one micro-batch, whatever it came in.
    made.engine.run("gold")
    made.batch(
        row("later batch", 4, "old"),
        row("grows", 2, "kept", country=None),
        row("by time", 1, "old", seconds=1, place=("z", 99, 9999)),
        row("by offset", 1, "old", place=("t", 5, 8)),
        row("null is lowest", None, "old", seconds=99),
        row("at once", 0, "kept"),
        row("new", None, "kept"),
        row(None, 1, "old", country=None),
    )
    made.batch(row("later batch", 3, "old"), row("new", None, "old", seconds=-1), row(None, None, "old"))
    made.engine.run("gold")
    return made


@pytest.mark.long
def test_the_newest_of_each_key_is_the_one_row_it_has(ran: Ran) -> None:
    """Older after newer in one micro-batch and in a later one; ties by Kafka's time and place."""
    rows = ran.engine.rows("gold.latest")
    keys = {row[0] for row in ran.rows.all}
    assert {row["k"]: row["note"] for row in rows} == dict.fromkeys(keys, "kept")
    assert len(rows) == len(keys)
    assert next(row for row in rows if row["k"] is None)["version"] == 2


@pytest.mark.long
def test_a_micro_batch_of_older_rows_rewrites_no_file(ran: Ran) -> None:
    """And says so in its commit."""
    files = [ran.engine.files("gold.latest", version) for version in (1, 2, 3)]
    assert files[1] != files[0]
    assert files[2] == files[1]
    commits = ran.engine.commits("gold.latest")
    assert [commit["batch_id"] for commit in commits] == [0, 1, 2]
    assert [commit["counts"]["written"] for commit in commits] == [10, 3, 0]


@pytest.mark.long
def test_a_replayed_micro_batch_writes_nothing(ran: Ran) -> None:
    """No row changes and no data file is made, whether the batch was merged or written whole."""
    tables = [table.table for table in PIPELINE.gold]
    before = {
        table: (ran.engine.files(table), Counter(map(repr, ran.engine.rows(table)))) for table in tables
    }
    versions = {table: ran.engine.version(table) for table in tables}
    for table in tables:
        assert ran.engine.undo_last_commit(table) == 2
    ran.engine.run("gold")
    after = {table: (ran.engine.files(table), Counter(map(repr, ran.engine.rows(table)))) for table in tables}
    assert after == before
    assert {table: ran.engine.version(table) for table in tables} == versions
    for table in tables:
        commits = ran.engine.checkpoint(table) / "commits"
        assert json.loads((commits / "2").read_text(encoding="utf-8").splitlines()[1]) is not None


@pytest.mark.long
def test_an_audit_finds_a_row_that_another_program_has_changed(ran: Ran, tmp_path: Path) -> None:
    """In a copy of the tables; before that it finds nothing."""
    settings = make_settings(tmp_path, "none:1")
    shutil.copytree(ran.engine.layout.local, settings.data_dir / "shop")
    copied = Engine(ran.engine.spark, PIPELINE, settings)
    content = ContentAudit(copied.spark, PIPELINE, copied.layout, GoldProof(settings))
    assert {fault for _, fault in content.compared(PIPELINE.gold)} == {None}
    DeltaTable(copied.path("gold.latest")).update(updates={"note": "'old'"}, predicate="k = 'grows'")
    faults = [fault for _, fault in content.compared(PIPELINE.gold) if fault is not None]
    assert [(fault.name, fault.count, fault.keys) for fault in faults] == [
        ("content", 1, ('{"k":"grows"} changed',))
    ]


@pytest.mark.long
def test_an_expression_that_does_not_fit_is_told_before_a_table_is_made(spark: Any, ran: Ran) -> None:
    odd = Upsert("odd", reads="silver.orders", key=["k"], newest_by=["v"], columns={"k": "k", "v": "no_such"})
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=[odd]), ran.engine.settings)
    with pytest.raises(PipelineError, match="column 'v'") as refused:
        engine.run("gold")
    assert [each.place for each in refused.value.problems] == ["gold.odd, column 'v'"]


@pytest.mark.long
def test_a_measure_of_another_type_needs_another_table(spark: Any, ran: Ran) -> None:
    changed = Aggregate(
        "by_country",
        reads="silver.orders",
        by=BY_COUNTRY.by,
        measures={**dict(BY_COUNTRY.measures), "total": "cast(sum(amount) as float)"},  # type: ignore[arg-type]
    )
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("a")], gold=[changed]), ran.engine.settings)
    with pytest.raises(TableShapeError, match=r"gold\.by_country .*total is double, declared float"):
        engine.run("gold")


@pytest.mark.long
def test_deleted_keys_of_a_clustered_table_fill_several_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their table lacks the columns by which the table of the rows is clustered."""
    monkeypatch.setattr("common.rows.spark_rows._ROWS_PER_FILE", 1)
    latest = replace(LATEST, delete_when="note = 'ends'", storage=Storage(cluster_by=["country"]))
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=[latest])
    engine, row = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "driver.batch_rows=0")), Rows()
    came = [row("a", 1, "ends"), row("b", 2, "ends"), row("c", 1, "kept"), row("d", 1, "kept")]
    engine.append("silver.orders", came, SCHEMA)
    engine.run("gold")
    deleted = engine.rows("gold.latest__deleted")
    assert sorted((each["k"], each["version"]) for each in deleted) == [("a", 1), ("b", 2)]
    assert sorted(each["k"] for each in engine.rows("gold.latest")) == ["c", "d"]
    assert len(engine.files("gold.latest__deleted")) == len(deleted)
