"""Aggregates whose windows close: after every micro-batch each table is what an oracle says.

Those that stay open: test_random.py compares them with DuckDB.

Rows come in disorder, twice late by the watermark, with null groups and times; the job is started anew,
dies before and after a write, and loses checkpoints.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Aggregate, Pipeline, Session, Topic, Window
from common.errors import HistoryGoneError
from common.spark.session_conf import STATE_STORES
from common.streaming.query import RunningQuery
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.window_oracle import Row, Sessions, Table, Windows, kept

pytestmark = pytest.mark.long

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTES = timedelta(minutes=1)
DELAY = 10 * MINUTES
MICROSECOND = timedelta(microseconds=1)
SCHEMA = "k string, at timestamp, amount bigint"
ALL = {"orders": "count(*)", "total": "sum(amount)", "most": "max(amount)"}
TUMBLING, SLIDING = Window("at", "10 minutes"), Window("at", "10 minutes", "5 minutes")
SESSION = Session("at", "5 minutes")


def aggregate(name: str, **declared: Any) -> Aggregate:
    given = {"by": ["k"], "measures": ALL, "where": "amount >= 0"}
    if "window" in declared:
        end = "window_end" if isinstance(declared["window"], Session) else "max(window_end)"
        given["measures"] = ALL | {"length": f"unix_micros({end}) - unix_micros(window_start)"}
    return Aggregate(name, reads="silver.orders", **given | declared)


CLOSING = {"watermark": "10 minutes"}
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    gold=[
        aggregate("update_groups", mode="update", measures={"most": "max(amount)"}),
        aggregate("update_closing", mode="update", window=TUMBLING, **CLOSING),
        aggregate("append_windows", mode="append", window=SLIDING, **CLOSING),
        aggregate("append_sessions", mode="append", window=SESSION, **CLOSING),
    ],
)
TABLES = [gold.table for gold in PIPELINE.gold]
TUMBLED, SLID = Windows(10 * MINUTES, 10 * MINUTES), Windows(10 * MINUTES, 5 * MINUTES)
Expected = tuple[Table, int | None]


def groups(batches: Sequence[Sequence[Row]]) -> Table:
    """The greatest amount per ``k``; rows without a time count."""
    found: dict[str | None, list[int]] = {}
    for k, _, amount in (row for rows in batches for row in rows):
        if amount is not None and amount >= 0:
            found.setdefault(k, []).append(amount)
    return Counter((k, max(amounts)) for k, amounts in found.items())


ORACLE: dict[str, Callable[[Sequence[Sequence[Row]]], Expected]] = {
    "gold.update_groups": lambda batches: (groups(batches), None),
    "gold.update_closing": lambda batches: TUMBLED.under(batches, DELAY, closed_only=False),
    "gold.append_windows": lambda batches: SLID.under(batches, DELAY, closed_only=True),
    "gold.append_sessions": lambda batches: Sessions(5 * MINUTES).closed(batches, DELAY),
}


def row(k: str | None, minute: float | None, amount: int | None) -> Row:
    return k, None if minute is None else NOON + minute * MINUTES, amount


COMMITS: list[list[Row]] = [
    [
        *(row("a", 1, 1), row("a", 12, 2), row("b", 3, 4), row(None, 4, 8), row("b", None, 16)),
        *(row(None, None, 32), row("a", 2, -1), row("a", 2, None), row("a", 999, -1)),
        row("a", -30_000_000, 0),  # of 1969, before Spark's first watermark
    ],
    [row("a", 25, 64), row("a", 5, 128), row("b", 14, 256), row(None, 4.5, 512), row("a", 17, 1024)],
    # In time, because its window, or session, is still open by the watermark of the batch before.
    [row("b", 7, 2048), row("b", 8.5, 4096), row("c", 29, 3)],
    # What silver merged when it was too late for gold: windows to noon and ten are closed, others not.
    [row("a", 6, 8192), row("a", 6, 5), row("b", 11, 16384), row("c", -30, 7), row("a", 1e5, None)],
    [row("a", 60, 9), row(None, 35, 10), row("c", 34, 11), row("c", 39, 12)],
    # Nothing for an open window but one row.
    [
        *(row("a", None, 0), row("b", 61, -5), row(None, None, None)),
        *(row(k, 2, 6) for k in "ab"),
        row("c", 41, 6),
    ],
    [row("d", 90, 1), row("a", 62, 8192)],
]


class Ran:
    """A run over some commits of silver, and what its tables say of themselves."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder, self.queries = engine, folder, list[RunningQuery]()
        self.commits = iter(COMMITS)

    def take(self, number: int) -> None:
        """So many more commits in silver, and a run until they are done."""
        for rows in [next(self.commits) for _ in range(number)]:
            self.engine.append("silver.orders", rows, SCHEMA)
        self.run()

    def run(self) -> None:
        self.queries = self.engine.run("gold")

    def batches(self, table: str, query_id: str) -> Iterator[tuple[int, dict[str, Any], list[list[Row]]]]:
        """Per micro-batch of a checkpoint: gold's version, what it says, and the rows of each so far."""
        taken: list[list[Row]] = []
        told: dict[str, Any]
        for commit in reversed(self.engine.history(table)):
            if "userMetadata" not in commit:
                continue
            told = json.loads(commit["userMetadata"])
            if told["query_id"] != query_id:
                continue
            position = told["positions"][0]
            read = int(position["reservoirVersion"])
            if not position["isStartingVersion"] and int(position["index"]) < 0:
                read -= 1
            before = sum(map(len, taken))
            rows = [row for rows in COMMITS[: read + 1] for row in rows]
            taken.append(rows[before:])
            yield int(commit["version"]), told, list(taken)

    def check(self, table: str) -> int:
        """Every micro-batch of the checkpoint that is there now; how many had no row."""
        query_id = json.loads((self.engine.checkpoint(table) / "metadata").read_text())["id"]
        empty, batches = 0, list[list[Row]]()
        for place, (version, told, batches) in enumerate(self.batches(table, query_id)):
            assert told["batch_id"] == place, table
            expected, late = ORACLE[table](batches)
            assert self.table(table, version) == expected, (table, place)
            assert told["counts"].get("late") == late, (table, place)
            # Only the first micro-batches have Spark's first watermark, 1970: what that drops was not late.
            assert told["counts"].get("before_1970") == (late or None if place == 0 else None), (table, place)
            empty += not batches[-1]
        assert list(itertools.chain(*batches)) == list(itertools.chain(*COMMITS))
        return empty

    def table(self, table: str, version: int | None = None) -> Table:
        found = DeltaTable(self.engine.path(table), version=version).to_pyarrow_table().to_pylist()
        for one in found:
            if "length" in one:
                assert one.pop("length") == (one["window_end"] - one["window_start"]) // MICROSECOND
        return Counter(tuple(one.values()) for one in found)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A commit per micro-batch, in three runs; in the last every query may have batches without rows."""
    folder = tmp_path_factory.mktemp("aggregate")
    settings = make_settings(folder, "none:1", "gold.max_files_per_trigger=1")
    made = Ran(Engine(spark, PIPELINE, settings), folder)
    made.take(1)
    made.take(4)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    try:
        made.take(2)
    finally:
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return made


@pytest.mark.parametrize("table", TABLES)
def test_after_every_micro_batch_the_table_is_what_the_oracle_says(ran: Ran, table: str) -> None:
    """With what was late in each; an append table closes at the end of a run what is to be closed."""
    empty = ran.check(table)
    assert empty == {"gold.append_windows": 3, "gold.append_sessions": 3, "gold.update_closing": 1}.get(
        table, 0
    )


def test_what_comes_after_the_watermark_is_late_or_taken(ran: Ran) -> None:
    """Silver's late rows: counted by the tables that closed their window, taken by the one that has none."""
    late = {
        table: sum(commit["counts"].get("late", 0) for commit in ran.engine.commits(table))
        for table in TABLES
    }
    assert {table for table, count in late.items() if count} == set(TABLES[1:])
    all_rows = [row for rows in COMMITS for row in kept(rows)]
    assert sum(one["orders"] for one in ran.engine.rows("gold.update_closing")) < len(all_rows)


