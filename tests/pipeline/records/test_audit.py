"""The account of a real run balances; whatever is taken out, put in or altered anywhere, it does not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import Json, Pipeline, Rule, Silver, Topic
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from orchestration.access.progress.erased import staging
from orchestration.cli.records import audit_output
from orchestration.records.audit.audit import Since, audit
from orchestration.records.audit.result import FATES, Account, PartitionAccount
from tests.conftest import make_settings
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, ms bigint, amount double"),
    columns={"order_id": "id", "ordered_at": "timestamp_millis(ms)", "amount": "amount"},
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[Rule("amount_positive", "amount > 0"), Rule("amount_small", "amount < 100", on_fail="drop")],
)
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], silver=[ORDERS])

Place = tuple[str, int, int]


def event(key: str, at: datetime = NOON, amount: float = 5.0) -> bytes:
    """An event's bytes."""
    return json.dumps({"id": key, "ms": round(at.timestamp() * 1000), "amount": amount}).encode()


BATCHES: list[dict[int, list[bytes | None]]] = [
    {
        0: [event("a"), event("b", NOON + timedelta(minutes=9)), event("a"), b"rot", None, event("c")],
        1: [event("d"), event("e", amount=-1), event("b")],
    },
    {
        0: [event("dear", amount=500), event("c"), event("f", NOON - timedelta(minutes=9))],
        1: [event("g"), event("d"), event("d")],
    },
    {0: [event("h", EVENING)], 1: []},
    {0: [event("i", EVENING), event("a")], 1: [event("j", EVENING), None, event("k"), event("l")]},
    {0: [event("m", EVENING), event("l"), b"{}"], 1: [event("m", EVENING), event("x"), event("x")]},
]
"""Per bronze micro-batch and partition, the values that come one after the other."""


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Five micro-batches with all that can become of a row."""
    settings = make_settings(tmp_path_factory.mktemp("audit"), "none:1", "silver.max_files_per_trigger=1")
    engine = Engine(spark, PIPELINE, settings)
    ends = {0: 0, 1: 0}
    for number, values in enumerate(BATCHES):
        append_batch(engine, number, values, ends)
    engine.run("silver")
    return engine


@pytest.fixture
def copy(ran: Engine, tmp_path: Path) -> Engine:
    """A copy of the run's tables and checkpoints, to do damage to."""
    settings = make_settings(tmp_path, "none:1", "silver.max_files_per_trigger=1")
    shutil.copytree(ran.layout.local, settings.data_dir / "shop")
    return Engine(ran.spark, PIPELINE, settings)


def account(engine: Engine, pipeline: Pipeline = PIPELINE, since: Since = None) -> Account:
    """The account of the one silver table."""
    return audit(engine.spark, pipeline, pipeline.silver[0], engine.layout, since=since, again_seconds=0)


def nonzero(one: PartitionAccount) -> dict[str, int]:
    """A partition's places that hold offsets."""
    return {name: count for name, count in one.counts.items() if count}


def test_every_offset_of_a_run_is_in_exactly_one_place(ran: Engine) -> None:
    found = account(ran)
    assert found.faults == ()
    assert {(one.topic, one.partition): (one.first, one.end) for one in found.partitions} == {
        ("t", 0): (0, 15),
        ("t", 1): (0, 13),
    }
    assert {one.partition: nonzero(one) for one in found.partitions} == {
        0: {"silver": 7, "duplicates": 3, "late": 1, "quarantine": 2, "dropped": 1, "tombstones": 1},
        1: {"silver": 6, "duplicates": 4, "late": 1, "quarantine": 1, "tombstones": 1},
    }


def delete(engine: Engine, table: str, where: str) -> None:
    """Delete rows as somebody with another program would."""
    DeltaTable(engine.path(table)).alter.set_table_properties({"delta.appendOnly": "false"})
    assert DeltaTable(engine.path(table)).delete(where)["num_deleted_rows"] > 0


