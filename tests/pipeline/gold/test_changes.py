"""Keys that are deleted and come back, rows that silver takes back, and change feeds: against an oracle."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from deltalake import DeltaTable

from common.declare import ChangeFeed, Pipeline, Storage, Topic, Upsert
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import ChangeRefusedError, QueryFailedError
from silver.write.table_columns import properties
from tests.conftest import make_settings
from tests.support.engine import Engine

UNAVAILABLE = "__debezium_unavailable_value"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COORDINATES = ("_kafka_timestamp", "_kafka_topic", "_kafka_partition", "_kafka_offset")
SCHEMA = (
    "k string, part int, version int, op string, note string, _kafka_topic string,"
    "_kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
LATEST = Upsert("latest", reads="silver.changes", key=["k", "part"], newest_by=["version"])
LIVING = Upsert(
    "living",
    reads="silver.changes",
    key=["id"],
    newest_by=["newness"],
    columns={"id": "upper(k)", "newness": "version", "told": "note"},
    delete_when="op = 'd' or note = 'void'",
    unchanged=UNAVAILABLE,
)
COPY = ChangeFeed("copy", reads="silver.changes", key=["k", "part"], sequence_by=["version"])
TABLES = (LIVING, COPY)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], gold=TABLES)

Row = dict[str, Any]
State = tuple[Counter[str], Counter[str]]


class Source:
    """A silver table that keeps a change data feed; each call is one commit in it."""

    def __init__(self, engine: Engine, table: str = "silver.changes") -> None:
        self.engine, self.table, self.offset = engine, table, 0
        schema = engine.spark.createDataFrame([], SCHEMA).schema
        delta_table.ensure(engine.spark, table, engine.path(table), schema, properties())

    def row(
        self, k: str | None, version: int | None, op: str = "u", note: str = "", part: int | None = 0
    ) -> tuple[Any, ...]:
        """A row at the next offset."""
        self.offset += 1
        at = NOON + timedelta(seconds=self.offset % 3)
        return (k, part, version, op, note or f"n{self.offset}", "t", 0, self.offset, at, NOON)

    def insert(self, *rows: tuple[Any, ...]) -> None:
        self.engine.append(self.table, rows, SCHEMA)

    def delete(self, condition: str) -> None:
        self._table().delete(condition)

    def update(self, condition: str, **values: str) -> None:
        self._table().update(condition, values)

    def _table(self) -> Any:
        from delta.tables import DeltaTable as Written

        return Written.forPath(self.engine.spark, self.engine.path(self.table))


def rank(value: Any) -> tuple[bool, Any]:
    """Nulls are lowest."""
    return (value is not None, 0 if value is None else value)


def expected(rows: Sequence[Row], gold: Upsert | ChangeFeed) -> State:
    """The table and its deleted keys, worked out from all rows of silver."""
    if gold is LIVING:
        rows = [
            {
                "id": None if row["k"] is None else row["k"].upper(),
                "newness": row["version"],
                "told": row["note"],
                **{name: row[name] for name in COORDINATES},
                "ends": row["op"] == "d" or row["note"] == "void",
            }
            for row in rows
        ]
    else:
        rows = [{**row, "ends": isinstance(gold, ChangeFeed) and row["op"] == "d"} for row in rows]
    newest_by = gold.sequence_by if isinstance(gold, ChangeFeed) else gold.newest_by
    order = (*newest_by, *COORDINATES)
    newest: dict[tuple[Any, ...], Row] = {}
    told_in = "told" if gold is LIVING else "note"
    for row in sorted(rows, key=lambda row: tuple(rank(row[name]) for name in order)):
        key = tuple(row[name] for name in gold.key)
        if row[told_in] == UNAVAILABLE and not row["ends"] and gold.unchanged is not None:
            before = newest.get(key)
            row[told_in] = None if before is None or before["ends"] else before[told_in]
        newest[key] = row
    there: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for row in newest.values():
        if row.pop("ends"):
            ended[told({name: row[name] for name in (*gold.key, *order)})] += 1
        else:
            there[told(row)] += 1
    return there, ended


def told(row: Mapping[str, Any]) -> str:
    return repr(sorted(row.items()))


def rows_at(engine: Engine, table: str, version: int) -> list[Row]:
    found: list[Row] = DeltaTable(engine.path(table), version=version).to_pyarrow_table().to_pylist()
    return found


def state(engine: Engine, gold: Upsert | ChangeFeed, batch_id: int | None = None) -> State:
    """The table and its deleted keys, now or after a micro-batch."""
    found = []
    for table in (gold.table, *gold.side_tables):
        ours = [at for at, one in notes(engine, table) if batch_id is None or one["batch_id"] <= batch_id]
        version = max(ours, default=0)
        found.append(Counter(map(told, rows_at(engine, table, version))))
    return (found[0], found[1]) if len(found) > 1 else (found[0], Counter())


def notes(engine: Engine, table: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Version and note of gold's own commits, newest first."""
    for one in engine.history(table):
        if "batch_id" in (told := json.loads(one.get("userMetadata", "{}"))):
            yield one["version"], told


