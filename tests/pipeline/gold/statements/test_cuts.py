"""However a sequence of rows is cut into micro-batches, each table is the same: 20,000 sequences, a key each.

The oracle is plain Python over a key's rows, and DuckDB over the author's text.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from common.declare import Aggregate, ChangeFeed, History, Pipeline, Topic, Upsert, View
from common.delta import table as delta_table
from silver.write.table_columns import properties
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

LEFT = "__debezium_unavailable_value"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = (
    "k string, n int, op string, a string, b string, amount int, _kafka_topic string,"
    "_kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp, _ingested_at timestamp"
)
CUTS, MOST_ROWS = 5, 6
SQL = "select k, count(*) as rows, sum(amount) as amount, max(n) as newest, min(a) as a from silver.changes group by k"
UPSERT = Upsert(
    "partial",
    reads="silver.changes",
    key=["k"],
    newest_by=["n"],
    columns=["k", "n", "a", "b"],
    delete_when="op = 'd'",
    ignore_nulls=True,
)
FEED = ChangeFeed("feed", reads="silver.changes", key=["k"], sequence_by=["n"], columns=["k", "n", "a", "b"])
STATES = History(
    "states", reads="silver.changes", key=["k"], valid_by="n", columns=["a"], delete_when="op = 'd'"
)
GOLD = (
    UPSERT,
    FEED,
    STATES,
    View("of_keys", sql=SQL),
    View(
        "newest",
        sql="select * from (select k, n, a, row_number() over (partition by k order by n desc, "
        "_kafka_offset desc) as place from silver.changes) r where place = 1",
    ),
    Aggregate("sums", reads="silver.changes", by=["k"], measures={"amount": "sum(amount)"}, mode="recompute"),
)


@dataclass(frozen=True)
class Row:
    """One change of a key, and the micro-batch in which it comes."""

    k: str
    n: int
    op: str
    a: str | None
    b: str | None
    amount: int
    cut: int


def sequences(chance: random.Random, keys: int) -> Iterator[Row]:
    """Rows of each key: in any order, some of them deletions, values that are null or left unchanged."""
    for key in range(keys):
        size = chance.randint(1, MOST_ROWS)
        places = chance.sample(range(1, 20), size)
        for n in places if chance.random() < 0.5 else sorted(places):
            values = (chance.choice((None, LEFT, f"v{n}", f"w{n}")) for _ in range(2))
            op = "d" if chance.random() < 0.2 else "u"
            yield Row(f"k{key}", n, op, *values, chance.randint(-5, 5), chance.randrange(CUTS))


def newest(rows: Sequence[Row], left: str | None) -> dict[str, Any] | None:
    """The newest row of a key; a value that it leaves alone is that of the row before, up to a deletion."""
    ordered = sorted(rows, key=lambda row: row.n, reverse=True)
    if ordered[0].op == "d":
        return None
    alive = ordered[: next((place for place, row in enumerate(ordered) if row.op == "d"), len(ordered))]
    found: dict[str, Any] = {"k": ordered[0].k, "n": ordered[0].n}
    for name in ("a", "b"):
        values = (getattr(row, name) for row in alive)
        found[name] = next((value for value in values if value != left), None)
    return found


def states(rows: Sequence[Row]) -> Iterator[tuple[str, str | None, int, int | None]]:
    """The runs of equal values of a key, each from its first version to the next run or deletion."""
    begun: tuple[str | None, int] | None = None
    value: str | None = None
    for row in sorted(rows, key=lambda row: row.n):
        value = None if row.op == "d" else value if row.a == LEFT else row.a
        if begun is not None and (row.op == "d" or value != begun[0]):
            yield row.k, *begun, row.n
            begun = None
        if begun is None and row.op != "d":
            begun = value, row.n
    if begun is not None:
        yield rows[0].k, *begun, None


@pytest.mark.parametrize("rows_in_driver", [0, 200_000], ids=["spark", "driver"])
def test_tables_do_not_depend_on_the_cuts(spark: Any, tmp_path: Path, rows_in_driver: int) -> None:
    """Late rows, deletions and values of earlier rows, with all rows computed by Spark and by the driver."""
    rows = list(sequences(random.Random(66), 20_000))
    settings = make_settings(tmp_path, "none:1", f"driver.batch_rows={rows_in_driver}")
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], gold=list(GOLD)), settings)
    schema = spark.createDataFrame([], SCHEMA).schema
    delta_table.ensure(spark, "silver.changes", engine.path("silver.changes"), schema, properties())
    stored: list[tuple[Any, ...]] = []
    for cut in range(CUTS):
        part = [row for row in rows if row.cut == cut]
        places = range(len(stored), len(stored) + len(part))
        came = [
            (
                *[getattr(row, name) for name in ("k", "n", "op", "a", "b", "amount")],
                "t",
                0,
                place,
                NOON,
                NOON,
            )
            for row, place in zip(part, places, strict=True)
        ]
        stored += came
        engine.append("silver.changes", came, SCHEMA)
        engine.run("gold")
    of_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_key[row.k].append(row)
    for table, left in (("gold.partial", None), ("gold.feed", LEFT)):
        wanted = [found for each in of_key.values() if (found := newest(each, left)) is not None]
        have = [{name: row[name] for name in ("k", "n", "a", "b")} for row in engine.rows(table)]
        assert sorted(have, key=lambda row: row["k"]) == sorted(wanted, key=lambda row: row["k"]), table
    kept = [(row["k"], row["a"], row["valid_from"], row["valid_to"]) for row in engine.rows("gold.states")]
    assert sorted(kept, key=str) == sorted((one for each in of_key.values() for one in states(each)), key=str)
    names = [field.split()[0] for field in SCHEMA.replace(",", ", ").split(", ")]
    changes = pa.table({name: [row[at] for row in stored] for at, name in enumerate(names)})  # noqa: F841
    with duckdb.connect() as duck:
        for gold in GOLD:
            if isinstance(gold, View):
                found = duck.sql(str(gold.sql).replace("silver.changes", "changes"))
                have = [tuple(row[name] for name in found.columns) for row in engine.rows(gold.table)]
                assert sorted(have, key=str) == sorted(found.fetchall(), key=str), gold.table
    sums = {row["k"]: row["amount"] for row in engine.rows("gold.sums")}
    assert sums == {key: sum(row.amount for row in each) for key, each in of_key.items()}
