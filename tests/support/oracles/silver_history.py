"""Random histories of silver tables: commits that hypothesis draws.

Orders and customers have few keys, few times and many ties, so that rows often share a key or a time.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pyspark.sql.types import StructType

from common.delta import table as delta_table
from common.delta.merge import insert_new
from silver.read.column_names import COORDINATES
from silver.write.table_columns import properties
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORDERS, CUSTOMERS = "silver.orders", "silver.customers"
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_META = (
    "_kafka_topic string, _kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, "
    "_ingested_at timestamp"
)
_DDL = {
    ORDERS: (
        "k string, version int, country string, amount int, status string, seen_at timestamp, customer int, "
        + _META
    ),
    CUSTOMERS: "id int, name string, " + _META,
}


@dataclass(frozen=True)
class Append:
    """A commit with one file per list of rows."""

    table: str
    files: Sequence[Sequence[tuple[Any, ...]]]


@dataclass(frozen=True)
class Late:
    """A commit of late rows: an insert-only MERGE."""

    table: str
    rows: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Delete:
    """A commit that deletes rows."""

    table: str
    where: str


@dataclass(frozen=True)
class Update:
    """A commit that updates rows."""

    table: str
    where: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Compact:
    """A commit that compacts files and changes no row."""

    table: str


SilverCommit = Append | Late | Delete | Update | Compact

Row = tuple[tuple[Any, ...], tuple[int, int]]
"""A row's values; its partition and the second of its Kafka time. Each row gets a new offset."""


def orders(*lines: str) -> list[Row]:
    """Orders from text: key, version, country, amount, status, minute and customer; ``-`` is null."""
    found = []
    for number, line in enumerate(lines):
        k, version, country, amount, status, minute, customer = map(_word, line.split())
        at = None if minute is None else NOON + timedelta(minutes=minute)
        found.append(((k, version, country, amount, status, at, customer), (number % 2, 0)))
    return found


def customers(*lines: str) -> list[Row]:
    """Customers from text: id and name."""
    return [(tuple(map(_word, line.split())), (0, 0)) for line in lines]


def _word(word: str) -> Any:
    if word == "-":
        return None
    return int(word) if word.isdigit() else word


_KEYS = st.sampled_from(["a", "b", "c", None])
_COUNTRIES = st.sampled_from(["de", "fr", None])
_MINUTES = st.one_of(st.none(), *[st.integers(0, 36).map(lambda n: 5 * n)] * 6)
_STATUS = st.sampled_from(["open", "open", "paid", "gone", None])
_IDS = st.sampled_from([1, 2, 3, None])
_VERSIONS = st.one_of(st.none(), st.integers(0, 4))

_ORDER = st.tuples(
    _KEYS,
    _VERSIONS,
    _COUNTRIES,
    st.one_of(st.none(), st.integers(0, 9)),
    _STATUS,
    _MINUTES.map(lambda n: None if n is None else NOON + timedelta(minutes=n)),
    _IDS,
)
_CUSTOMER = st.tuples(_IDS, st.sampled_from(["ann", "bob", None]))
_PLACE = st.tuples(st.integers(0, 1), st.integers(0, 2))

_SOME_ORDERS = st.one_of(
    st.tuples(st.integers(2, 4), st.integers(0, 3)).map(lambda n: f"_kafka_offset % {n[0]} = {n[1] % n[0]}"),
    st.sampled_from(["k = 'a'", "k is null", "country = 'de'", "status = 'gone'", "true"]),
)
_NEW_VALUES = st.sampled_from(
    [
        (("amount", "amount + 1"),),
        (("country", "'it'"), ("status", "'paid'")),
        (("k", "'b'"),),
        (("seen_at", "seen_at + interval '10 minutes'"),),
        (("status", "'gone'"),),
        (("customer", "2"),),
        # The updated row becomes the newest of its key.
        (("version", "coalesce(version, 0) + 1"), ("_kafka_offset", "_kafka_offset + 1000000")),
    ]
)