def is_right_now(engine: Engine, *golds: Upsert | ChangeFeed) -> None:
    """Each table is what all of silver makes of it."""
    for gold in golds:
        assert state(engine, gold) == expected(engine.rows("silver.changes"), gold), gold.table


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A random run: disorder, deletes, re-inserts, ties, nulls, and rows that silver changes or loses."""
    folder = tmp_path_factory.mktemp("changes")
    settings = make_settings(folder, "none:1", "gold.max_files_per_trigger=1")
    engine = Engine(spark, PIPELINE, settings)
    source, rng = Source(engine), random.Random(7)  # noqa: S311

    def some(number: int) -> list[tuple[Any, ...]]:
        return [
            source.row(
                rng.choice(["a", "b", "c", "d", "e", "f", "g", "h", None]),
                rng.choice([None, *range(12)]),
                rng.choice("cruudd"),
                rng.choice(["", UNAVAILABLE, "", "void"]),
                rng.choice([0, 1, None]),
            )
            for _ in range(number)
        ]

    source.insert(*some(14))
    engine.run("gold")
    source.insert(*some(10))
    # The newest of some keys go: older ones take their place, or none.
    source.delete("version >= 8")
    # The same order, other values; then a row moves to another key.
    source.update("version < 4", note="'mended'")
    source.update("k = 'a'", k="'z'")
    # Every row of some keys goes, and deletions of others; then silver has newer versions.
    source.delete("k in ('b', 'c') or k is null or op = 'd' and version > 3")
    source.update("k in ('d', 'e')", version="version + 20")
    source.insert(*some(8), source.row("y", 1), source.row("y", 5, "d"), source.row("y", 3))
    source.insert(source.row("y", 7, "c", "back"), source.row("x", 2, "d"))
    engine.run("gold")
    # Two commits in one micro-batch: a row comes and goes, and another stays.
    source.insert(source.row("y", 9), source.row("w", 1))
    source.delete("k = 'y' and version = 9 or k = 'w'")
    many = Engine(spark, PIPELINE, make_settings(folder, "none:1"))
    many.run("gold")
    return engine


@pytest.mark.long
@pytest.mark.parametrize("gold", TABLES, ids=lambda gold: str(gold.name))
def test_after_every_micro_batch_a_table_is_what_all_of_silver_makes_of_it(
    ran: Engine, gold: Upsert | ChangeFeed
) -> None:
    """The newest row of each key by the total order, unless it deletes it; and when it was deleted."""
    versions = {
        one["batch_id"]: MicroBatch("", "", "", 0, tuple(one["positions"])).source_version()
        for _, one in notes(ran, gold.table)
    }
    assert sorted(versions) == list(range(10))
    for batch_id, version in sorted(versions.items()):
        assert version is not None
        want = expected(rows_at(ran, "silver.changes", version), gold)
        assert state(ran, gold, batch_id) == want, (batch_id, version)


@pytest.mark.long
def test_the_run_has_what_it_is_to_show(ran: Engine) -> None:
    """Rows deleted and taken back, keys asked for in silver; the first load asks for none."""
    for gold in TABLES:
        counts = [one["counts"] for _, one in sorted(notes(ran, gold.table), key=lambda n: n[1]["batch_id"])]
        assert sum(each["deleted"] for each in counts) > 2
        assert sum(each["recomputed"] for each in counts) > 5
        assert counts[0]["recomputed"] == 0
    there, ended = expected(ran.rows("silver.changes"), COPY)
    assert there
    assert ended


@pytest.mark.long
def test_a_value_that_a_change_leaves_as_it_was_stays(spark: Any, tmp_path: Path) -> None:
    """In one micro-batch and over several, also where it comes late; after a delete it is unknown."""
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    source = Source(engine)
    left = {"note": UNAVAILABLE}

    def notes_after(*rows: tuple[Any, ...]) -> dict[str, Any]:
        source.insert(*rows)
        engine.run("gold")
        is_right_now(engine, *TABLES)
        return {row["k"]: (row["version"], row["note"]) for row in engine.rows(COPY.table)}

    first = [source.row("a", 1, "c", "long"), source.row("b", 1, "c", "long"), source.row("b", 2, **left)]
    assert notes_after(*first, source.row("c", 5, **left)) == {
        "a": (1, "long"),
        "b": (2, "long"),
        "c": (5, None),
    }
    # A change alone; two of one key; one after a delete; the value of c comes late, and an older one of it.
    second = [source.row("a", 2, **left), source.row("b", 3, "u", "new"), source.row("b", 4, **left)]
    assert notes_after(*second, source.row("c", 4, "u", "late"), source.row("d", 9, **left)) == {
        "a": (2, "long"),
        "b": (4, "new"),
        "c": (5, "late"),
        "d": (9, None),
    }
    third = [source.row("a", 3, "d"), source.row("a", 5, **left), source.row("c", 3, "u", "later")]
    assert notes_after(*third, source.row("b", 6, **left), source.row("b", 5, "u", "between")) == {
        "a": (5, None),
        "b": (6, "between"),
        "c": (5, "late"),
        "d": (9, None),
    }
    assert notes_after(source.row("a", 4, "c", "again"), source.row("b", 1, "u", "old")) == {
        "a": (5, "again"),
        "b": (6, "between"),
        "c": (5, "late"),
        "d": (9, None),
    }
    counts = next(notes(engine, COPY.table))[1]["counts"]
    # What is older than what the table has may change it, and is looked for in silver; b is not written.
    assert counts == {"keys": 2, "written": 1, "deleted": 0, "recomputed": 2}


@contextmanager
def crash_before(number: int) -> Iterator[list[str]]:
    """The n-th write of gold is never done; yields the paths of those that were."""
    done: list[str] = []
    before = (delta_table.append, delta_merge.write_changes)

    def failing(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(frame: Any, path: str, *rest: Any, **named: Any) -> Any:
            if len(done) + 1 == number:
                raise RuntimeError("the power went")
            done.append(path)
            return write(frame, path, *rest, **named)

        return wrapped

    delta_table.append, delta_merge.write_changes = map(failing, before)
    try:
        yield done
    finally:
        delta_table.append, delta_merge.write_changes = before


@pytest.mark.long
def test_a_micro_batch_that_is_cut_off_anywhere_ends_the_same(spark: Any, tmp_path: Path) -> None:
    """Before the deleted keys are written, between the two tables, and after both."""
    settings = make_settings(tmp_path, "none:1")
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=[COPY]), settings)
    source = Source(engine)

    def cut(number: int) -> None:
        with crash_before(number) as done, pytest.raises(QueryFailedError):
            engine.run("gold")
        assert len(done) == number - 1
        engine.run("gold")
        is_right_now(engine, COPY)
        engine.undo_last_commit(COPY.table)
        versions = [engine.version(table) for table in (COPY.table, COPY.deleted)]
        engine.run("gold")
        assert [engine.version(table) for table in (COPY.table, COPY.deleted)] == versions
        is_right_now(engine, COPY)

    source.insert(
        *(source.row(k, 5, "d" if k in "dr" else "u") for k in "dlrgu"),
        source.row("g", 1),
        source.row("s", 4),
    )
    cut(2)
    for number in (1, 2):
        base = 10 * number
        # One is deleted, one comes back, one is changed, one is new, one is new and deleted; older ones.
        source.insert(
            source.row("l", base, "d" if number == 1 else "u"),
            source.row("r", base, "u" if number == 1 else "d"),
            source.row("u", base),
            source.row(f"new{number}", 1),
            source.row(f"gone{number}", 1, "d"),
            source.row("d", 1),
            source.row("s", 1, "d"),
        )
        # The newest of one key leaves: what is left deletes it, or brings it back.
        source.insert(source.row("g", base - 1, "d" if number == 1 else "u"), source.row("g", base))
        source.delete(f"k = 'g' and version = {base}")
        cut(number)
    # Its checkpoint is lost: the first micro-batch takes the place of all that both tables have.
    source.delete("k = 'd'")
    engine.remove(engine.checkpoint(COPY.table))
    engine.run("gold")
    is_right_now(engine, COPY)


@pytest.mark.long
def test_of_a_table_laid_by_key_a_micro_batch_reads_the_files_of_its_keys_alone(
    spark: Any, tmp_path: Path
) -> None:
    """All other files of both tables are taken away: what looked into one would fail."""
    settings = make_settings(tmp_path, "none:1", "gold.max_files_per_trigger=1")
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=[COPY]), settings)
    source = Source(engine)
    source.insert(source.row("a0", 0))
    engine.run("gold")
    for letter in "abcd":
        source.insert(*(source.row(f"{letter}{n}", 5) for n in range(1, 9)), source.row(f"{letter}9", 5, "d"))
    engine.run("gold")
    assert min(len(engine.files(table)) for table in (COPY.table, COPY.deleted)) >= 4
    kept = {}
    for table in (COPY.table, COPY.deleted):
        for uri in engine.files(table):
            file = Path(urlparse(uri).path)
            keys = {row["k"] for row in spark.read.parquet(str(file)).select("k").collect()}
            if keys & {"c1", "c9"}:
                kept[table] = uri
            elif keys:
                file.unlink()
    assert set(kept) == {COPY.table, COPY.deleted}
    source.insert(source.row("c1", 6), source.row("c2", 6, "d"), source.row("c9", 4), source.row("c9", 7))
    engine.run("gold")
    for table in (COPY.table, COPY.deleted):
        assert kept[table] not in engine.files(table)
        merge = LogReader(engine.path(table)).commit(engine.version(table))
        assert merge is not None
        assert merge.operation == "MERGE"
        assert merge.removed_files == 1
    is_of_c = {row["k"]: row["version"] for row in spark_rows(engine, COPY.table, "k between 'c' and 'cz'")}
    assert is_of_c == {**{f"c{n}": 5 for n in range(3, 9)}, "c1": 6, "c9": 7}


def spark_rows(engine: Engine, table: str, condition: str) -> list[Any]:
    rows: list[Any] = engine.spark.read.format("delta").load(engine.path(table)).where(condition).collect()
    return rows


@pytest.mark.long
def test_a_row_that_a_newer_one_replaces_in_silver_asks_silver_for_nothing(
    spark: Any, tmp_path: Path
) -> None:
    """As a table with keep="newest" replaces its rows."""
    engine = Engine(spark, PIPELINE, make_settings(tmp_path, "none:1"))
    source = Source(engine)
    source.insert(*(source.row(k, 1) for k in "abc"))
    engine.run("gold")
    source.update("k <> 'c'", version="2", note="'newer'", _kafka_offset="_kafka_offset + 100")
    engine.run("gold")
    is_right_now(engine, *TABLES)
    for gold in TABLES:
        counts = next(notes(engine, gold.table))[1]["counts"]
        assert counts == {"keys": 2, "written": 2, "deleted": 0, "recomputed": 0}


@pytest.mark.long
def test_a_change_feed_gets_the_columns_that_silver_gets(spark: Any, tmp_path: Path) -> None:
    """Rows from then on have values in them; the columns' order is silver's."""
    clustered = replace(COPY, storage=Storage(cluster_by=["k"], change_feed=True))
    pipeline = Pipeline(
        name="shop",
        bronze=[Topic("orders")],
        gold=[clustered, replace(LATEST, storage=Storage(partition_by=["part"]))],
    )
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    source = Source(engine)
    source.insert(source.row("a", 1), source.row("b", 1), source.row("c", 1, "d"))
    engine.run("gold")
    field = engine.spark.createDataFrame([], "city string").schema[0]
    delta_table.add_columns(engine.spark, "shop", "silver.changes", engine.path("silver.changes"), [field])
    rows = [(*source.row(k, 2, op), city) for k, op, city in (("a", "u", "Bern"), ("c", "c", "Ulm"))]
    engine.append("silver.changes", rows, f"{SCHEMA}, city string")
    engine.run("gold")
    found = {row["k"]: row["city"] for row in engine.rows(clustered.table)}
    assert found == {"a": "Bern", "b": None, "c": "Ulm"}
    assert engine.rows(clustered.deleted) == []
    latest = engine.rows(LATEST.table)
    assert {row["k"]: row["version"] for row in latest} == {"a": 2, "b": 1, "c": 2}
    assert "city" not in latest[0]
    is_right_now(engine, clustered)


@pytest.mark.long
def test_a_change_of_no_known_kind_stops_the_query_until_it_is_declared(spark: Any, tmp_path: Path) -> None:
    """A message is passed over, a truncation is not; what was before it leaves as silver's rows do."""
    engine = Engine(spark, replace(PIPELINE, gold=[COPY]), make_settings(tmp_path, "none:1"))
    source = Source(engine)
    source.insert(source.row("a", 1), source.row("b", 1), source.row("m", 1, "m"))
    engine.run("gold")
    assert {row["k"] for row in engine.rows(COPY.table)} == {"a", "b"}
    source.insert(source.row("x", 5, "t"), source.row("b", 9))
    with pytest.raises(ChangeRefusedError, match=r"gold\.copy.* 1 keys .* t/0/4\. .*truncation") as refused:
        engine.run("gold")
    assert "x" not in str(refused.value).split("truncation")[0].split()
    assert {row["k"]: row["version"] for row in engine.rows(COPY.table)} == {"a": 1, "b": 1}
    source.delete("version < 5")
    going_on = Engine(spark, replace(PIPELINE, gold=[replace(COPY, ignores=("m", "t"))]), engine.settings)
    going_on.run("gold")
    assert {row["k"]: row["version"] for row in engine.rows(COPY.table)} == {"b": 9}