def test_rows_that_do_not_change_are_not_written(ran: Ran) -> None:
    """Neither by a micro-batch of other groups or lower amounts, nor by one that only closes windows."""
    (query_id,) = {commit["query_id"] for commit in ran.engine.commits("gold.update_groups")}
    told = [(version, each["counts"]) for version, each, _ in ran.batches("gold.update_groups", query_id)]
    assert [counts["groups"] for _, counts in told[1:]] == [3, 2, 3, 3, 3, 2]
    assert [counts["updated"] for _, counts in told[1:]] == [3, 1, 3, 1, 0, 0]
    assert [counts["inserted"] for _, counts in told[1:]] == [0, 1, 0, 0, 0, 1]
    files = ran.engine.files
    assert files("gold.update_groups", told[5][0]) == files("gold.update_groups", told[4][0])
    last = ran.engine.version("gold.update_closing")
    assert ran.engine.commits("gold.update_closing")[-1]["counts"]["groups"] == 0
    assert files("gold.update_closing", last) == files("gold.update_closing", last - 1)


def test_a_closed_window_is_written_once(ran: Ran) -> None:
    """No file of an append table is ever removed, but by the first micro-batch."""
    for table in TABLES[2:]:
        added = [ran.engine.files(table, version) for version in range(1, ran.engine.version(table) + 1)]
        assert all(before <= after for before, after in itertools.pairwise(added))
        rows = ran.engine.rows(table)
        assert len({(one["k"], one["window_start"], one["window_end"]) for one in rows}) == len(rows)


