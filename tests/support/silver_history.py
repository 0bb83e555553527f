"""Random lives of a silver table: what is done to it, commit by commit, as hypothesis draws it.

Orders and customers have few keys, few times and many ties, so that every few rows meet.
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
from deltalake import DeltaTable
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
    """One commit of a file per list of rows."""

    table: str
    files: Sequence[Sequence[tuple[Any, ...]]]


@dataclass(frozen=True)
class Late:
    """One commit of rows that come late: an insert-only MERGE."""

    table: str
    rows: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Delete:
    """One commit that takes rows out."""

    table: str
    where: str


@dataclass(frozen=True)
class Update:
    """One commit that changes rows, all of them at once."""

    table: str
    where: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Compact:
    """One commit that changes files and no row."""

    table: str


Deed = Append | Late | Delete | Update | Compact

Row = tuple[tuple[Any, ...], tuple[int, int]]
"""What a row says; its partition, and the second of Kafka's time. The offset is the row's own."""


def orders(*lines: str) -> list[Row]:
    """Orders in words: key, version, country, amount, status, minute and customer; ``-`` is null."""
    found = []
    for number, line in enumerate(lines):
        k, version, country, amount, status, minute, customer = map(_word, line.split())
        at = None if minute is None else NOON + timedelta(minutes=minute)
        found.append(((k, version, country, amount, status, at, customer), (number % 2, 0)))
    return found


def customers(*lines: str) -> list[Row]:
    """Customers in words: id and name."""
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
        # A newer row of the key takes the place of this one.
        (("version", "coalesce(version, 0) + 1"), ("_kafka_offset", "_kafka_offset + 1000000")),
    ]
)


def _rows(row: SearchStrategy[tuple[Any, ...]], most: int) -> SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(row, _PLACE), min_size=1, max_size=most)


def _brought(table: str, row: SearchStrategy[tuple[Any, ...]]) -> SearchStrategy[Deed]:
    files = st.lists(_rows(row, 8), min_size=1, max_size=2)
    return st.one_of(
        files.map(lambda found: Append(table, found)), _rows(row, 3).map(lambda found: Late(table, found))
    )


BROUGHT = _brought(ORDERS, _ORDER)
"""A commit that brings orders."""

CHANGED: SearchStrategy[Deed] = st.one_of(
    _SOME_ORDERS.map(lambda where: Delete(ORDERS, where)),
    st.builds(Update, st.just(ORDERS), _SOME_ORDERS, _NEW_VALUES),
    _brought(CUSTOMERS, _CUSTOMER),
    st.sampled_from(["id = 1", "id is null", "_kafka_offset % 2 = 0"]).map(lambda w: Delete(CUSTOMERS, w)),
    st.just(Update(CUSTOMERS, "id = 2", (("name", "'eve'"),))),
)
"""A commit that takes orders back or changes them, or does something to customers."""

COMPACTED: SearchStrategy[Deed] = st.just(Compact(ORDERS))


def deeds(*, changes: bool) -> SearchStrategy[list[Deed]]:
    """What happens between two runs of gold; without ``changes`` no row is ever taken back."""
    either = [BROUGHT, BROUGHT, CHANGED, CHANGED, CHANGED] if changes else [BROUGHT] * 4
    return st.lists(st.one_of(*either, COMPACTED), min_size=1, max_size=3)


class Life:
    """Does deeds to the silver tables of one engine; each row gets an offset of its own."""

    def __init__(self, engine: Engine, tables: Sequence[str]) -> None:
        self.engine, self.tables = engine, tables
        self._offsets = itertools.count()
        for table in tables:
            schema = StructType.fromDDL(_DDL[table])
            delta_table.ensure(engine.spark, table, engine.path(table), schema, properties())

    def do(self, deed: Deed) -> None:
        """One commit, or none where nothing meets its condition."""
        path = self.engine.path(deed.table)
        match deed:
            case Append():
                self._append(DeltaTable(path), [self._arrow(deed.table, rows) for rows in deed.files])
            case Late():
                rows = [tuple(row.values()) for row in self._arrow(deed.table, deed.rows).to_pylist()]
                frame = self.engine.spark.createDataFrame(rows, _DDL[deed.table])
                insert_new(
                    frame,
                    path,
                    delta_table.maintenance_metadata("shop", deed.table, "replay"),
                    key=COORDINATES,
                )
            case Delete():
                DeltaTable(path).delete(deed.where)
            case Update():
                DeltaTable(path).update(updates=dict(deed.values), predicate=deed.where)
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
        """One commit; delta-rs itself would put all rows into one file."""
        actions = []
        for rows in files:
            name = f"{uuid4()}.parquet"
            file = Path(table.table_uri.removeprefix("file://")) / name
            pq.write_table(rows, file)
            stats = json.dumps({"numRecords": rows.num_rows})
            actions.append(AddAction(name, file.stat().st_size, {}, int(time.time() * 1000), True, stats))
        table.create_write_transaction(actions, "append", table.schema(), [])
