"""The statement of each kind of gold table: what Spark makes of it is what the kind's table has."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from common.declare import Aggregate, ChangeFeed, Gold, History, Join, Session, Upsert, Window, Within
from common.declare.gold_statement import statement_of
from common.sql.statement import read_statement
from gold.aggregate.stateful import grouped
from gold.join.columns import joined
from gold.join.stream_join import pairs
from tests.pipeline.gold.statements import test_truncations as truncations
from tests.pipeline.gold.test_random import BEGINS, EXACT, FILTERED, NEWER, TAKEN_BACK
from tests.support.oracles import gold_sql
from tests.support.oracles.silver_history import (
    _DDL,
    CUSTOMERS,
    NOON,
    ORDERS,
    Append,
    Late,
    customers,
    orders,
)


def tables(spark: Any) -> dict[str, DataFrame]:
    """Silver with keys, times and names that are null, and with ties in each order."""
    files = [
        rows
        for run in (BEGINS, NEWER, TAKEN_BACK)
        for commit in run.commits
        if isinstance(commit, Append | Late) and commit.table == ORDERS
        for rows in (commit.files if isinstance(commit, Append) else [commit.rows])
    ]
    given = {
        ORDERS: [
            *(row for rows in files for row in rows),
            *orders("a 5 de 1 open 35 1", "b 4 fr 7 open 135 1"),
        ],
        CUSTOMERS: customers("1 ann", "2 bob", "- eve", "1 amy", "1 ann", "3 joe"),
    }
    return {
        table: spark.createDataFrame(
            [(*row, "t", place[0], number, NOON, NOON) for number, (row, place) in enumerate(rows)],
            _DDL[table],
        ).cache()
        for table, rows in given.items()
    }


def made(gold: Gold, frames: Mapping[str, DataFrame]) -> DataFrame:
    """What Spark makes of a kind's statement."""
    columns = {table: frame.columns for table, frame in frames.items()}
    sql = statement_of(gold, columns)
    assert sql is not None
    statement = read_statement(sql, columns)
    text = statement.over_inputs
    named = {f"t{place}": frames[table] for place, table in enumerate(statement.tables)}
    for name in named:
        text = text.replace(f"__in{name[1:]}__", f"{{{name}}}")
    return next(iter(named.values())).sparkSession.sql(text, **named)


def rows(frame: DataFrame) -> Any:
    return gold_sql.multiset(frame.toArrow().to_pylist())


def test_a_kinds_statement_gives_the_rows_that_duckdb_gives(spark: Any) -> None:
    """Of each kind that a drawn life compares with DuckDB."""
    frames = tables(spark)
    arrow = {table.partition(".")[2]: frame.toArrow() for table, frame in frames.items()}
    kinds = [*EXACT, *(each for each in FILTERED if isinstance(each[0], ChangeFeed))]
    assert {type(gold) for gold, _ in kinds} == {Aggregate, Upsert, ChangeFeed, History, Join}
    for gold, sqls in kinds:
        expected, found = gold_sql.answer(sqls[gold.table], arrow), rows(made(gold, frames))
        assert (found - expected, expected - found) == ({}, {}), statement_of(gold, {})
        assert expected


ODD = {
    "groups by a literal, of an expression's own name": Aggregate(
        "a",
        ORDERS,
        by={"one": "1", "k": "upper(k)", "text": "'a,\n b'"},
        measures={"n": "count(*)", "twice": "n * 2"},
    ),
    "bounds of windows in measures": Aggregate(
        "a",
        ORDERS,
        by=["k"],
        measures={"n": "max(unix_seconds(window_end)) - min(unix_seconds(seen_at))", "s": "window_start"},
        window=Window("seen_at", "10 minutes"),
    ),
    "sessions of all rows": Aggregate(
        "a",
        ORDERS,
        measures={"n": "count(*)", "seconds": "sum(amount) / unix_seconds(window_end)"},
        window=Session("seen_at", "5 minutes"),
        where="amount > 1 or amount is null",
        mode="recompute",
    ),
}


def test_an_aggregates_statement_gives_its_groups(spark: Any) -> None:
    frames = tables(spark)
    for name, gold in ODD.items():
        assert rows(made(gold, frames)) == rows(grouped(frames[ORDERS], gold)), name


def test_a_joins_statement_names_the_other_row_as_a_whole(spark: Any) -> None:
    """Also by a window of a time that is null, and within bounds of time."""
    frames = tables(spark)
    columns = {"k": "k", "amount": "amount", "all": "to_json(customers)", "topic": "customers._kafka_topic"}
    whole = Join("j", ORDERS, CUSTOMERS, on={"id": "customer"}, columns=columns, mode="lookup")
    assert rows(made(whole, frames)) == rows(joined(frames[ORDERS], frames[CUSTOMERS], whole))
    frames["silver.days"] = frames[ORDERS].selectExpr(
        "window(seen_at, '1 hour').start as hour", "seen_at", "k as other"
    )
    on = {"hour": "window(seen_at, '1 hour').start"}
    by_hour = Join("j", ORDERS, "silver.days", on=on, columns={"k": "k", "o": "days.other"}, mode="lookup")
    found = rows(made(by_hour, frames))
    assert found == rows(joined(frames[ORDERS], frames["silver.days"], by_hour))
    assert any(row["o"] is None for row in map(dict, found))
    within = Within("seen_at", "seen_at", "-5 minutes", "10 minutes", "1 day", "1 day")
    near = Join(
        "j", ORDERS, "silver.days", on={"other": "k"}, columns={"k": "k", "at": "days.seen_at"}, how="inner",
        mode="stream", within=within,
    )  # fmt: skip
    found = rows(made(near, frames))
    assert found == rows(pairs(frames[ORDERS], frames["silver.days"], near))
    assert found


def test_a_truncation_takes_away_what_is_before_it(spark: Any) -> None:
    """Of a change feed and of a history; one that is the change of a row too leaves what is equal to it."""
    every = truncations.changes(random.Random(63), keys=60)  # noqa: S311  # a seeded case, no secret
    drawn = [replace(one, offset=n) for n, one in enumerate(every) if one.a != truncations.LEFT]
    came = [
        (one.k, one.n, one.op, one.a, "t", 0, one.offset, truncations.NOON, truncations.NOON) for one in drawn
    ]
    frames = {truncations.FEED.reads: spark.createDataFrame(came, truncations.SCHEMA)}
    copied = made(truncations.FEED, frames).select("k", "n", "a").orderBy("k").toArrow().to_pylist()
    assert copied == truncations.copied(drawn)
    assert 0 < len(copied) < 60
    states = made(truncations.STATES, frames).select("k", "a", "valid_from", "valid_to").collect()
    assert sorted(map(tuple, states), key=str) == truncations.states(drawn)
