"""A row per element of an array: any records, cut anywhere, killed anywhere, each element in its one place.

One topic is written down; others are drawn: ``ACCOUNT_EXAMPLES=50`` draws so many.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Json, Pipeline, Rule, Silver, Topic
from common.delta import table as delta_table
from common.errors import MedallionError
from orchestration.records.audit.audit import audit
from tests.conftest import make_settings
from tests.pipeline.silver.test_accounts import KAFKA_TIME, bring
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine
from tests.support.oracles.element_oracle import WHOLE, ElementOracle
from tests.support.oracles.silver_oracle import Record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DELAY = timedelta(minutes=30)
LINES = Silver(
    "lines",
    reads="bronze.events",
    each="lines",
    value=Json("order string, lines array<struct<sku: string, amount: int, at: timestamp>>"),
    columns={"order_id": "order", "sku": "lines.sku", "amount": "lines.amount", "happened_at": "lines.at"},
    key=["order_id", "sku"],
    event_time="happened_at",
    watermark="30 minutes",
    rules=[Rule("amount_positive", "amount > 0"), Rule("not_gift", "sku <> 'gift'", on_fail="drop")],
)
PIPELINE = Pipeline(name="accounts", bronze=[Topic("events")], silver=[LINES])
_folders = itertools.count()


def line(sku: str, minutes: int, amount: object = 1) -> dict[str, Any]:
    return {"sku": sku, "amount": amount, "at": (NOON + timedelta(minutes=minutes)).strftime("%FT%TZ")}


def order(name: str | None, *lines: object) -> bytes:
    return json.dumps({"order": name, "lines": lines}).encode()


BROKEN: list[object] = [
    None,
    "text",
    7,
    {"sku": "pen", "amount": "many", "at": "2026-03-01T12:00:00Z"},
    {"sku": "pen", "amount": 1, "at": "noon"},
    {"sku": "pen", "amount": 1},
    {"amount": 1, "at": "2026-03-01T12:00:00Z"},
    {"sku": "pen", "amount": -1, "at": "2026-03-01T12:00:00Z"},
    {"sku": "gift", "amount": 1, "at": "2026-03-01T12:00:00Z"},
    {"sku": "gift", "amount": 0, "at": "2026-03-01T12:00:00Z"},
]
ROTTEN: list[bytes | None] = [
    None,
    b"",
    b'{"order": "a", "lines": [{"sku": "pen"}',
    b'{"order": "a", "lines": {"sku": "pen"}}',
    b'{"order": "a", "lines": []}',
    b'{"order": "a", "lines": null}',
    b'{"order": "a"}',
]
WRITTEN: list[list[bytes | None]] = [
    [
        order("a", line("pen", 0), line("ink", 5), line("pen", 9), *BROKEN),
        *ROTTEN,
        order("a", line("ink", 6), line("cup", 7)),
        order("many", *(line(f"s{n % 300}", n % 60) for n in range(1000))),
    ],
    [order("b", line("pen", 150), line("ink", 149)), order(None, line("pen", 150))],
    [order("c", line("pen", 149), *BROKEN)],
    # Late from here on: of a key that is there, of one that is not, and that one twice.
    [order("a", line("pen", 1), line("pad", 2), line("pad", 3)), order("b", line("pad", 150)), *ROTTEN],
]
KEYS = st.sampled_from(["a", "b", "c"])
GOOD = st.builds(line, st.sampled_from(["pen", "ink", "cup", "pad"]), st.integers(0, 150), st.integers(1, 9))
ELEMENTS = st.lists(st.one_of(GOOD, GOOD, GOOD, st.sampled_from(BROKEN)), max_size=6)
RECORDS = st.one_of(
    *[st.builds(lambda name, lines: order(name, *lines), KEYS, ELEMENTS)] * 3, st.sampled_from(ROTTEN)
)
CUTS = st.lists(st.lists(RECORDS, min_size=1, max_size=8), min_size=4, max_size=7)
CRASHES = st.dictionaries(st.integers(0, 14), st.booleans(), min_size=1, max_size=4)


def test_every_element_is_in_its_one_place(spark: Any, session_dir: Path) -> None:
    """Silver, late and quarantine equal the oracle as multisets, and the audit balances."""
    engine, crashed, oracle = live(spark, session_dir, WRITTEN, {3: True, 5: False})
    assert crashed == 2
    assert oracle.late & set(oracle.silver)
    assert oracle.late - set(oracle.silver)
    assert len(oracle.duplicates) > 700
    whole = {"order_id": "order", "sku": "order", "amount": "size(lines)", "happened_at": "lines[0].at"}
    other = replace(PIPELINE, silver=[replace(LINES, each=None, columns=whole)])
    another = Engine(spark, other, engine.settings)
    with pytest.raises(MedallionError, match="has rows of the elements of lines, and is declared with rows"):
        another.run("silver")


@pytest.mark.long
@settings(
    max_examples=int(os.environ.get("ACCOUNT_EXAMPLES", "3")),
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cuts=CUTS, crashes=CRASHES)
def test_every_element_of_any_topic_is_in_its_one_place(
    spark: Any, session_dir: Path, cuts: list[list[bytes | None]], crashes: dict[int, bool]
) -> None:
    live(spark, session_dir, cuts, crashes)


PLANTED = {
    "an element is lost from silver": ("silver", 0, "lost"),
    "an element is twice in silver": ("silver", 0, "doubled"),
    "an element has another position": ("silver", 0, "moved"),
    "an element is of another record": ("silver", 0, "of another record"),
    "an element is of another partition": ("silver", 0, "of another partition"),
    "an element of silver is set aside too": ("silver", 0, "aside"),
    "a record is set aside whole beside its elements": ("silver", 1, "whole"),
    "all elements of a record are lost": ("silver", 2, "all lost"),
    "a record has an element more": ("silver", 0, "added"),
    "a record without a value has an element": ("silver", 0, (1, 0)),
    "a record without an element has one": ("silver", 0, (1, 2)),
    "a record that cannot be read has an element": ("silver", 0, (0, 1)),
    "a late element is there twice": ("late", 0, "doubled"),
    "a set aside element is lost": ("quarantine", 5, "lost"),
    "a set aside element is there twice": ("quarantine", 5, "doubled"),
    "a set aside element has another position": ("quarantine", 5, "moved"),
    "a dropped element is lost": ("quarantine", 11, "lost"),
    "a dropped element is there twice": ("quarantine", 11, "doubled"),
    "a record that could not be read is lost": ("quarantine", WHOLE, "lost"),
    "a record that could not be read is there twice": ("quarantine", WHOLE, "doubled"),
}
PLACE = ("partition", "offset", "element")
COLUMNS = ("_kafka_partition", "_kafka_offset", "_element")


@pytest.mark.long
def test_planted_faults_are_found(spark: Any, session_dir: Path) -> None:
    """Each of twenty on tables that balanced; the version before comes back after each."""
    engine, _, _ = live(spark, session_dir, WRITTEN, {})
    paths = {name: engine.path("silver.lines" + suffix) for name, suffix in SUFFIXES.items()}
    for name, (table, position, what) in PLANTED.items():
        before = {each: DeltaTable(each).version() for each in paths.values()}
        place = plant(paths[table], paths["quarantine"], position, what)
        found = audit(spark, PIPELINE, LINES, engine.layout, again_seconds=0)
        named = [fault for fault in found.faults if ("t", *place) in fault.examples]
        assert named, (name, found.faults)
        for each, version in before.items():
            if DeltaTable(each).version() > version:
                DeltaTable(each).restore(version)


SUFFIXES = {"silver": "", "late": "__late", "quarantine": "__quarantine"}


def plant(path: str, aside: str, position: int, what: str | tuple[int, int]) -> tuple[int, int]:
    """Change the row of an element behind the engine's back; returns partition and offset of its record.

    A place instead of words: the record that gets the row as an element of its own.
    """
    table = DeltaTable(path)
    names = PLACE if path == aside else COLUMNS
    rows = table.to_pyarrow_table().to_pylist()
    row = next(one for one in rows if one[names[2]] == (None if position == WHOLE else position))
    place = row[names[0]], row[names[1]]
    record = f"{names[0]} = {place[0]} and {names[1]} = {place[1]}"
    same = f"{record} and {names[2]}" + (" is null" if position == WHOLE else f" = {position}")
    updates = {"moved": names[2], "of another record": names[1], "of another partition": names[0]}
    if what in {"lost", "all lost"}:
        table.delete(same if what == "lost" else record)
    elif what in updates:
        table.update(updates={updates[str(what)]: "4000"}, predicate=same)
        if what != "moved":  # the row stays the witness of its own record, and is found where it is now
            return (place[0], 4000) if what == "of another record" else (4000, place[1])
    elif what == "doubled":
        _append(path, row)
    elif what == "added":
        _append(path, {**row, names[2]: 4000})
    elif isinstance(what, tuple):
        _append(path, {**row, **dict(zip(names, (*what, 0), strict=True))})
        return what
    else:
        other = DeltaTable(aside).to_pyarrow_table().to_pylist()[0]
        element = position if what == "aside" else None
        _append(aside, {**other, "verdict": "quarantine", **dict(zip(PLACE, (*place, element), strict=True))})
    return place


def _append(path: str, row: dict[str, Any]) -> None:
    rows = DeltaTable(path).to_pyarrow_table()
    write_deltalake(path, type(rows).from_pylist([row], schema=rows.schema), mode="append")


def live(
    spark: Any, session_dir: Path, cuts: Sequence[Sequence[bytes | None]], crashes: dict[int, bool]
) -> tuple[Engine, int, ElementOracle]:
    """Run one topic through silver, compare and audit it; returns the number of crashes and the oracle."""
    folder = session_dir / f"elements_{next(_folders)}"
    folder.mkdir()
    engine = Engine(spark, PIPELINE, make_settings(folder, "none:1", "silver.max_files_per_trigger=1"))
    delta_table.ensure(spark, "bronze.events", engine.path("bronze.events"), SCHEMA, PROPERTIES)
    oracle, ends = ElementOracle(DELAY), [0, 0]
    for number, values in enumerate(cuts):
        batch = []
        for value in values:
            partition = ends.index(min(ends))
            batch.append(Record(partition, ends[partition], KAFKA_TIME, value))
            ends[partition] += 1
        bring(engine, number, batch, ends)
        oracle.batch(batch)
    crashed = run_through_crashes(lambda: engine.run("silver"), crashes)
    compare(engine, oracle)
    found = audit(spark, PIPELINE, LINES, engine.layout, again_seconds=0)
    assert found.faults == ()
    assert {name: count for name, count in found.totals.items() if count} == oracle.totals()
    assert found.offsets == sum(ends)
    return engine, crashed, oracle


def compare(engine: Engine, oracle: ElementOracle) -> None:
    """Rows as multisets, reasons and bytes, and what the commits say."""
    rows = engine.rows("silver.lines")
    assert Counter(map(_row, rows)) == Counter(
        (*unit, one.order, one.sku, one.amount, one.at) for unit, one in oracle.silver.items()
    )
    aside = engine.rows("silver.lines__quarantine")
    of = {
        verdict: {_unit(row): row for row in aside if row["verdict"] == verdict}
        for verdict in ("quarantine", "drop")
    }
    assert {unit: row["reasons"] for unit, row in of["quarantine"].items()} == oracle.quarantine
    assert {unit: row["value"] for unit, row in of["quarantine"].items()} == oracle.bytes
    assert {unit: row["reasons"] for unit, row in of["drop"].items()} == oracle.dropped
    assert len(aside) == len(oracle.quarantine) + len(oracle.dropped)
    late = engine.rows("silver.lines__late")
    assert Counter(_row(row)[:3] for row in late) == Counter(oracle.late)
    told = [each["counts"] for each in engine.commits("silver.lines") if each["step"] == "accepted"]
    total = Counter[str]()
    for counts in told:
        total.update({name: n for name, n in counts.items() if isinstance(n, int)})
    totals = Counter(oracle.totals())
    assert total["late"] == len(oracle.late)
    assert total["accepted"] + total["merged"] == totals["silver"]
    assert total["quarantined"] == totals["quarantine"]
    assert {name: total[name] for name in ("duplicates", "dropped", "tombstones", "empty")} == {
        name: totals[name] for name in ("duplicates", "dropped", "tombstones", "empty")
    }


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    place = row["_kafka_partition"], row["_kafka_offset"], row["_element"]
    return (*place, row["order_id"], row["sku"], row["amount"], row["happened_at"])


def _unit(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["partition"], row["offset"], WHOLE if row["element"] is None else row["element"]