def put(engine: Engine, table: str, where: str, **changed: Any) -> None:
    """Append copies of rows of the table."""
    rows = [row for row in engine.rows(table) if all(row[name] == value for name, value in _pairs(where))]
    assert rows
    schema = DeltaTable(engine.path(table)).to_pyarrow_table().schema
    write_deltalake(
        engine.path(table), pa.Table.from_pylist([row | changed for row in rows], schema), mode="append"
    )


def _pairs(where: str) -> list[tuple[str, int]]:
    return [(one.split("=")[0].strip(), int(one.split("=")[1])) for one in where.split("and")]


def edit(engine: Engine, table: str, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Alter what a commit says of itself."""
    file = Path(engine.path(table)) / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    told = json.loads(info["userMetadata"])
    change(told)
    info["userMetadata"] = json.dumps(told)
    file.write_text("\n".join(json.dumps(action) for action in actions))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def cut(engine: Engine, table: str, commits: int = 1) -> None:
    """Take the newest commits away."""
    newest = engine.version(table)
    log = Path(engine.path(table)) / "_delta_log"
    for version in range(newest - commits + 1, newest + 1):
        for file in (f"{version:020}.json", f".{version:020}.json.crc", f"{version:020}.crc"):
            (log / file).unlink(missing_ok=True)


def pass_for_duplicate(engine: Engine) -> None:
    delete(engine, "silver.orders", AT.format(1, 3))
    edit(engine, "silver.orders", 2, lambda told: told["counts"].update(accepted=1, duplicates=4))


AT = "_kafka_partition = {} and _kafka_offset = {}"
IN = "partition = {} and offset = {}"

PLANTED: dict[str, tuple[Callable[[Engine], None], dict[str, tuple[int, list[tuple[int, int]]]]]] = {
    "an accepted row is gone": (
        lambda e: delete(e, "silver.orders", AT.format(1, 3)),
        {"missing": (1, [(1, 3)]), "counts": (1, [(1, 3)])},
    ),
    "a late row is gone": (
        lambda e: delete(e, "silver.orders__late", AT.format(0, 13)),
        {"counts": (1, [(0, 13)])},
    ),
    "a quarantined row is gone": (
        lambda e: delete(e, "silver.orders__quarantine", IN.format(0, 3)),
        {"missing": (1, [(0, 3)]), "counts": (1, [(0, 3)])},
    ),
    "a duplicate's row of bronze is gone": (
        lambda e: delete(e, "bronze.orders", IN.format(0, 7)),
        {"gap": (1, [(0, 7)])},
    ),
    "a row is twice in silver": (
        lambda e: put(e, "silver.orders", AT.format(0, 0)),
        {"twice": (1, [(0, 0)]), "counts": (1, [(0, 0)])},
    ),
    "a row is in silver and in quarantine": (
        lambda e: put(e, "silver.orders__quarantine", IN.format(0, 3), offset=0),
        {"twice": (1, [(0, 0)]), "counts": (1, [(0, 0)])},
    ),
    "a tombstone is in quarantine too": (
        lambda e: put(e, "silver.orders__quarantine", IN.format(0, 3), offset=4, value=None),
        {"twice": (1, [(0, 4)]), "counts": (2, [(0, 4)])},
    ),
    "a duplicate's witness is gone": (
        lambda e: delete(e, "silver.orders", "order_id = 'd'"),
        {"missing": (1, [(1, 0)]), "no witness": (2, [(1, 4), (1, 5)]), "counts": (1, [(1, 0)])},
    ),
    "a row that is no duplicate passes for one": (
        pass_for_duplicate,
        {"missing": (1, [(1, 3)]), "counts": (2, [(1, 3)])},
    ),
    "silver has an offset that bronze never had": (
        lambda e: put(e, "silver.orders", AT.format(0, 0), _kafka_offset=1000),
        {"unknown": (1, [(0, 1000)]), "counts": (1, [(0, 1000)])},
    ),
    "a commit's counts are altered": (
        lambda e: edit(e, "silver.orders", 2, lambda told: told["counts"].update(duplicates=9)),
        {"counts": (1, [])},
    ),
    "silver's newest commit is lost": (
        lambda e: cut(e, "silver.orders", 2),
        {"lost commit": (1, []), "no witness": (2, [(1, 11), (1, 12)])},
    ),
    "bronze's metadata goes back": (
        lambda e: edit(e, "bronze.orders", 3, lambda told: told.update(positions=[{"t": {"0": 5, "1": 6}}])),
        {"counts": (2, [])},
    ),
}


OFTEN = ("a row is in silver and in quarantine",)


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[] if bug in OFTEN else pytest.mark.long) for bug in PLANTED]
)
def test_a_planted_bug_is_found_with_its_coordinates(copy: Engine, bug: str) -> None:
    """As the fault it is; and nothing else is."""
    plant, expected = PLANTED[bug]
    plant(copy)
    found = account(copy)
    by_name: dict[str, tuple[int, list[tuple[int, int]]]] = {}
    for fault in found.faults:
        count, places = by_name.get(fault.name, (0, []))
        by_name[fault.name] = (count + fault.count, [*places, *(place[1:] for place in fault.examples)])
    assert by_name == expected
    assert str(audit_output.error([found])).startswith("silver.orders does not balance:")


@pytest.mark.long
def test_a_micro_batch_that_left_an_offset_out_is_found(copy: Engine) -> None:
    ends = {0: 15, 1: 13}
    append_batch(copy, 5, {0: [event("n", EVENING)], 1: []}, ends)
    ends[0] += 1
    append_batch(copy, 6, {0: [event("o", EVENING)], 1: []}, ends)
    copy.run("silver")
    found = account(copy)
    assert [(one.name, one.count, one.examples) for one in found.faults] == [
        ("counts", 1, ()),
        ("gap", 1, (("t", 0, 16),)),
    ]
    gappy = replace(PIPELINE, bronze=[Topic("orders", may_have_gaps=True)])
    allowed = account(copy, gappy)
    assert allowed.faults == ()
    assert allowed.totals["gaps"] == 1


@pytest.mark.long
def test_what_silver_has_not_read_is_waiting_and_what_was_erased_is_erased(copy: Engine) -> None:
    """An erasure takes rows of every kind out of bronze; those that silver still has count as silver's.

    Once it is complete, silver must have none of them.
    """
    spark = copy.spark
    path = copy.path("bronze.orders")
    append_batch(copy, 5, {0: [event("n", EVENING), None], 1: [b"rot"]}, {0: 15, 1: 13})
    assert account(copy).totals["waiting"] == 3
    spark.sql(f"alter table delta.`{path}` unset tblproperties ('delta.appendOnly')")
    gone = [("t", 0, 0), ("t", 0, 2), ("t", 0, 4), ("t", 0, 3), ("t", 1, 13)]
    frame = spark.createDataFrame(gone, "topic string, partition int, offset bigint")
    told = delta_table.maintenance_metadata("shop", "bronze.orders", "erasure", run_id="under way")
    under_way = staging(copy.layout, "bronze.orders")
    frame.write.format("delta").option("userMetadata", told).save(under_way)
    delta_merge.delete_matching(frame, path, told, key=["topic", "partition", "offset"])
    found = account(copy)
    assert found.faults == ()
    assert found.totals == dict(zip(FATES, (13, 6, 2, 3, 1, 1, 0, 0, 3, 0, 0, 0, 2), strict=True))
    delete(copy, "bronze.orders", IN.format(0, 7))
    assert [(one.name, one.examples) for one in account(copy).faults] == [("gap", (("t", 0, 7),))]
    shutil.rmtree(under_way)
    assert {(one.name, one.examples) for one in account(copy).faults} == {
        ("gap", (("t", 0, 7),)),
        ("erased", (("t", 0, 0), ("t", 0, 3))),
    }


@pytest.mark.long
def test_what_is_new_since_the_last_audit_is_audited_alone(copy: Engine, tmp_path: Path) -> None:
    """It adds up to what an audit of everything finds; and a fault in what is new is found."""
    ends = {0: 15, 1: 13}
    assert account(copy).looked_at == 28
    append_batch(copy, 5, {0: [event("n", EVENING), b"rot"], 1: [event("m", EVENING), None]}, ends)
    copy.run("silver")
    append_batch(copy, 6, {0: [event("o", EVENING)], 1: []}, ends)
    found = account(copy, since="last")
    assert (found.faults, found.looked_at, found.offsets, found.batch_id) == ((), 5, 33, 5)
    copy.run("silver")
    again = account(copy, since="last")
    assert (again.faults, again.looked_at, again.offsets, again.batch_id) == ((), 1, 33, 6)
    assert account(copy, since="last").looked_at == 0
    whole = account(copy)
    assert (whole.faults, whole.looked_at) == ((), 33)
    assert [(one.first, one.end, nonzero(one)) for one in again.partitions] == [
        (one.first, one.end, nonzero(one)) for one in whole.partitions
    ]

    append_batch(
        copy, 7, {0: [event("p", EVENING), event("q", EVENING), event("o", EVENING)], 1: [None]}, ends
    )
    copy.run("silver")
    put(copy, "silver.orders", AT.format(0, 0))
    by_name = {one.name: one.examples for one in account(copy, since="last").faults}
    assert by_name == {"twice": (("t", 0, 0),), "counts": (("t", 0, 0),)}
    DeltaTable(copy.path("silver.orders")).restore(copy.version("silver.orders") - 1)
    found = account(copy, since="last")
    assert found.faults == ()
    assert found.notes[0].startswith("silver.orders: audited from its beginning: rows of silver.orders were")


@pytest.mark.long
def test_since_a_moment_only_later_micro_batches_are_audited(copy: Engine) -> None:
    third = copy.history("silver.orders")[-4]
    when = datetime.fromtimestamp(third["timestamp"] / 1000, UTC)
    found = account(copy, since=when)
    assert (found.faults, found.offsets, found.looked_at) == ((), 13, 13)


@pytest.mark.long
def test_a_micro_batch_that_was_killed_between_its_tables_is_waiting(copy: Engine, tmp_path: Path) -> None:
    """Silver has it, quarantine has not: it is not done, and nothing is lost."""
    append_batch(copy, 5, {0: [event("n", EVENING), b"rot"], 1: []}, {0: 15, 1: 13})
    copy.run("silver")
    (tmp_path / "killed").mkdir()
    settings = make_settings(tmp_path / "killed", "none:1")
    shutil.copytree(copy.layout.local, settings.data_dir / "shop")
    killed = Engine(copy.spark, PIPELINE, settings)
    cut(killed, "silver.orders__quarantine")
    killed.undo_last_commit("silver.orders")
    found = account(killed)
    assert (found.faults, found.batch_id, found.totals["waiting"]) == ((), 4, 2)
    killed.run("silver")
    found = account(killed)
    assert (found.faults, found.batch_id, found.totals["waiting"]) == ((), 5, 0)


@pytest.mark.long
def test_a_data_file_that_is_gone_is_named(copy: Engine) -> None:
    """Not a stack trace: it is what an audit is for."""
    lost = min(copy.files("silver.orders"))
    Path(lost.removeprefix("file://")).unlink()
    (fault,) = account(copy).faults
    assert (fault.name, fault.table) == ("files", "silver.orders")
    assert f"the file {Path(lost).name} is gone" in fault.text
    assert "medallion recover silver.orders" in fault.text
