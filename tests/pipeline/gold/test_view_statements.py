"""Drawn statements, over drawn histories of their tables: a view equals its statement after every commit.

Each statement is written through several micro-batches, some of them a second time, and compared with Spark
and, where both dialects say the same, with DuckDB, over the versions that the commit names.
``VIEW_STATEMENTS=5000`` draws so many, ``VIEW_SEED=7`` others; a statement that fails is made smaller before
it is shown with its seed.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from common.declare import Json, Pipeline, Silver, Topic, View
from common.delta.micro_batch import MicroBatch
from common.sql.statement import read_statement
from common.sql.way import way_of
from gold.source.stream import at_version
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine
from tests.support.oracles.view_statements import COLUMNS, Query, draw, smaller

STATEMENTS = int(os.environ.get("VIEW_STATEMENTS", "312"))
SEED = int(os.environ.get("VIEW_SEED", "1"))
PARTS = 24
"""Two for each shard: thirteen statements take a slow machine some seven minutes."""
STATEMENTS_PER_HISTORY = 25
MOST_TRIES = 20
CRASHES: list[dict[int, bool]] = [{}, {}, {}, {0: False}, {0: True}]
"""The write at which a micro-batch dies, before it or after it; then it is written once more."""
KEYS = {"silver.orders": "order_id", "silver.customers": "customer", "silver.products": "product"}
NAMES = ["a", "b", "c", "ab", None]
"""Values of the columns that tables are joined by."""


@dataclass
class History:
    """Three silver tables, and the versions that they had after each round of changes."""

    spark: Any
    folder: Path
    random: Random
    rounds: list[dict[str, int]] = field(default_factory=list)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.engine = self.with_views({})
        for table, columns in COLUMNS.items():
            self.spark.sql(
                f"create table delta.`{self.engine.path(table)}` ({columns}) using delta "
                "tblproperties (delta.enableChangeDataFeed = true)"
            )
            self._append(table, 8 if table == "silver.orders" else 3)
        self._end_round()
        for _ in range(6):
            for _ in range(self.random.choice([1, 1, 2, 3])):
                self._change()
            self._end_round()

    def with_views(self, statements: Mapping[str, str]) -> Engine:
        """An engine over the same tables, with these views."""
        tables = [
            Silver(
                table.partition(".")[2],
                reads=f"bronze.{table.partition('.')[2]}",
                value=Json(columns + ("" if " seen_at " in columns else ", seen_at timestamp")),
                columns=[column.split()[0] for column in columns.split(", ")]
                + ([] if " seen_at " in columns else ["seen_at"]),
                key=[KEYS[table]],
                event_time="seen_at",
                watermark="1 day",
            )
            for table, columns in COLUMNS.items()
        ]
        topics = [Topic(table.name) for table in tables]
        views = [View(name, sql=sql) for name, sql in statements.items()]
        pipeline = Pipeline("drawn", bronze=topics, silver=tables, gold=views)
        return Engine(self.spark, pipeline, make_settings(self.folder, ""))

    def _end_round(self) -> None:
        self.rounds.append({table: self.engine.version(table) for table in COLUMNS})

    def _change(self) -> None:
        table, draw = self.random.choice(["silver.orders", "silver.orders", *COLUMNS]), self.random
        target = DeltaTable(self.engine.path(table))
        where = f"{draw.choice(['customer', 'product'])} = '{draw.choice(NAMES[:4])}'"
        where = where if table == "silver.orders" else f"{KEYS[table]} = '{draw.choice(NAMES[:4])}'"
        number = {"silver.orders": "amount", "silver.customers": "score", "silver.products": "cost"}[table]
        match draw.choice(["append", "append", "update", "delete", "rename"]):
            case "append":
                self._append(table, draw.randint(1, 4))
            case "update":
                target.update(predicate=where, updates={number: f"{number} + {draw.choice([1, 3])}"})
            case "rename":
                target.update(predicate=where, updates={KEYS[table]: f"'{draw.choice(NAMES[:4])}'"})
            case "delete":
                target.delete(where)

    def _append(self, table: str, count: int) -> None:
        rows = [self._row(table) for _ in range(count)]
        self.engine.append(table, rows, COLUMNS[table])

    def _row(self, table: str) -> tuple[Any, ...]:
        draw, self.numbers = self.random, self.numbers + 1
        number = draw.choice([None, *range(8)])
        if table != "silver.orders":
            return (draw.choice(NAMES), draw.choice(["DE", "FR", "a", None]), number)
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=draw.randint(0, 50))
        price = draw.choice([None, Decimal("1.50"), Decimal("2.25"), Decimal(7)])
        text = draw.choice([None, "x", "x y", "a b a", ""])
        name = f"o{self.numbers if draw.random() < 0.9 else 1}"
        return (name, draw.choice(NAMES), draw.choice(NAMES), number, price, at, text)

    def rows_by_spark(self, sql: str, versions: Mapping[str, int]) -> Counter[Any]:
        """What Spark gives for a statement over these versions."""
        for table, version in versions.items():
            name = table.replace(".", "_")
            at_version(self.spark, self.engine.path(table), version).createOrReplaceTempView(name)
            sql = sql.replace(table, name)
        return _counted(tuple(row) for row in self.spark.sql(sql).collect())

    def rows_by_duckdb(self, sql: str, versions: Mapping[str, int]) -> Counter[Any] | None:
        """What DuckDB gives for a statement over these versions; None where its dialect has no such part."""
        text = sql.replace("left semi join", "semi join").replace("left anti join", "anti join")
        with duckdb.connect() as duck:
            duck.execute("create schema silver")
            for table, version in versions.items():
                name = table.replace(".", "_")
                duck.register(name, self._arrow(table, version))
                duck.execute(f"create view {table} as select * from {name}")
            try:
                return _counted(duck.execute(text).fetchall())
            except (duckdb.ParserException, duckdb.BinderException, duckdb.NotImplementedException):
                return None

    def _arrow(self, table: str, version: int) -> pa.Table:
        found = self._tables.get((table, version))
        if found is None:
            found = DeltaTable(self.engine.path(table), version=version).to_pyarrow_table()
            self._tables[table, version] = found
        return found

    @cached_property
    def _tables(self) -> dict[tuple[str, int], pa.Table]:
        return {}


@dataclass
class Tried:
    """What became of the statements of a part."""

    kept: Counter[str] = field(default_factory=Counter)
    by_duckdb: int = 0
    commits: int = 0


def _counted(rows: Any) -> Counter[Any]:
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return Decimal(str(value)).normalize() + 0


def try_statement(history: History, name: str, query: Query, random: Random, tried: Tried) -> str:
    """Write a view's micro-batches, and compare each; returns the difference, nothing if there is none."""
    sql = query.sql()
    engine = history.with_views({name: sql})
    (stream,) = Wiring(history.spark, engine.pipeline, engine.settings, engine.layout, "").streams("gold")
    read = read_statement(sql, {table: _names(table) for table in engine.pipeline.gold[0].sources})
    tried.kept[way_of(read).kept] += 1
    empty = history.spark.range(0).selectExpr("0 as source")
    for batch_id, versions in enumerate(_read_to(history, read.tables, random)):
        positions = tuple({"reservoirVersion": to + 1, "index": -1} for to in versions.values())
        batch = MicroBatch("drawn", f"gold.{name}", "q", batch_id, positions)
        run_through_crashes(partial(stream.write, empty, batch), random.choice(CRASHES))
        have = _counted(tuple(row.values()) for row in engine.rows(f"gold.{name}"))
        assert engine.commits(f"gold.{name}")[-1]["counts"]["versions"] == versions
        want = {"Spark": history.rows_by_spark(sql, versions)}
        if (rows := history.rows_by_duckdb(sql, versions)) is not None:
            want["DuckDB"] = rows
        tried.commits += 1
        tried.by_duckdb += len(want) - 1
        for by, rows in want.items():
            if have != rows:
                return f"{by}, versions {versions}: too much {have - rows}, lacks {rows - have}"
    return ""


