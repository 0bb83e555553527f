"""A publication into a real PostgreSQL: each micro-batch once by its token, whatever dies in between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from common.declare import BatchSink, Pipeline, Publish, Topic
from common.errors import QueryFailedError
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.servers.postgres import Postgres, postgres

SCHEMA = (
    "k string, n int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)
TABLES = """
create table orders (k text primary key, n int, times int not null default 1);
create table tokens (token text primary key, at timestamptz not null default now());
"""
UPSERT = """
begin;
create temp table come (k text, n int) on commit drop;
insert into come values {rows};
with fresh as (insert into tokens values ('{token}') on conflict do nothing returning 1)
insert into orders select k, sum(n) from come where exists (select from fresh) group by k
on conflict (k) do update set n = orders.n + excluded.n, times = orders.times + 1;
{end};
"""


class Upsert:
    """The function of the publication: rows and token in one transaction.

    Attributes:
        dies: Where the next call ends: ``before`` anything is sent, ``inside`` the transaction, or ``after``.
    """

    def __init__(self, database: Postgres) -> None:
        self.database, self.dies = database, ""

    def __call__(self, rows: Any, batch_id: int, token: str) -> None:
        values = ", ".join("('{}', {})".format(k.replace("'", "''"), n) for k, n in rows.collect())
        if self.dies == "before":
            raise OSError("killed here")
        end = "rollback" if self.dies == "inside" else "commit"
        self.database.run(UPSERT.format(rows=values, token=token, end=end))
        if self.dies:
            raise OSError("killed here")


def cells(text: str) -> list[list[str]]:
    """What a query prints, by row and column."""
    return [line.split("|") for line in text.splitlines()]


def test_each_micro_batch_is_upserted_once_by_its_token(spark: Any, tmp_path: Path) -> None:
    """Sums would count a row twice that came twice; what dies before, inside of and after a transaction."""
    with postgres() as database:
        database.run(TABLES)
        write = Upsert(database)
        publish = Publish("store", reads="silver.orders", to=BatchSink(write), columns=["k", "n"])
        pipeline = Pipeline("shop", bronze=[Topic("orders")], publish=[publish])
        engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
        expected: Counter[str] = Counter()
        for number, pairs in enumerate(([("a", 1), ("b,\"'", 2)], [("a", 10), ("ü", 3)], [("a", 100)])):
            rows = [(k, n, "t", 0, n, None, None) for k, n in pairs]
            engine.append("silver.orders", rows, SCHEMA)
            for k, n in pairs:
                expected[k] += n
            for dies in ("before", "inside", "after"):
                write.dies = dies
                with pytest.raises(QueryFailedError, match="killed here"):
                    engine.publish()
            write.dies = ""
            engine.publish()
            if number == 1:  # the database has the micro-batch, and the checkpoint does not know it
                engine.undo_last_commit("publish.store")
                engine.publish()
            found = {k: int(n) for k, n in cells(database.run("select k, n from orders"))}
            assert found == expected
        assert dict(cells(database.run("select k, times from orders"))) == {"a": "3", "b,\"'": "1", "ü": "1"}
        assert database.run("select count(*) from tokens") == "3\n"
