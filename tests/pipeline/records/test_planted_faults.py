"""Faults planted in tables that are right, those together that say nothing of each other: audit and script
name their tables and no others, and what they name as remedies, typed, ends with both at nothing.

Faults are planted by delta-rs, pyarrow and plain files. What damages the bits of a file, a checkpoint or a
folder is in ``test_lake``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import Pipeline, Topic, View
from orchestration.access.progress.record_range import parse_range
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.change.recover.carry_out import recover_all
from orchestration.records.audit.audit import audit_all
from orchestration.records.audit.gold.content import GoldProof
from orchestration.records.audit.result import Account, Fault
from orchestration.records.rejudge.refill_gold import refill
from orchestration.records.rejudge.restate import restate
from tests.pipeline.records import test_erasure as shop
from tests.runs.shards import in_turn
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine
from tests.support.oracles.proof import checks, different

SILVER, BRONZE, CURRENT = "silver.orders", "bronze.orders", "silver.current"
ASIDE, LATE = f"{SILVER}__quarantine", f"{SILVER}__late"
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[shop.ORDERS, replace(shop.ORDERS, name="current", dedupe="exact", keep="newest", rules=[])],
    gold=[
        replace(shop.LATEST, name="latest", key=["order_id"]),
        shop.SPENT,
        View("prices", sql="select customer, amount, amount / 4 as quarter from silver.orders"),
        View(
            "sums", sql="select customer, count(*) as n, sum(amount) as total from silver.orders group by 1"
        ),
        View(
            "paired",
            sql="select o.order_id, o.customer, l.amount from silver.orders o "
            "join gold.latest l on l.order_id = o.order_id",
        ),
        View(
            "of_both",
            sql="select o.order_id, c.customer, c.amount from silver.orders o "
            "join silver.current c on c.order_id = o.order_id",
        ),
    ],
)
SILVERS = {one.table: one for one in PIPELINE.silver}
Plant = Callable[[Engine], Any]


class Planted(NamedTuple):
    """A fault: the table that must be named, and how it is planted."""

    table: str
    plant: Plant


def update(table: str, where: str, **values: str) -> Planted:
    return Planted(table, lambda engine: _open(engine, table).update(values, predicate=where))


def delete(table: str, where: str) -> Planted:
    return Planted(table, lambda engine: _open(engine, table).delete(where))


def again(table: str, where: str, **changed: Any) -> Planted:
    """Copies of rows are appended."""

    def plant(engine: Engine) -> None:
        opened = _open(engine, table)
        there = opened.to_pyarrow_table()
        found = [row for row in there.to_pylist() if _meets(row, where)]
        assert found, where
        new = pa.Table.from_pylist([row | changed for row in found], there.schema)
        write_deltalake(engine.path(table), new, mode="append")

    return Planted(table, plant)


def rewritten(table: str, where: str, **changed: Any) -> Planted:
    """Rows have other values, which are no plain ones."""

    def plant(engine: Engine) -> None:
        there = _open(engine, table).to_pyarrow_table()
        rows = [row | changed if _meets(row, where) else row for row in there.to_pylist()]
        assert rows != there.to_pylist(), where
        write_deltalake(engine.path(table), pa.Table.from_pylist(rows, there.schema), mode="overwrite")

    return Planted(table, plant)


def _open(engine: Engine, table: str) -> DeltaTable:
    opened = DeltaTable(engine.path(table))
    if opened.metadata().configuration.get("delta.appendOnly") == "true":
        opened.alter.set_table_properties({"delta.appendOnly": "false"})
    return DeltaTable(engine.path(table))


def _meets(row: dict[str, Any], where: str) -> bool:
    named = dict(part.split(" = ") for part in where.split(" and "))
    return all(str(row[name]) == value.strip("'") for name, value in named.items())


def at(partition: int, offset: int) -> str:
    return f"_kafka_partition = {partition} and _kafka_offset = {offset}"


def of(partition: int, offset: int) -> str:
    return f"partition = {partition} and offset = {offset}"


def swapped(engine: Engine) -> None:
    """Two rows have each other's offsets."""
    first, second = 1, 7
    value = f"CASE _kafka_offset WHEN {first} THEN {second} ELSE {first} END"
    rows = f"_kafka_partition = 0 and _kafka_offset in ({first}, {second})"
    _open(engine, SILVER).update({"_kafka_offset": value}, predicate=rows)


