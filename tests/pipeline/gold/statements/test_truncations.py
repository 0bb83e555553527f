"""A truncation takes away what is before it, however changes are cut into micro-batches; the oracle is Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.declare import ChangeFeed, History, Pipeline, Topic
from common.delta import table as delta_table
from silver.write.table_columns import properties
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

LEFT = "__debezium_unavailable_value"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = (
    "k string, n int, op string, a string, _kafka_topic string, _kafka_partition int,"
    "_kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
CUTS = 5
FEED = ChangeFeed(
    "feed",
    reads="silver.changes",
    key=["k"],
    sequence_by=["n"],
    columns=["k", "n", "a"],
    where="a is not null or op = 'd'",
    truncates="op = 't' or (op = 'r' and a = 'last')",
)
STATES = History(
    "states",
    reads="silver.changes",
    key=["k"],
    valid_by="n",
    columns=["a"],
    delete_when="op = 'd'",
    where="a is not null or op = 'd'",
    truncates="op = 't' or (op = 'r' and a = 'last')",
)


@dataclass(frozen=True)
class Change:
    """One change, where it is in the source's log, and the micro-batch in which it comes."""

    k: str | None
    n: int
    op: str
    a: str | None
    cut: int
    offset: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order."""
        return self.n, self.offset

    @property
    def empties(self) -> tuple[int, int] | None:
        """What is before this place is gone; None for a change of its row alone."""
        if self.op == "t":
            return self.place
        return (self.n, -1) if (self.op, self.a) == ("r", "last") else None


def changes(chance: random.Random, keys: int) -> Iterator[Change]:
    """Changes of rows in any order, some at one place of the log; truncations, and ends of a snapshot."""
    for key in range(keys):
        for _ in range(chance.randint(1, 6)):
            n, op = chance.randint(1, 40), chance.choice("cuuuud")
            yield Change(f"k{key}", n, op, chance.choice((LEFT, f"v{n}", "w")), chance.randrange(CUTS))
    for op in "trt":
        n, key = chance.randint(10, 40), "k1" if op == "r" else None
        yield Change(key, n, op, "last" if op == "r" else None, chance.randrange(1, CUTS))


def copied(every: Sequence[Change]) -> list[dict[str, Any]]:
    """The newest row of each key since the last truncation, with values from before that it left alone."""
    since = max((one.empties for one in every if one.empties is not None), default=(-1, -1))
    rows: dict[str, dict[str, Any] | None] = {}
    for one in sorted(every, key=lambda one: one.place):
        if one.k is None or one.place < since:
            continue
        before = rows.get(one.k) or {"a": None}
        rows[one.k] = {"k": one.k, "n": one.n, "a": before["a"] if one.a == LEFT else one.a}
        if one.op == "d":
            rows[one.k] = None
    return sorted((row for row in rows.values() if row is not None), key=lambda row: str(row["k"]))


def states(every: Sequence[Change]) -> list[tuple[str, str | None, int, int | None]]:
    """Each state of a key with its interval: of changes at one time the last counts."""
    of_key: dict[str, list[Change]] = defaultdict(list)
    for one in every:
        if one.k is not None:
            of_key[one.k].append(one)
    ends = [one.empties for one in every if one.empties is not None]
    found: list[tuple[str, str | None, int, int | None]] = []
    for key, own in of_key.items():
        value, at_time = None, {}
        steps = [(one.place, one) for one in own] + [(place, None) for place in ends]
        for (n, _), one in sorted(steps, key=lambda step: step[0]):
            if one is None or one.op == "d":
                value = None
            else:
                value = ((value or [None])[0] if one.a == LEFT else one.a,)
            at_time[n] = value
        begun: tuple[tuple[str | None], int] | None = None
        for n, value in sorted(at_time.items()):
            if begun is not None and value != begun[0]:
                found.append((key, begun[0][0], begun[1], n))
                begun = None
            if begun is None and value is not None:
                begun = value, n
        if begun is not None:
            found.append((key, begun[0][0], begun[1], None))
    return sorted(found, key=str)


def cut_off(engine: Engine) -> None:
    """As if the last micro-batch had been cut off between the deleted keys and the table."""
    last = engine.version(FEED.table)
    for file in (Path(engine.path(FEED.table)) / "_delta_log").glob(f"{last:020}.*"):
        file.unlink()
    engine.undo_last_commit(FEED.table)


@pytest.mark.parametrize(("rows_in_driver", "keys"), [(200_000, 60), (0, 400)], ids=["driver", "spark"])
def test_a_truncation_takes_away_what_is_before_it(
    spark: Any, tmp_path: Path, rows_in_driver: int, keys: int
) -> None:
    """Late ones too, and late changes from before one; one that silver takes back has never been."""
    seed = 66 + keys
    drawn = [
        Change(one.k, one.n, one.op, one.a, one.cut, offset)
        for offset, one in enumerate(sorted(changes(random.Random(seed), keys), key=lambda one: one.cut))
    ]
    settings = make_settings(tmp_path, "none:1", f"driver.batch_rows={rows_in_driver}")
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=[FEED, STATES]), settings)
    schema = spark.createDataFrame([], SCHEMA).schema
    delta_table.ensure(spark, "silver.changes", engine.path("silver.changes"), schema, properties())

    def compare(every: Sequence[Change]) -> None:
        engine.run("gold")
        have = [{name: row[name] for name in ("k", "n", "a")} for row in engine.rows(FEED.table)]
        assert sorted(have, key=lambda row: row["k"]) == copied(every)
        kept = [(row["k"], row["a"], row["valid_from"], row["valid_to"]) for row in engine.rows(STATES.table)]
        assert sorted(kept, key=str) == states(every)

    for cut in range(CUTS):
        came = [one for one in drawn if one.cut == cut]
        rows = [(one.k, one.n, one.op, one.a, "t", 0, one.offset, NOON, NOON) for one in came]
        engine.append("silver.changes", rows, SCHEMA)
        compare([one for one in drawn if one.cut <= cut])
        if any(one.empties for one in came):
            cut_off(engine)
            compare([one for one in drawn if one.cut <= cut])
    _, newest = max((one.empties, one) for one in drawn if one.empties is not None)
    (since,) = (row for row in engine.rows(FEED.deleted) if row["k"] is None)
    assert since["n"] == max(one.n for one in drawn if one.empties is not None)
    from delta.tables import DeltaTable as Written

    Written.forPath(spark, engine.path("silver.changes")).delete(f"_kafka_offset = {newest.offset}")
    compare([one for one in drawn if one is not newest])
