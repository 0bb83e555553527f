"""Keys of every type, in every place of a key, after a first load and an increment: the table of the page.

All types that a place takes make up one key there. Each row has another value in one of them; the increment
brings values that are there already, values that equal them by Spark's rules (-0.0 is 0.0), and new ones.
What the tables must have is asked of Spark by one batch query over all rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from common.declare import (
    Aggregate,
    ChangeFeed,
    History,
    Join,
    Json,
    Pipeline,
    Session,
    Silver,
    Storage,
    Topic,
    Upsert,
    Within,
)
from tests.conftest import make_settings
from tests.support.bronze_batches import EVENING
from tests.support.engine import Engine

pytestmark = pytest.mark.long

PLAIN = {
    "boolean": ("true", "false", "null"),
    "tinyint": ("1", "-128", "127"),
    "smallint": ("1", "-32768", "32767"),
    "int": ("1", "-2147483648", "2147483647"),
    "bigint": ("1", "-9223372036854775808L", "9223372036854775807L"),
    "float": ("0.0", "'NaN'", "'-0.0'"),
    "double": ("0.0", "'NaN'", "'-0.0'"),
    "decimal(5,2)": ("1.50", "-999.99", "0"),
    "decimal(38,18)": ("1.5", "-99999999999999999999.999999999999999999", "0"),
    "string": ("'a'", "''", "'ä'"),
    "binary": ("x'00ff'", "x''", "x'ff'"),
    "date": ("'2026-01-01'", "'0001-01-01'", "'9999-12-31'"),
    "timestamp": ("'2026-03-01 12:00:00.123456Z'", "'0001-01-01 00:00:00Z'", "'9999-12-31 23:59:59.999999Z'"),
    "timestamp_ntz": ("'2026-03-01 12:00:00.123456'", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'"),
}
"""Three values of a type as SQL; the third comes with the increment."""
NESTED = {
    "array<int>": ("array(1, null)", "array()", "array(2)"),
    "array<double>": ("array(0.0)", "array('NaN')", "array('-0.0')"),
    "array<array<timestamp>>": ("array(array('2026-03-01 12:00:00Z'))", "array(null)", "array(array())"),
    "array<struct<x:float,y:binary>>": (
        "array(named_struct('x', 0.0, 'y', x'00'))",
        "array(named_struct('x', 'NaN', 'y', x''))",
        "array(named_struct('x', '-0.0', 'y', x'00'))",
    ),
    "struct<a:int,b:string>": (
        "named_struct('a', 1, 'b', 'x')",
        "named_struct('a', null, 'b', '')",
        "named_struct('a', 2, 'b', 'x')",
    ),
    "struct<d:double,n:array<decimal(10,2)>,t:timestamp_ntz>": (
        "named_struct('d', 0.0, 'n', array(1.5), 't', '2026-03-01 12:00:00')",
        "named_struct('d', 'NaN', 'n', array(null), 't', null)",
        "named_struct('d', '-0.0', 'n', array(1.50), 't', '2026-03-01 12:00:00')",
    ),
}
KINDS = {**PLAIN, **NESTED}
NAMES = {kind: f"k{place}" for place, kind in enumerate(KINDS)}
KEY = list(NAMES.values())
NO_FLOATS = [name for kind, name in NAMES.items() if kind not in {"float", "double"}]
PLAIN_KEY = [NAMES[kind] for kind in PLAIN]
NEWER = Storage(newer_types=True)
WITHIN = Within("at", "there", "-400 days", "400 days", "400 days", "400 days")
ON = {name: name for name in KEY}
ROWS = "silver.rows"


def joined(name: str, mode: Any, **more: Any) -> Join:
    columns = {"v": "v", "other": "others.v"}
    return Join(name, reads=ROWS, joins="silver.others", on=ON, columns=columns, mode=mode, **more)


DECLARED = [
    Aggregate("whole", reads=ROWS, by=KEY, measures={"n": "count(*)", "total": "sum(v)"}),
    Aggregate("maps", reads=ROWS, by=["m"], measures={"n": "count(*)", "total": "sum(v)"}),
    Aggregate("updated", reads=ROWS, by=KEY, measures={"n": "count(*)", "total": "sum(v)"}, mode="update"),
    Aggregate("again", reads=ROWS, by=KEY, measures={"n": "count(*)", "total": "sum(v)"}, mode="recompute"),
    Aggregate(
        "sessions",
        reads=ROWS,
        by=NO_FLOATS,
        window=Session("at", "30 days"),
        measures={"n": "count(*)", "total": "sum(v)"},
        mode="recompute",
    ),
    Upsert("newest", reads=ROWS, key=KEY, newest_by=["v"], columns=[*KEY, "v"], delete_when="op = 'd'"),
    ChangeFeed("copied", reads=ROWS, key=KEY, sequence_by=["v"], columns=[*KEY, "v"]),
    History("states", reads=ROWS, key=KEY, valid_by="at", columns=["v"]),
    joined("looked_up", "lookup"),
    joined("again_joined", "recompute"),
    joined("streamed", "stream", how="inner", within=WITHIN),
]
GOLD = [replace(gold, storage=NEWER) for gold in DECLARED]
ALL, WITHOUT_FLOATS = ", ".join(KEY), ", ".join(NO_FLOATS)
SAME = " and ".join(f"r.{name} = o.{name}" for name in KEY)
JOINED = f"select r.v, o.v as other from {{rows}} r left join {{others}} o on {SAME}"
GROUPED = "select {}, count(*) as n, sum(v) as total from {{rows}} group by all"
NEWEST = (
    f"select * except (op, place) from (select {ALL}, v, op, row_number() over (partition by {ALL} "
    "order by v desc) as place from {rows}) where place = 1 and op = 'c'"
)
EXPECTED = {
    "gold.whole": GROUPED.format(ALL),
    "gold.maps": GROUPED.format("to_json(m) as m"),
    "gold.updated": GROUPED.format(ALL),
    "gold.again": GROUPED.format(ALL),
    "gold.sessions": GROUPED.format(WITHOUT_FLOATS),
    "gold.newest": NEWEST,
    "gold.copied": NEWEST,
    "gold.states": f"select {ALL}, v, at as valid_from, lead(at) over (partition by {ALL} order by at) "
    "as valid_to from {rows}",
    "gold.looked_up": f"{JOINED} where r._ingested_at >= o._ingested_at or o.v is null",
    "gold.again_joined": JOINED,
    "gold.streamed": JOINED.replace("left join", "join"),
}


@dataclass
class Filled:
    """Silver's rows, filled commit by commit; ``v`` counts them."""

    engine: Engine
    v: int = 0

    def append(self, table: str, rows: Sequence[tuple[Mapping[str, int], str]]) -> None:
        """One commit of rows: which value each type has, if not the first; and the operation."""
        self.engine.append_frame(table, self.frame(rows, "at" if table == ROWS else "there"))

    def frame(self, rows: Sequence[tuple[Mapping[str, int], str]], time: str) -> DataFrame:
        texts = []
        for chosen, operation in rows:
            self.v += 1
            values = (
                f"cast({values[chosen.get(kind, 0)] if chosen is not NOTHING else 'null'} as {kind})"
                for kind, values in KINDS.items()
            )
            moment = f"timestamp'2026-03-01 12:00:00Z' + interval {self.v} minutes"
            maps = f"map('a', {self.v % 2})"
            rest = (f"{self.v}L", f"'{operation}'", maps, moment, "'t'", "0", f"{self.v}L", moment, moment)
            texts.append(f"({', '.join((*values, *rest))})")
        names = (
            *KEY,
            "v",
            "op",
            "m",
            time,
            *(f"_kafka_{n}" for n in ("topic", "partition", "offset", "timestamp")),
        )
        return self.engine.spark.sql(
            f"select * from values {', '.join(texts)} as t({', '.join(names)}, _ingested_at)"
        )

    def differing(self, table: str, expected: str) -> list[Any]:
        """Rows that only the table has, and rows that it lacks."""
        spark, path = self.engine.spark, self.engine.path
        frames = {
            name: spark.read.format("delta").load(path(f"silver.{name}")) for name in ("rows", "others")
        }
        wanted = spark.sql(expected, **frames)
        table_rows = spark.read.format("delta").load(path(table))
        kinds = {field.name: field.dataType for field in table_rows.schema}
        found = table_rows.select(
            *(
                F.to_json(name).alias(name) if isinstance(kinds[name], MapType) else F.col(name)
                for name in wanted.columns
            )
        )
        return [*found.exceptAll(wanted).collect(), *wanted.exceptAll(found).collect()]