def moved(engine: Engine) -> None:
    """Two prices of a customer are changed, and their sum is as before."""
    opened = _open(engine, "gold.prices")
    rows = opened.to_pyarrow_table().to_pylist()
    own = [place for place, row in enumerate(rows) if row["customer"] == "C2"][:2]
    for place, more in zip(own, (0.5, -0.5), strict=True):
        rows[place]["quarter"] += more
    new = pa.Table.from_pylist(rows, opened.to_pyarrow_table().schema)
    write_deltalake(engine.path("gold.prices"), new, mode="overwrite")


def replaced(table: str, place: tuple[int, int], order_id: str, **values: Any) -> Planted:
    """The row of an order has all that the record at another place has."""

    def plant(engine: Engine) -> None:
        bronze = DeltaTable(engine.path(BRONZE)).to_pyarrow_table().to_pylist()
        (record,) = [row for row in bronze if (row["partition"], row["offset"]) == place]
        there = _open(engine, table).to_pyarrow_table()
        other = {"_kafka_partition": place[0], "_kafka_offset": place[1], **values}
        other |= {"_kafka_timestamp": record["kafka_timestamp"], "_ingested_at": record["ingested_at"]}
        (own,) = [row for row in there.to_pylist() if row["order_id"] == order_id]
        assert (own["_kafka_partition"], own["_kafka_offset"]) != place
        rows = [row | other if row["order_id"] == order_id else row for row in there.to_pylist()]
        write_deltalake(engine.path(table), pa.Table.from_pylist(rows, there.schema), mode="overwrite")

    return Planted(table, plant)


def to_quarantine(engine: Engine) -> None:
    """A good record is moved to quarantine, with its bytes."""
    bronze = DeltaTable(engine.path(BRONZE)).to_pyarrow_table().to_pylist()
    (record,) = [row for row in bronze if (row["partition"], row["offset"]) == (0, 1)]
    aside = DeltaTable(engine.path(ASIDE)).to_pyarrow_table()
    like = next(row for row in aside.to_pylist() if row["verdict"] != "drop")
    row = like | {name: value for name, value in record.items() if name in like}
    write_deltalake(engine.path(ASIDE), pa.Table.from_pylist([row], aside.schema), mode="append")
    _open(engine, SILVER).delete(at(0, 1))


def changed_places(engine: Engine) -> None:
    """A good record is in quarantine, and one that breaks a rule in silver; both with all that is theirs."""
    to_quarantine(engine)
    bronze = DeltaTable(engine.path(BRONZE)).to_pyarrow_table().to_pylist()
    (record,) = [row for row in bronze if (row["partition"], row["offset"]) == (0, 5)]
    value, silver = json.loads(record["value"]), DeltaTable(engine.path(SILVER)).to_pyarrow_table()
    row = dict.fromkeys(silver.column_names) | {
        f"_{name}": record[name] for name in ("kafka_timestamp", "ingested_at")
    }
    row |= {f"_kafka_{name}": record[name] for name in ("topic", "partition", "offset")}
    row |= {"order_id": value["id"], "customer": value["customer"], "shop": "main", "amount": value["amount"]}
    row["ordered_at"] = datetime.fromtimestamp(value["ms"] / 1000, UTC)
    write_deltalake(engine.path(SILVER), pa.Table.from_pylist([row], silver.schema), mode="append")
    _open(engine, ASIDE).delete(of(0, 5))


def cut(table: str, commits: int = 1) -> Planted:
    """The newest commits of a table are gone, and its checkpoint is ahead."""

    def plant(engine: Engine) -> None:
        log, newest = Path(engine.path(table)) / "_delta_log", engine.version(table)
        for version in range(newest - commits + 1, newest + 1):
            for file in (f"{version:020}.json", f".{version:020}.json.crc", f"{version:020}.crc"):
                (log / file).unlink(missing_ok=True)

    return Planted(table, plant)


