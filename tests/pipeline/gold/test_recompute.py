"""Recomputed aggregates: what of silver is read, what is written, and what is told where a version is gone.

Their rows, through late rows, deletions, replays and lost checkpoints: test_random.py.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable as SparkTable

from common.declare import Aggregate, Pipeline, Session, Topic, Window
from common.delta import table as delta_table
from common.errors import TablesFailedError
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

SILVER = "silver.clicks"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = "n int, user string, at timestamp, amount int"
MEASURES = {"clicks": "count(*)", "last": "max_by(n, struct(at, n))"}


def recomputed(name: str, **how: Any) -> Aggregate:
    return Aggregate(
        name, reads=SILVER, mode="recompute", **{"measures": MEASURES, "where": "amount >= 0"} | how
    )


GOLD = (
    recomputed("plain", by={"user": "user", "parity": "amount % 2"}),
    recomputed("sliding", by=["user"], window=Window("at", size="1 hour", slide="30 minutes")),
    recomputed("sessions", by=["user"], window=Session("at", gap="10 minutes")),
)
TOUCHED = {"gold.plain": (0, 1), "gold.sliding": (2, 0), "gold.sessions": (1, 0)}
"""Groups that one more click of a user makes, and that it changes."""


class Ran:
    """Gold over a silver table of clicks; each commit has the next numbers."""

    def __init__(self, spark: Any, folder: Path, *gold: Aggregate) -> None:
        settings = make_settings(folder, "none:1", "gold.max_files_per_trigger=1")
        self.engine, self.n = (
            Engine(spark, Pipeline("clicks", bronze=[Topic("clicks")], gold=gold), settings),
            0,
        )
        empty = spark.createDataFrame([], SCHEMA).schema
        feed = {"delta.enableChangeDataFeed": "true"}
        delta_table.ensure(spark, SILVER, self.engine.path(SILVER), empty, feed)

    def append(self, *rows: tuple[str, float | None, int]) -> None:
        """One commit: users, minutes after noon, amounts."""
        whole = []
        for user, minute, amount in rows:
            self.n += 1
            whole.append((self.n, user, None if minute is None else NOON + timedelta(minutes=minute), amount))
        self.engine.append(SILVER, whole, SCHEMA)

    def silver(self) -> Any:
        """Silver, for a delete or a compaction."""
        return SparkTable.forPath(self.engine.spark, self.engine.path(SILVER))

    def clicks(self) -> Counter[str]:
        """Clicks per user, as the table without windows has them."""
        found: Counter[str] = Counter()
        for row in self.engine.rows("gold.plain"):
            found[row["user"]] += row["clicks"]
        return found


@pytest.fixture
def ran(spark: Any, tmp_path: Path) -> Ran:
    """A first state of two commits."""
    made = Ran(spark, tmp_path, *GOLD)
    made.append(("a", 0, 1), ("a", 5, 2), ("b", 0, 1))
    made.append(("a", 40, 5), ("b", 100, -7))
    made.engine.run("gold")
    return made


def test_what_is_not_touched_and_what_stays_equal_is_neither_read_nor_written(ran: Ran) -> None:
    """The first state is read once; then one more row of one user, and one that its condition leaves out."""
    first = {gold.table: len(ran.engine.commits(gold.table)) for gold in GOLD}
    for table, number in first.items():
        counts = [one["counts"] for one in ran.engine.commits(table)]
        assert number >= 2
        assert [one["covers"] for one in counts] == [2] * number
        assert counts[1:] == [{"groups": 0, "covers": 2}] * (number - 1)
    ran.append(("b", 1000, 1))
    ran.append(("b", 2000, -1))
    ran.engine.run("gold")
    for table, (inserted, updated) in TOUCHED.items():
        changed, equal = [one["counts"] for one in ran.engine.commits(table)[first[table] :]]
        written = {"groups": inserted + updated, "inserted": inserted, "updated": updated, "deleted": 0}
        assert changed == {**written, "covers": 3}
        assert equal == {"groups": 0, "covers": 4}
    assert ran.clicks() == {"a": 3, "b": 2}


def test_a_version_of_silver_that_is_gone_is_told_with_what_to_do(spark: Any, ran: Ran) -> None:
    """The feed of a commit whose files were vacuumed; with its checkpoint moved away the table is right."""
    ran.append(("h", 0, 1))
    ran.silver().delete("user = 'h'")
    ran.append(("h", 5, 2))
    ran.silver().optimize().executeCompaction()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    ran.silver().vacuum(0)
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(TablesFailedError) as failed:
        ran.engine.run("gold")
    for gold in GOLD:
        assert re.search(rf"{gold.table}: silver\.clicks .*medallion rebuild gold", str(failed.value))
    for gold in GOLD:
        ran.engine.remove(ran.engine.checkpoint(gold.table))
    ran.engine.run("gold")
    assert ran.clicks() == {"a": 3, "b": 1, "h": 1}


def test_groups_by_a_window_of_time_are_recomputed(spark: Any, tmp_path: Path) -> None:
    """Spark computes a window in a projection alone, and not in the condition of a join."""
    by = {"hour": "window(at, '1 hour').start", "user": "upper(user)"}
    measures = {"clicks": "count(*)", "all": "array_sort(collect_set(n))"}
    ran = Ran(spark, tmp_path, recomputed("by_hour", by=by, measures=measures))
    ran.append(("a", 0, 1), ("a", 60, 1), ("b", None, 1))
    ran.engine.run("gold")
    ran.append(("A", 30, 1), ("b", 0, 1))
    ran.engine.run("gold")
    rows = ran.engine.rows("gold.by_hour")
    found = {(row["hour"], row["user"]): (row["clicks"], row["all"]) for row in rows}
    later = NOON + timedelta(hours=1)
    assert found == {(NOON, "A"): (2, [1, 4]), (later, "A"): (1, [2]), (NOON, "B"): (1, [5])}
