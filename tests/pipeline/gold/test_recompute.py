"""Recomputed aggregates: after every micro-batch what plain Python makes of silver at that version.

Rows come late and out of order, move from one group to another, and are deleted; a commit may come in
several micro-batches, and the first state of silver in many.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable
from pyspark.sql import functions as F

from common.declare import Aggregate, Pipeline, Session, Topic, Window
from common.delta import table as delta_table
from common.errors import HistoryGoneError
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

SILVER = "silver.clicks"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = "n int, user string, at timestamp, amount int"
GAP = timedelta(minutes=10)
MICROSECOND = timedelta(microseconds=1)
MEASURES = {
    "clicks": "count(*)",
    "amounts": "count(distinct amount)",
    "middle": "percentile(amount, 0.5)",
    "last": "max_by(n, struct(at, n))",
    "all": "array_sort(collect_set(n))",
}
WHERE = "amount >= 0"
PLAIN = Aggregate(
    "plain",
    reads=SILVER,
    by={"user": "user", "parity": "amount % 2"},
    measures=MEASURES,
    where=WHERE,
    mode="recompute",
)
SLIDING = Aggregate(
    "sliding",
    reads=SILVER,
    by=["user"],
    window=Window("at", size="1 hour", slide="30 minutes"),
    measures=MEASURES | {"length": "max(unix_micros(window_end)) - unix_micros(window_start)"},
    where=WHERE,
    mode="recompute",
)
SESSIONS = Aggregate(
    "sessions",
    reads=SILVER,
    by=["user"],
    window=Session("at", gap="10 minutes"),
    measures=MEASURES | {"length": "unix_micros(window_end) - unix_micros(window_start)"},
    where=WHERE,
    mode="recompute",
)
TABLES = (PLAIN, SLIDING, SESSIONS)
PIPELINE = Pipeline(name="clicks", bronze=[Topic("clicks")], gold=list(TABLES))

Row = dict[str, Any]


def measured(rows: list[Row]) -> tuple[Any, ...]:
    """The measures of one group."""
    amounts = sorted(row["amount"] for row in rows)
    half = (len(amounts) - 1) / 2
    middle = (amounts[int(half)] + amounts[-int(-half // 1)]) / 2
    last = max(rows, key=lambda row: (row["at"] is not None, row["at"] or NOON, row["n"]))["n"]
    return len(rows), len(set(amounts)), middle, last, tuple(sorted(row["n"] for row in rows))


def plain(rows: list[Row]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    yield from _grouped(rows, lambda row: [(row["user"], row["amount"] % 2)])


def sliding(rows: list[Row]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    def of(row: Row) -> list[tuple[Any, ...]]:
        half = row["at"].replace(minute=row["at"].minute // 30 * 30, second=0)
        starts = (half, half - timedelta(minutes=30))
        return [(row["user"], start, start + timedelta(hours=1)) for start in starts]

    yield from _grouped([row for row in rows if row["at"] is not None], of)


def sessions(rows: list[Row]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    for (user,), own in _grouped(
        [row for row in rows if row["at"] is not None], lambda row: [(row["user"],)]
    ):
        session: list[Row] = []
        for row in sorted(own, key=lambda row: row["at"]):
            if session and row["at"] - session[-1]["at"] > GAP:
                yield (user, session[0]["at"], session[-1]["at"] + GAP), session
                session = []
            session.append(row)
        yield (user, session[0]["at"], session[-1]["at"] + GAP), session


def _grouped(
    rows: list[Row], of: Callable[[Row], list[tuple[Any, ...]]]
) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    groups = defaultdict(list)
    for row in rows:
        for group in of(row):
            groups[group].append(row)
    yield from groups.items()


GROUPS = {"plain": plain, "sliding": sliding, "sessions": sessions}


def oracle(name: str, rows: list[Row]) -> set[tuple[Any, ...]]:
    """What the table is to be."""
    kept = [row for row in rows if row["amount"] is not None and row["amount"] >= 0]
    found = {(*group, *measured(own)) for group, own in GROUPS[name](kept)}
    return found if name == "plain" else {(*row, (row[2] - row[1]) // MICROSECOND) for row in found}


class Ran:
    """An engine, and what its tables were at each version."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.path = engine.path(SILVER)
        self.n = 0
        delta_table.ensure(
            engine.spark,
            SILVER,
            self.path,
            engine.spark.createDataFrame([], SCHEMA).schema,
            {"delta.enableChangeDataFeed": "true", "delta.minReaderVersion": "1"},
        )

    def append(self, *rows: tuple[str | None, float | None, int | None], files: int = 1) -> None:
        """One commit: users, minutes after noon, amounts."""
        values = []
        for user, minute, amount in rows:
            self.n += 1
            values.append(
                (self.n, user, None if minute is None else NOON + timedelta(minutes=minute), amount)
            )
        frame = self.engine.spark.createDataFrame(values, SCHEMA)
        frame = frame.coalesce(1) if files == 1 else frame.repartitionByRange(files, "n")
        metadata = delta_table.maintenance_metadata("shop", "silver.orders", "repair")
        delta_table.append_with_metadata(frame, self.path, metadata)

    def silver(self) -> Any:
        """Silver, for a delete or an update."""
        return SparkTable.forPath(self.engine.spark, self.path)

    def at(self, table: str, version: int | None = None) -> list[Row]:
        """Rows as they were."""
        found: list[Row] = DeltaTable(self.engine.path(table), version=version).to_pyarrow_table().to_pylist()
        return found

    def found(self, name: str, version: int | None = None) -> list[tuple[Any, ...]]:
        """A gold table's rows as the oracle has them."""
        rows = self.at(f"gold.{name}", version)
        return [tuple(tuple(v) if isinstance(v, list) else v for v in row.values()) for row in rows]

    def is_right(self, name: str) -> bool:
        """Whether a gold table is what silver now makes it, each row once."""
        found = self.found(name)
        assert len(found) == len(set(found))
        return set(found) == oracle(name, self.at(SILVER))


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run that most tests look at: two starts, one micro-batch per file."""
    settings = make_settings(tmp_path_factory.mktemp("recompute"), "none:1", "gold.max_files_per_trigger=1")
    made = Ran(Engine(spark, PIPELINE, settings))
    made.append(("a", 0, 1), ("a", 5, 2), ("b", 0, 1), (None, 0, 4), ("a", None, 3), ("c", 1, None), files=2)
    made.append(("a", 40, 5), ("b", 100, 7), ("d", 0, -1))
    made.silver().delete("user = 'b' AND amount = 7")
    made.engine.run("gold")
    # A gap after one and a gap before another; late; between two sessions; null.
    made.append(("a", 15, 6), ("a", 30, 7), ("a", -200, 9), ("e", 20, 2), (None, 9, 4), ("a", 22, 8))
    # The only row of a group moves to another, and one begins to count.
    made.silver().update("user IN ('d', 'e')", {"user": F.lit("f"), "amount": F.abs("amount") + 1})
    made.silver().delete("n = 15 OR user IS NULL")  # splits a session
    made.append(*(("g", 3 * i, i) for i in range(6)), files=3)  # in three micro-batches
    made.silver().optimize().executeCompaction()
    chance = random.Random(5)  # noqa: S311
    for _ in range(2):
        users, minutes = ("a", "b", "g", None), range(-60, 240)
        made.append(
            *((chance.choice(users), chance.choice(minutes), chance.randrange(-1, 9)) for _ in range(12))
        )
    made.silver().delete("n % 5 = 2")
    made.engine.run("gold")
    return made


@pytest.mark.parametrize("name", GROUPS)
def test_after_every_micro_batch_a_table_is_what_silver_makes_it(ran: Ran, name: str) -> None:
    """In the middle of a commit too: the first micro-batch of it takes it whole."""
    table = f"gold.{name}"
    told = {one["batch_id"]: one for one in ran.engine.commits(table)}
    history = {one["version"]: one for one in ran.engine.history(table) if "userMetadata" in one}
    assert len(told) == len(history) >= 10
    read_to = [_read_to(told[number]["positions"][0]) for number in sorted(told)]
    assert read_to[0] == 3
    assert read_to[-1] == ran.engine.version(SILVER)
    for number, version in enumerate(sorted(history)):
        found = ran.found(name, version)
        assert len(found) == len(set(found))
        want = oracle(name, ran.at(SILVER, read_to[number]))
        assert set(found) == want, f"version {version}, micro-batch {number}, silver {read_to[number]}"
        assert told[number]["counts"]["covers"] == read_to[number]
    parts = [one for one in told.values() if one["positions"][0]["index"] >= 0]
    assert sum(not one["positions"][0]["isStartingVersion"] for one in parts) >= 2


def _read_to(position: dict[str, Any]) -> int:
    whole = position["isStartingVersion"] or position["index"] >= 0
    return int(position["reservoirVersion"]) - (0 if whole else 1)


def test_the_first_state_of_silver_is_read_once(ran: Ran) -> None:
    """By the first micro-batch, which writes it whole; the others of it write nothing."""
    for name in GROUPS:
        commits = ran.engine.commits(f"gold.{name}")
        first = [one for one in commits if one["positions"][0]["isStartingVersion"]]
        assert len(first) >= 2
        assert first[0]["counts"]["covers"] == 3
        assert [one["counts"] for one in first[1:]] == [{"groups": 0, "covers": 3}] * (len(first) - 1)


def test_groups_that_are_not_touched_and_rows_that_stay_equal_are_not_written(ran: Ran) -> None:
    """One more row of one user, and one that its condition leaves out."""
    ran.append(("b", 1000, 1))
    ran.append(("b", 2000, -1))
    ran.engine.run("gold")
    for name in GROUPS:
        assert ran.is_right(name)
        last = ran.engine.commits(f"gold.{name}")[-2:]
        touched = {"plain": (0, 1), "sliding": (2, 0), "sessions": (1, 0)}[name]
        assert last[0]["counts"] == {
            "groups": sum(touched),
            "inserted": touched[0],
            "updated": touched[1],
            "deleted": 0,
            "covers": ran.engine.version(SILVER) - 1,
        }
        assert last[1]["counts"] == {"groups": 0, "covers": ran.engine.version(SILVER)}


def test_a_replayed_micro_batch_writes_nothing(ran: Ran) -> None:
    versions = {name: ran.engine.version(f"gold.{name}") for name in GROUPS}
    for name in GROUPS:
        ran.engine.undo_last_commit(f"gold.{name}")
    ran.engine.run("gold")
    assert {name: ran.engine.version(f"gold.{name}") for name in GROUPS} == versions
    assert all(map(ran.is_right, GROUPS))


def test_a_lost_checkpoint_fills_the_table_anew(ran: Ran) -> None:
    """With rows in it that no silver row stands for: they go."""
    for name in GROUPS:
        ran.engine.remove(ran.engine.checkpoint(f"gold.{name}"))
    ran.silver().delete("user = 'a'")
    ran.engine.run("gold")
    assert all(map(ran.is_right, GROUPS))


def test_a_version_of_silver_that_is_gone_is_told_with_what_to_do(spark: Any, ran: Ran) -> None:
    """The feed of a commit whose files were vacuumed; with its checkpoint moved away the table is right."""
    ran.append(("h", 0, 1))
    ran.silver().delete("user = 'h'")
    ran.append(("h", 5, 2))
    ran.silver().optimize().executeCompaction()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    ran.silver().vacuum(0)
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(HistoryGoneError, match=r"gold\.\w+: silver\.clicks .*medallion rebuild gold"):
        ran.engine.run("gold")
    for name in GROUPS:
        ran.engine.remove(ran.engine.checkpoint(f"gold.{name}"))
    ran.engine.run("gold")
    assert all(map(ran.is_right, GROUPS))


def test_groups_by_a_window_of_time_are_recomputed(spark: Any, tmp_path: Path) -> None:
    """Spark computes a window in a projection alone, and not in the condition of a join."""
    gold = Aggregate(
        "by_hour",
        reads=SILVER,
        by={"hour": "window(at, '1 hour').start", "user": "upper(user)"},
        measures={"clicks": "count(*)", "all": "array_sort(collect_set(n))"},
        mode="recompute",
    )
    pipeline = Pipeline(name="clicks", bronze=[Topic("clicks")], gold=[gold])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    empty = spark.createDataFrame([], SCHEMA).schema
    delta_table.ensure(spark, SILVER, engine.path(SILVER), empty, {"delta.enableChangeDataFeed": "true"})
    hour = timedelta(hours=1)
    engine.append(SILVER, [(1, "a", NOON, 1), (2, "a", NOON + hour, 1), (3, "b", None, 1)], SCHEMA)
    engine.run("gold")
    engine.append(SILVER, [(4, "A", NOON + hour / 2, 1), (5, "b", NOON, 1)], SCHEMA)
    engine.run("gold")
    found = {(row["hour"], row["user"]): (row["clicks"], row["all"]) for row in engine.rows("gold.by_hour")}
    assert found == {(NOON, "A"): (2, [1, 4]), (NOON + hour, "A"): (1, [2]), (NOON, "B"): (1, [5])}