NOTHING: Mapping[str, int] = {"nothing": 0}
BASE: Mapping[str, int] = {}
SECOND, THIRD = ([{kind: place} for kind in KINDS] for place in (1, 2))


@pytest.mark.parametrize("rows", [20_000, 0], ids=["driver", "executors"])
def test_each_place_of_a_key_takes_each_type_that_can_be_compared(
    spark: Any, tmp_path: Path, rows: int
) -> None:
    settings = make_settings(tmp_path, "none:1", f"driver.batch_rows={rows}")
    pipeline = Pipeline("shop", bronze=[Topic("orders")], gold=GOLD)
    filled = Filled(Engine(spark, pipeline, settings))
    others = [(each, "c") for each in (BASE, *SECOND, NOTHING)]
    filled.append("silver.others", others)
    filled.append(ROWS, [(each, "c") for each in (BASE, BASE, *SECOND, NOTHING)])
    filled.engine.run("gold")
    filled.append("silver.others", [(each, "c") for each in THIRD])
    filled.append(
        ROWS, [*((each, "c") for each in (BASE, *THIRD, NOTHING)), *((each, "d") for each in SECOND)]
    )
    filled.engine.run("gold")
    wrong = {table: filled.differing(table, sql) for table, sql in EXPECTED.items()}
    assert {table: rows[:3] for table, rows in wrong.items() if rows} == {}