def _rows(row: SearchStrategy[tuple[Any, ...]], most: int) -> SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(row, _PLACE), min_size=1, max_size=most)


def _addition(table: str, row: SearchStrategy[tuple[Any, ...]]) -> SearchStrategy[SilverCommit]:
    files = st.lists(_rows(row, 8), min_size=1, max_size=2)
    return st.one_of(
        files.map(lambda found: Append(table, found)), _rows(row, 3).map(lambda found: Late(table, found))
    )


ADDITION = _addition(ORDERS, _ORDER)
"""A commit that adds orders."""

CHANGE: SearchStrategy[SilverCommit] = st.one_of(
    _SOME_ORDERS.map(lambda where: Delete(ORDERS, where)),
    st.builds(Update, st.just(ORDERS), _SOME_ORDERS, _NEW_VALUES),
    _addition(CUSTOMERS, _CUSTOMER),
    st.sampled_from(["id = 1", "id is null", "_kafka_offset % 2 = 0"]).map(lambda w: Delete(CUSTOMERS, w)),
    st.just(Update(CUSTOMERS, "id = 2", (("name", "'eve'"),))),
)
"""A commit that deletes or updates orders, or any commit to customers."""

COMPACTION: SearchStrategy[SilverCommit] = st.just(Compact(ORDERS))


def commits_between_runs(*, changes: bool) -> SearchStrategy[list[SilverCommit]]:
    """Commits between two runs of gold; without ``changes`` no commit deletes or updates a row."""
    either = [ADDITION, ADDITION, CHANGE, CHANGE, CHANGE] if changes else [ADDITION] * 4
    return st.lists(st.one_of(*either, COMPACTION), min_size=1, max_size=3)


class SilverTables:
    """Writes commits to the silver tables of one engine; each row gets a new offset."""

    def __init__(self, engine: Engine, tables: Sequence[str]) -> None:
        self.engine, self.tables = engine, tables
        self._offsets = itertools.count()
        for table in tables:
            schema = StructType.fromDDL(_DDL[table])
            delta_table.ensure(engine.spark, table, engine.path(table), schema, properties())

    def write(self, commit: SilverCommit) -> None:
        """Write one commit, or none if no row meets its condition."""
        path = self.engine.path(commit.table)
        match commit:
            case Append():
                self._append(DeltaTable(path), [self._arrow(commit.table, rows) for rows in commit.files])
            case Late():
                rows = [tuple(row.values()) for row in self._arrow(commit.table, commit.rows).to_pylist()]
                frame = self.engine.spark.createDataFrame(rows, _DDL[commit.table])
                insert_new(
                    frame,
                    path,
                    delta_table.maintenance_metadata("shop", commit.table, "replay"),
                    key=COORDINATES,
                )
            case Delete():
                DeltaTable(path).delete(commit.where)
            case Update():
                DeltaTable(path).update(updates=dict(commit.values), predicate=commit.where)
            case Compact():
                DeltaTable(path).optimize.compact()

    def _arrow(self, table: str, drawn: Sequence[tuple[Any, ...]]) -> pa.Table:
        columns = (column.split() for column in _DDL[table].split(", "))
        schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns])
        rows = [
            (*values, "t", place, next(self._offsets), NOON + timedelta(seconds=seconds), NOON)
            for values, (place, seconds) in drawn
        ]
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    @staticmethod
    def _append(table: DeltaTable, files: Sequence[pa.Table]) -> None:
        """Write one commit of several files; delta-rs's own write would create one file."""
        actions = []
        for rows in files:
            name = f"{uuid4()}.parquet"
            file = Path(table.table_uri.removeprefix("file://")) / name
            pq.write_table(rows, file)
            stats = json.dumps({"numRecords": rows.num_rows})
            actions.append(AddAction(name, file.stat().st_size, {}, int(time.time() * 1000), True, stats))
        own = delta_table.maintenance_metadata("shop", "silver", "repair")
        properties = CommitProperties(custom_metadata={"userMetadata": own})
        table.create_write_transaction(actions, "append", table.schema(), [], commit_properties=properties)