FAULTS: dict[str, Planted] = {
    # Values of silver.
    "an amount is another one": update(SILVER, at(0, 1), amount="amount + 1"),
    "an amount is a little more": update(SILVER, at(0, 1), amount="amount * (1 + 1e-12)"),
    "an amount is infinite": update(SILVER, at(0, 1), amount="cast('Infinity' as double)"),
    "an amount is no number": update(SILVER, at(0, 1), amount="cast('NaN' as double)"),
    "an amount is null": update(SILVER, at(0, 1), amount="null"),
    "a customer has another letter": update(SILVER, at(0, 1), customer="lower(customer)"),
    "a customer has a blank": update(SILVER, at(0, 1), customer="concat(customer, ' ')"),
    "a customer is null": update(SILVER, at(0, 1), customer="null"),
    "a time is a microsecond late": update(
        SILVER, at(0, 1), ordered_at="ordered_at + interval '1 microsecond'"
    ),
    "a constant is another one": update(SILVER, at(0, 1), shop="'other'"),
    "Kafka's time is another one": update(
        SILVER, at(0, 1), _kafka_timestamp="_kafka_timestamp + interval '1 hour'"
    ),
    "all amounts of a partition are others": update(SILVER, "_kafka_partition = 0", amount="amount + 1"),
    "two rows have each other's offsets": Planted(SILVER, swapped),
    # Rows of silver.
    "a row is gone": delete(SILVER, at(0, 7)),
    "a row is gone, and its duplicates have no witness": delete(SILVER, "order_id = 'd'"),
    "a merged late row is gone": delete(SILVER, "order_id = 'k'"),
    "all rows of a partition are gone": delete(SILVER, "_kafka_partition = 1"),
    "a row is there twice": again(SILVER, at(0, 1)),
    "a row is there twice, with another amount": again(SILVER, at(0, 1), amount=77.0),
    "a duplicate is a row": again(SILVER, at(0, 0), _kafka_offset=2),
    "a tombstone is a row": again(SILVER, at(0, 0), _kafka_offset=4),
    "a quarantined record is a row": again(SILVER, at(0, 0), _kafka_offset=3),
    "a row has an offset that bronze never read": again(SILVER, at(0, 0), _kafka_offset=1000),
    "a row has a partition that bronze never read": again(SILVER, at(0, 0), _kafka_partition=9),
    "silver's newest commits are lost": cut(SILVER, 2),
    "a row is an older one of its key, as it was": replaced(CURRENT, (0, 6), "a", customer="C2"),
    "a row is its later duplicate, with all that this one had": replaced(SILVER, (0, 6), "a", customer="C2"),
    "a newest row is gone": delete(CURRENT, "order_id = 'h'"),
    "a newest row has another amount": update(CURRENT, "order_id = 'h'", amount="amount + 1"),
    # Rows beside silver.
    "a late row is gone": delete(LATE, at(1, 5)),
    "all late rows are gone": delete(LATE, "true"),
    "a late row is there twice": again(LATE, at(1, 5)),
    "a late row has another amount": update(LATE, at(1, 5), amount="amount + 1"),
    "a quarantined row is gone": delete(ASIDE, of(0, 3)),
    "a quarantined row is there twice": again(ASIDE, of(0, 3)),
    "the bytes of a quarantined row are others": update(ASIDE, of(0, 3), value="cast('x' as bytea)"),
    "the key of a quarantined row is gone": update(ASIDE, of(0, 5), key="cast('y' as bytea)"),
    "a quarantined row has other headers": rewritten(
        ASIDE, of(0, 3), headers=[{"key": "trace", "value": b"1"}]
    ),
    "a quarantined row has another reason": rewritten(ASIDE, of(0, 3), reasons=["null_key"]),
    "a quarantined row is dropped for its reasons": rewritten(ASIDE, of(0, 3), verdict="drop"),
    "a dropped row has another reason": rewritten(ASIDE, "verdict = drop", reasons=["null_key"]),
    "a dropped row is gone": delete(ASIDE, "verdict = 'drop'"),
    "a good record is in quarantine": Planted(SILVER, to_quarantine),
    "a good record is in quarantine, and a bad one in its place": Planted(SILVER, changed_places),
    # Records of bronze.
    "a duplicate's record is gone from bronze": delete(BRONZE, of(0, 2)),
    "the record of a row is gone from bronze": delete(BRONZE, of(0, 1)),
    "a record is twice in bronze": again(BRONZE, of(0, 1)),
    "a record has other bytes in bronze": update(
        BRONZE, of(0, 1), value=f"cast('{shop.event('b', 'C1', amount=6).decode()}' as bytea)"
    ),
    "a record with a digest has other bytes in bronze": update(
        BRONZE, of(0, 9), value=f"cast('{shop.event('k', 'C1', amount=6).decode()}' as bytea)"
    ),
    "a record has another offset in bronze": update(BRONZE, of(0, 1), offset="cast(1000 as bigint)"),
    # Rows of gold.
    "a row of an upsert is gone": delete("gold.latest", "order_id = 'b'"),
    "a row of an upsert is there twice": again("gold.latest", "order_id = 'b'"),
    "a row of an upsert has another value": update("gold.latest", "order_id = 'b'", amount="amount + 1"),
    "a copied amount is a little more": update(
        "gold.paired", "order_id = 'b'", amount="amount * (1 + 1e-12)"
    ),
    "a row of an upsert has another key": update("gold.latest", "order_id = 'b'", order_id="'other'"),
    "a group is gone": delete("gold.spent", "customer = 'C2'"),
    "a sum is too high": update("gold.spent", "customer = 'C2'", amount="amount + 0.001"),
    "a count is too low": update("gold.spent", "customer = 'C2'", orders="orders - 1"),
    "the newest commit of a group's table is lost": cut("gold.spent"),
    "a row of a view is gone": delete("gold.sums", "customer = 'C2'"),
    "a sum of a view is no number": update("gold.sums", "customer = 'C2'", total="cast('NaN' as double)"),
    "a sum of a view is null": update("gold.sums", "customer = 'C2'", total="null"),
    "two prices are moved, and their sum is as before": Planted("gold.prices", moved),
    "a row over two silver tables is gone": delete("gold.of_both", "order_id = 'b'"),
    "a row of a join is there twice": again("gold.paired", "order_id = 'b'"),
    "a row of a join is of another customer": update("gold.paired", "order_id = 'b'", customer="'C9'"),
}