def test_states_are_partitioned_as_configured(spark: Any, ran: Ran) -> None:
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    found = {
        (query.name, operator["numShufflePartitions"])
        for query in ran.queries
        for report in query.progress()
        for operator in report["stateOperators"]
    }
    assert found == {(table, partitions) for table in TABLES}


def test_a_death_before_or_after_the_write_leaves_the_same(spark: Any, ran: Ran) -> None:
    """The last micro-batch is done again: its commit is there, or it is not."""
    before = {table: (ran.engine.version(table), ran.table(table)) for table in TABLES}
    for place, table in enumerate(TABLES):
        ran.engine.undo_last_commit(table)
        if place % 2:
            log = Path(ran.engine.path(table)) / "_delta_log" / f"{before[table][0]:020}"
            log.with_suffix(".json").unlink()
            log.with_suffix(".crc").unlink(missing_ok=True)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # it saw what is gone
    ran.run()
    assert {table: (ran.engine.version(table), ran.table(table)) for table in TABLES} == before


def test_a_lost_checkpoint_fills_the_table_anew(spark: Any, ran: Ran) -> None:
    """In other cuts, and with states in RocksDB, as by default; silver is read in its order again."""
    lost = TABLES[1:]
    for table in lost:
        ran.engine.remove(ran.engine.checkpoint(table))
    settings = make_settings(ran.folder, "none:1", "gold.max_files_per_trigger=3")
    gold = [table for table in PIPELINE.gold if table.table in lost]
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORES["rocksdb"])
    try:
        Engine(spark, Pipeline("shop", bronze=[Topic("orders")], gold=gold), settings).run("gold")
    finally:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORES["memory"])
    for table in lost:
        ran.check(table)


def test_a_watermark_needs_silvers_first_commits(spark: Any, ran: Ran) -> None:
    """Without them old rows would be late; one that has begun needs them no more."""
    settings = ran.engine.settings
    begun = Engine(spark, Pipeline("shop", bronze=[Topic("a")], gold=[PIPELINE.gold[1]]), settings)
    other = aggregate("other", mode="update", window=TUMBLING, **CLOSING)
    first = Path(ran.engine.path("silver.orders")) / "_delta_log" / f"{0:020}.json"
    first.rename(first.with_suffix(".away"))
    try:
        with pytest.raises(HistoryGoneError, match=r"gold\.other: reads silver\.orders in the order"):
            Engine(spark, Pipeline("shop", bronze=[Topic("a")], gold=[other]), settings).run("gold")
    finally:
        first.with_suffix(".away").rename(first)
    begun.run("gold")