EVENT = {"b": True, "i": 1, "f": "0.0", "d": "0.0", "c": 1.5, "s": "a", "y": "x", "day": "2026-01-01"}
EVENT |= {"at": "2026-03-01T12:00:00.123456Z"}
OTHER = {"b": False, "i": -1, "f": "NaN", "d": "NaN", "c": 1e-18, "s": "", "y": "", "day": "0001-01-01"}
OTHER |= {"at": "2026-03-01T12:00:00.123457Z"}
COLUMNS = {name: name for name in EVENT} | {"f": "try_cast(f as float)", "d": "try_cast(d as double)"}
COLUMNS |= {"y": "cast(y as binary)"}


def test_silvers_key_takes_each_plain_type(spark: Any, tmp_path: Path) -> None:
    """Each event once, however often it comes, and also where its doubles come as -0.0."""

    def silver(name: str, **more: Any) -> Silver:
        fields = "b boolean, i int, f string, d string, c decimal(38,18), s string, y string, day date"
        value = Json(f"{fields}, at timestamp")
        return Silver(
            name,
            reads="bronze.orders",
            value=value,
            columns=COLUMNS,
            key=list(EVENT),
            event_time="at",
            watermark="1 day",
            **more,
        )

    tables = [
        silver("state"),
        silver("exact", dedupe="exact"),
        silver("newest", dedupe="exact", keep="newest"),
    ]
    engine = Engine(
        spark, Pipeline("shop", bronze=[Topic("orders")], silver=tables), make_settings(tmp_path, "none:1")
    )
    events = [EVENT, *(EVENT | {name: OTHER[name]} for name in EVENT)]
    again = [EVENT | {"d": "-0.0"}, EVENT | {"f": "-0.0"}, *events]
    for first, commit in ((0, [*events, EVENT]), (100, again)):
        engine.append_bronze(
            "bronze.orders",
            [
                ("t", 0, first + place, EVENING, 0, EVENING, None, json.dumps(event).encode(), None)
                for place, event in enumerate(commit)
            ],
        )
        engine.run("silver")
    for table in tables:
        assert len(engine.rows(table.table)) == len(events), table.table
        assert engine.rows(table.quarantine) == []