BY_THE_AUDIT_ALONE = {
    "a good record is in quarantine, and a bad one in its place",
    "a quarantined row has another reason",
    "a dropped row has another reason",
    "a row is its later duplicate, with all that this one had",
}
"""Faults of verdicts and reasons, and of which record came first: the script judges no record again."""


@pytest.fixture(scope="module")
def filled(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Four micro-batches with all that can become of a record, the last ones read apart by gold."""
    engine, ends = shop.engine_in(spark, tmp_path_factory.mktemp("planted"), PIPELINE), {0: 0, 1: 0}
    for number, values in enumerate(shop.BATCHES):
        append_batch(engine, number, values, ends, EVENING + timedelta(minutes=number), has_digest=number > 0)
        if number == 2:  # gold has two micro-batches then
            engine.run("silver", "gold")
    engine.run("silver", "gold")
    return engine


@pytest.fixture
def lake(filled: Engine, tmp_path: Path) -> Engine:
    """A copy of the tables and checkpoints."""
    return shop.copied(filled, tmp_path)


def faults_of(engine: Engine) -> list[Fault]:
    """The faults of all tables."""
    proof = GoldProof(engine.settings)
    own = engine.pipeline
    accounts = audit_all(engine.spark, own, own.silver, engine.layout, again_seconds=0, gold=proof)
    return [replace(one, table=place(account, one)) for account in accounts for one in account.faults]


def place(account: Account, fault: Fault) -> str:
    """The table that a fault is of: of silver and what is beside it its text may name one."""
    beside = next((name for name in (ASIDE, LATE) if name in fault.text), account.table)
    return fault.table or beside


def differing(engine: Engine) -> set[str]:
    """The tables that the script names."""
    return {one.about for one in checks(PIPELINE, engine.layout) if one.verdict == "different"}


def type_in(engine: Engine, command: str) -> None:
    """What a person does who reads it."""
    if (sql := re.search(r"RESTORE TABLE .*", command)) is not None:
        engine.spark.sql(sql[0])
        return
    given = (engine.spark, PIPELINE, engine.settings, engine.layout)
    words = re.search(r"medallion (.*)", command)
    assert words is not None, command
    match words[1].split():
        case ["restate", table, "--from", begin, "--to", end]:
            restate(*given, SILVERS[table], parse_range(begin, end), lambda _: None)
        case ["rebuild", table] if table in SILVERS:
            rebuild_silver(*given, SILVERS[table], lambda _: None)
        case ["rebuild", table]:
            assert refill(PIPELINE, engine.layout, table) is not None
        case ["recover", table]:
            recover_all(PIPELINE, engine.settings, engine.layout, only=table, spark=lambda: engine.spark)
        case other:
            raise AssertionError(other)


def mend(engine: Engine, faults: Sequence[Fault], *, tables: int) -> None:
    """Type what the audit names first of so many tables, with the jobs stopped before and started after,
    until it names nothing; a person would not do so for ever.
    """
    typed = list[list[str]]()
    while faults:
        assert len(typed) < 3, (typed, [one.text for one in faults])
        first = dict[str, str]()
        for one in faults:
            if one.command and not one.after:
                first.setdefault(one.table, one.command)
        assert first, [one.text for one in faults]
        typed.append(list(dict.fromkeys(first.values()))[:tables])
        for command in typed[-1]:
            type_in(engine, command)
        # After a RESTORE of bronze alone they stay stopped: a start refuses the commit that it took back.
        if any("RESTORE TABLE" not in command for command in typed[-1]):
            engine.run("silver", "gold")
        faults = faults_of(engine)


def meet(one: str, other: str) -> bool:
    """Whether faults of two tables say something of each other."""
    tables = {one, other}
    made_of = ({"gold.latest", "gold.paired"}, {CURRENT, "gold.of_both"})
    return len(tables) == 1 or not tables.isdisjoint({SILVER, BRONZE}) or tables in made_of


def together() -> list[tuple[str, ...]]:
    """The faults, those together that say nothing of each other."""
    found = list[list[str]]()
    for name, fault in FAULTS.items():
        free = (some for some in found if not any(meet(fault.table, FAULTS[one].table) for one in some))
        if (some := next(free, None)) is None:
            found.append(some := [])
        some.append(name)
    return [*map(tuple, found)]


def test_there_are_fifty() -> None:
    assert len(FAULTS) >= 50


@pytest.mark.long
def test_the_unharmed_tables_have_no_fault(filled: Engine) -> None:
    assert faults_of(filled) == []
    assert different(checks(PIPELINE, filled.layout)) == {}


@pytest.mark.long
@pytest.mark.parametrize("names", in_turn(together(), 6), ids="; ".join)
def test_planted_faults_are_named_at_their_tables_and_the_named_remedies_mend_them(
    lake: Engine, names: tuple[str, ...]
) -> None:
    tables = {FAULTS[name].table for name in names}
    for name in names:
        FAULTS[name].plant(lake)
    found = faults_of(lake)
    named = {one.table for one in found if not one.after}
    # What is wrong with a record shows at each table that has it, or should.
    is_of_gold = all(table.startswith("gold.") for table in tables)
    more = set[str]() if is_of_gold else {SILVER, ASIDE, LATE, CURRENT}
    assert tables <= named <= tables | more, [one.text for one in found]
    by_script = differing(lake)
    for name, table in ((name, FAULTS[name].table) for name in names if name not in BY_THE_AUDIT_ALONE):
        seen_at = {SILVER if table == BRONZE else table, SILVER if table in {ASIDE, LATE} else table}
        assert seen_at & by_script, (name, by_script)
    mend(lake, found, tables=len(tables))
    assert different(checks(PIPELINE, lake.layout)) == {}
