"""Columns may have any names: those of the script's and of trace's own columns, and words of SQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from common.declare import Aggregate, Json, Pipeline, Silver, Topic, Upsert, View, Window
from orchestration.access.query.record_place import Place
from orchestration.records.trace.trace import Trace
from tests.support.oracles.proof import checks, different
from tests.unit.orchestration.records.small_lake import COORDINATES, SmallLake

NAMES = (
    *("topic", "partition", "offset", "timestamp", "time", "key", "value", "fields", "kind", "is_alike"),
    *("is_same", "expected", "found", "e", "f", "is_expected", "own", "has_witness", "first", "place", "n"),
    *("where", "select", "order", "group", "from", "table", "case", "end", "all", "on", "desc", "limit"),
    *("s", "r", "b", "l", "g", "p", "q", "x", "c0", "k0", "w0", "at", "read_at", "sent_at", "filename"),
    *("window_start", "window_end", "names", "keys", "checks", "about", "verdict", "row", "rowid", "least"),
)
DAY = datetime(2026, 2, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
KINDS = {
    "string": pa.string(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
}
_VALUES: dict[str, Any] = {
    "string": lambda draw: draw.choice(("a", "b", "c d")),
    "int": lambda draw: draw.randrange(-5, 5),
    "double": lambda draw: draw.randrange(8) / 4,
    "boolean": lambda draw: draw.random() < 0.5,
    "date": lambda draw: (DAY + timedelta(days=draw.randrange(9))).date(),
}


class Names:
    """A pipeline whose columns have all of ``NAMES``: drawn is which of them are for what."""

    def __init__(self, seed: str) -> None:
        """Draw it; the bounds of gold's windows have their own names."""
        draw = Random(seed)  # noqa: S311  # a seed has to give the same names again
        self.draw, self.names = draw, draw.sample(NAMES, len(NAMES))
        self.time, self.key, self.others = self.names[0], self.names[1:16], self.names[16:]
        self.kinds = {name: draw.choice(tuple(KINDS)) for name in self.others}
        self.number = self.others[0]
        self.kinds |= {self.number: "int", self.time: "timestamp", **dict.fromkeys(self.key, "int")}
        of_gold = [name for name in draw.sample(NAMES, len(NAMES)) if not name.startswith("window_")]
        self.by = dict(
            zip(of_gold[:8], [name for name in self.others if self.kinds[name] != "double"], strict=False)
        )
        self.measures = of_gold[8:24]
        self.way = draw.choice(("first", "newest", "event_time"))
        self.silver = Silver(
            "orders",
            reads="bronze.orders",
            value=Json(", ".join(f"`{name}` {self.kinds[name]}" for name in self.names)),
            columns={name: f"`{name}`" for name in self.names},
            key=self.key,
            event_time=self.time,
            watermark="1 day",
            dedupe="event_time" if self.way == "event_time" else "exact",
            keep="newest" if self.way == "newest" else "first",
            where=f"`{self.number}` > -4",
        )
        shown = ", ".join(f"`{name}`" for name in self.names)
        self.pipeline = Pipeline(
            "shop",
            bronze=[Topic("orders", topics=["t"])],
            silver=[self.silver],
            gold=[
                Upsert("latest", "silver.orders", key=self.key, newest_by=[self.time]),
                Aggregate(
                    "sums",
                    "silver.orders",
                    by={name: f"`{source}`" for name, source in self.by.items()},
                    measures=dict.fromkeys(self.measures, f"sum(`{self.number}`)"),
                    window=Window(self.time, "2 days"),
                    mode="recompute",
                ),
                View("shown", sql=f"select {shown} from silver.orders"),
            ],
        )

    def message(self) -> dict[str, Any]:
        """A drawn record."""
        row = {name: _VALUES[self.kinds[name]](self.draw) for name in self.others}
        row |= dict.fromkeys(self.key, self.draw.randrange(20))
        row[self.time] = DAY + timedelta(hours=self.draw.randrange(96))
        return {name: row[name] for name in self.names}