def _names(table: str) -> list[str]:
    return [column.split()[0] for column in COLUMNS[table].split(", ")]


def _read_to(history: History, tables: Sequence[str], random: Random) -> list[dict[str, int]]:
    """To which version of each table every micro-batch reads; some tables have nothing new in one."""
    first = random.randint(0, 2)
    later = sorted(random.sample(range(first + 1, len(history.rounds)), random.randint(2, 3)))
    found = [{table: history.rounds[first][table] for table in tables}]
    for place in later:
        stays = random.choice([None, None, *tables])
        found.append({t: found[-1][t] if t == stays else history.rounds[place][t] for t in tables})
    return found


def _smallest(history: History, name: str, query: Query, seed: str) -> tuple[Query, str]:
    """The smallest statement found that fails as well, and how it does."""
    fault = try_statement(history, f"{name}_0", query, Random(seed), Tried())  # noqa: S311
    for number in range(1, MOST_TRIES):
        for each in smaller(query):
            found = try_statement(history, f"{name}_{number}", each, Random(seed), Tried())  # noqa: S311
            if found:
                query, fault = each, found
                break
        else:
            break
    return query, fault


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_each_view_equals_its_statement_after_every_commit(spark: Any, tmp_path: Path, part: int) -> None:
    random, tried, failed = Random(f"{SEED} {part}"), Tried(), []  # noqa: S311
    history = None
    for number in range(math.ceil(STATEMENTS / PARTS)):
        if number % STATEMENTS_PER_HISTORY == 0:
            history = History(spark, tmp_path / str(number), random)
        query, seed = draw(random), f"{SEED} {part} {number}"
        assert history is not None
        if try_statement(history, f"v{number}", query, Random(seed), tried):  # noqa: S311
            query, fault = _smallest(history, f"smaller{number}", query, seed)
            failed.append(f"seed {seed}: {query.sql()}\n  {fault}")
    print(f"\nseed {SEED}, part {part}: {tried}")  # noqa: T201  # what was tried is part of the result
    assert not failed, "\n".join(failed)
    assert tried.by_duckdb > tried.commits * 0.6