def kept(names: Names, messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The rows of silver by offset: of the table's own records the first or the newest of each key."""
    own = {at: one for at, one in enumerate(messages) if one[names.number] > -4}
    rows: dict[Any, int] = {}
    for at, one in own.items():
        key = (one[names.key[0]], one[names.time]) if names.way == "event_time" else one[names.key[0]]
        is_newer = key in rows and names.way == "newest" and one[names.time] >= own[rows[key]][names.time]
        if key not in rows or is_newer:
            rows[key] = at
    return {at: own[at] for at in sorted(rows.values())}


def filled(names: Names, folder: Path) -> tuple[SmallLake, list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """The tables, the records, and silver's rows."""
    lake, draw = SmallLake(names.pipeline, folder), names
    messages = [draw.message() for _ in range(60)]
    lake.bronze([json.dumps(one, default=lambda given: given.isoformat()).encode() for one in messages])
    kinds = {name: KINDS.get(kind, TIME) for name, kind in names.kinds.items()}
    rows = kept(names, messages)
    others = sum(one[names.number] <= -4 for one in messages)
    lake.silver(
        rows,
        {name: kinds[name] for name in names.names},
        other=others,
        duplicates=60 - others - len(rows),
    )
    silver = lake.rows("silver.orders")
    schema = pa.schema([(name, kinds[name]) for name in names.names])
    newest: dict[Any, dict[str, Any]] = {}
    for row in sorted(silver, key=lambda row: (row[names.time], row["_kafka_offset"])):
        newest[row[names.key[0]]] = row
    with_place = pa.schema([*schema, *COORDINATES.items()])
    lake.gold("latest", pa.Table.from_pylist(list(newest.values()), with_place))
    lake.gold("sums", _sums(names, silver, kinds))
    lake.gold("shown", pa.Table.from_pylist(silver, schema), is_view=True)
    return lake, messages, rows


def _sums(names: Names, silver: list[dict[str, Any]], kinds: dict[str, Any]) -> pa.Table:
    """The groups of each window of two days."""
    epoch, size = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=2)

    def group(row: dict[str, Any]) -> tuple[str, datetime]:
        return repr([row[name] for name in names.by.values()]), epoch + (
            row[names.time] - epoch
        ) // size * size

    found = []
    for (_, start), each in groupby(sorted(silver, key=group), key=group):
        rows = list(each)
        total = sum(row[names.number] for row in rows)
        own = {name: rows[0][source] for name, source in names.by.items()} | dict.fromkeys(
            names.measures, total
        )
        found.append(own | {"window_start": start, "window_end": start + size})
    fields = [(name, kinds[source]) for name, source in names.by.items()]
    fields += [("window_start", TIME), ("window_end", TIME), *((name, pa.int64()) for name in names.measures)]
    return pa.Table.from_pylist(found, pa.schema(fields))


SEEDS = ["1", *(pytest.param(str(seed), marks=pytest.mark.long) for seed in range(2, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_is_seen_and_nothing_else_whatever_columns_are_called(tmp_path: Path, seed: str) -> None:
    names = Names(seed)
    lake, messages, rows = filled(names, tmp_path)
    found = checks(names.pipeline, lake.layout)
    assert different(found) == {}
    told = {f"{one.about}: {one.check.partition(':')[0]}": one.verdict for one in found}
    assert {name: told.get(name) for name in COMPARED} == dict.fromkeys(COMPARED, "equal")
    values = next(one for one in found if one.check.startswith("values of silver"))
    assert values.found == f"{len(rows)} are the same"
    _trace_says_so(names, lake, messages, rows)

    harmed = lake.rows("silver.orders")
    harmed[0][names.number] += 1
    offset = harmed[0]["_kafka_offset"]
    lake.overwrite("silver.orders", harmed)
    for table, name in (("sums", names.measures[0]), ("latest", names.number), ("shown", names.number)):
        harmed = lake.rows(f"gold.{table}")
        harmed[0][name] += 1
        lake.overwrite(f"gold.{table}", harmed)
    found = checks(names.pipeline, lake.layout)
    assert {one.about for one in found if one.verdict == "different"} == {
        *("silver.orders", "gold.sums", "gold.latest", "gold.shown")
    }
    (shown,) = [shown for check, shown in different(found).items() if "values of silver" in check]
    assert shown == f"t/0/{offset}"


def _trace_says_so(
    names: Names, lake: SmallLake, messages: list[dict[str, Any]], rows: dict[int, dict[str, Any]]
) -> None:
    """Trace has the same places as the oracle, and finds the rows of gold."""
    every = [Place("t", 0, at) for at in range(len(messages))]
    found = Trace(names.pipeline, lake.layout, has_values=False).records(every)
    assert {one["offset"]: one["silver"][0]["place"] for one in found} == {
        at: "silver" if at in rows else "duplicate" if one[names.number] > -4 else "another table's record"
        for at, one in enumerate(messages)
    }
    (alone,) = Trace(names.pipeline, lake.layout, has_values=True).records([Place("t", 0, min(rows))])
    assert [bool(one["rows"]) for one in alone["silver"][0]["gold"]] == [True] * 3
    assert alone["silver"][0]["file"] is None  # DuckDB's name of the file's column is a name of the table


COMPARED = (
    "silver.orders: offsets of t/0",
    "silver.orders: witness of each duplicate",
    "silver.orders: values of silver",
    "gold.latest: equals its definition",
    "gold.sums: equals its definition",
    "gold.shown: equals its definition",
)
