"""Erased records leave bronze and silver; the audit balances, streams go on, and gold is right."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from common.declare import Aggregate, History, Join, Json, Pipeline, Rule, Silver, Topic, Upsert
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.delta.lease.local_leases import Leases
from common.errors import LeaseHeldError, UsageError
from orchestration.cli.options import register
from orchestration.cli.records import erase as command
from orchestration.records.audit.result import Account
from orchestration.records.erasure.erase import Plan, planned
from orchestration.records.rejudge.refill_gold import refill
from orchestration.run.maintenance import maintain
from silver.write import first_load
from tests.conftest import make_settings
from tests.pipeline.records.test_audit import NOON, account, nonzero
from tests.runs.shards import in_turn
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine

ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, customer string, ms bigint, amount double"),
    columns={
        "order_id": "id",
        "customer": "customer",
        "shop": "'main'",
        "ordered_at": "timestamp_millis(ms)",
        "amount": "amount",
    },
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[Rule("amount_positive", "amount > 0"), Rule("amount_small", "amount < 100", on_fail="drop")],
)
BY_CUSTOMER = replace(ORDERS, name="by_customer", key=["customer", "order_id"], dedupe="exact", rules=[])
SUMS = {"orders": "count(*)", "amount": "sum(amount)"}
LATEST = Upsert("latest", reads="silver.orders", key=["shop"], newest_by=["ordered_at"])
SPENT = Aggregate("spent", reads="silver.orders", by=["customer"], measures=SUMS, mode="recompute")
TOTALS = Aggregate("totals", reads="silver.orders", by=["customer"], measures=SUMS, mode="complete")
PIPELINE = Pipeline(
    name="shop", bronze=[Topic("orders")], silver=[ORDERS, BY_CUSTOMER], gold=[LATEST, SPENT, TOTALS]
)
WHERE = "customer = 'C7'"


def event(key: str, customer: str, at: datetime = NOON, amount: float = 5.0) -> bytes:
    """An event's bytes."""
    ms = round(at.timestamp() * 1000)
    return json.dumps({"id": key, "customer": customer, "ms": ms, "amount": amount}).encode()


BATCHES: list[dict[int, list[bytes | None]]] = [
    {
        0: [event("a", "C7"), event("b", "C1"), event("a", "C7"), b"rot", None, event("e", "C7", amount=-1)],
        1: [event("c", "C7", amount=500), event("d", "C2"), event("d", "C7"), event("f", "C1", amount=-1)],
    },
    # A copy of "a" that does not match, and the newest order of all.
    {0: [event("a", "C2"), event("h", "C2", EVENING)], 1: [event("z", "C7", EVENING + timedelta(minutes=1))]},
    {0: [event("i", "C2", EVENING)], 1: []},
    # Late: two that silver lacks, and two that it has.
    {0: [event("k", "C1"), event("l", "C7")], 1: [event("b", "C1"), event("a", "C7")]},
]
ERASED = {
    *(("t", 0, offset) for offset in (0, 2, 5, 6, 10)),
    *(("t", 1, offset) for offset in (0, 2, 4, 6)),
}
KEPT = {"b": "C1", "d": "C2", "h": "C2", "i": "C2", "k": "C1"}


def ends_of(batches: list[dict[int, list[bytes | None]]]) -> dict[int, int]:
    """Per partition, the next offset after some batches."""
    return {partition: sum(len(one[partition]) for one in batches) for partition in (0, 1)}


def engine_in(spark: Any, folder: Path, pipeline: Pipeline = PIPELINE) -> Engine:
    return Engine(spark, pipeline, make_settings(folder, "none:1", "silver.max_files_per_trigger=1"))


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The whole pipeline, filled."""
    return filled(engine_in(spark, tmp_path_factory.mktemp("erasure")))


def filled(engine: Engine) -> Engine:
    """Four micro-batches with rows of C7 in silver, late and quarantine, and duplicates of them."""
    ends = {0: 0, 1: 0}
    for number, values in enumerate(BATCHES):
        append_batch(engine, number, values, ends)
    engine.run("silver", "gold")
    return engine


@pytest.fixture
def copy(ran: Engine, tmp_path: Path) -> Engine:
    """A copy of the run's tables and checkpoints."""
    return copied(ran, tmp_path)


def copied(engine: Engine, folder: Path) -> Engine:
    made = engine_in(engine.spark, folder, engine.pipeline)
    shutil.copytree(engine.layout.local, made.settings.data_dir / "shop")
    return made


def erase(engine: Engine, where: str = WHERE) -> Plan:
    """Erase the records that match."""
    pipeline, silver = engine.pipeline, engine.pipeline.silver[0]
    with planned(engine.spark, pipeline, silver, engine.layout, where, is_dry_run=False) as erasure:
        erasure.carry_out(lambda text: None)
        return erasure.plan


def places(engine: Engine, table: str) -> set[tuple[str, int, int]]:
    """The coordinates of a table's rows."""
    prefix = "" if table.startswith("bronze.") or table.endswith("__quarantine") else "_kafka_"
    names = [f"{prefix}{name}" for name in ("topic", "partition", "offset")]
    found = [tuple(row[name] for name in names) for row in engine.rows(table)]
    assert len(found) == len(set(found))
    return set(found)


def accounts(engine: Engine) -> list[Account]:
    """The accounts of all silver tables; each balances."""
    found = [account(engine, replace(engine.pipeline, silver=[one])) for one in engine.pipeline.silver]
    assert [one.faults for one in found] == [()] * len(found)
    return found


def summed(engine: Engine) -> Counter[tuple[Any, ...]]:
    """Orders and amounts by customer, from silver's rows."""
    rows = engine.rows("silver.orders")
    return Counter(
        (name, len(amounts), sum(amounts))
        for name in {row["customer"] for row in rows}
        if (amounts := [row["amount"] for row in rows if row["customer"] == name])
    )


def gold_sums(engine: Engine, table: str) -> Counter[tuple[Any, ...]]:
    return Counter((row["customer"], row["orders"], row["amount"]) for row in engine.rows(table))


def newest(engine: Engine) -> str:
    """The newest order, from silver's rows."""
    rows = engine.rows("silver.orders")
    return str(max(rows, key=lambda row: (row["ordered_at"], row["_kafka_offset"]))["order_id"])


def all_values(engine: Engine, *layers: str) -> set[str]:
    """All texts in all Parquet files of layers, of whatever version."""
    found = set()
    for layer in layers:
        for file in Path(engine.path(f"{layer}.orders")).parent.rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                found.update(map(repr, pq.ParquetFile(file).read().to_pylist()))
    return found


@pytest.mark.long
def test_erased_records_are_in_no_table_and_the_audit_balances(copy: Engine) -> None:
    """In every table that reads bronze, and in no file in the end. Gold follows, or is filled again; a new
    silver table does not bring rows back; what is sent later is taken as ever, and a copy of an erased event
    is its duplicate.
    """
    engine = copy
    assert {row["order_id"] for row in engine.rows("gold.latest")} == {"z"}
    plan = erase(engine)
    assert plan.records == len(ERASED)
    assert {one.table: one.erased for one in plan.tables} == {
        "bronze.orders": 9,
        "silver.orders__quarantine": 2,
        "silver.orders__late": 2,
        "silver.orders": 3,
        "silver.by_customer__quarantine": 0,
        "silver.by_customer__late": 0,
        "silver.by_customer": 7,
    }
    assert {one.table: one.follows for one in plan.followers} == {
        "gold.latest": True,
        "gold.spent": True,
        "gold.totals": False,
    }
    for one in plan.tables:
        assert not places(engine, one.table) & ERASED, one.table
    assert {row["order_id"]: row["customer"] for row in engine.rows("silver.orders")} == KEPT
    assert delta_table.properties(engine.spark, engine.path("bronze.orders"))["delta.appendOnly"] == "true"
    assert [one.totals["erased"] for one in accounts(engine)] == [9, 9]

    ends = ends_of(BATCHES)
    later = EVENING + timedelta(minutes=2)
    copy_of_z = event("z", "C8", EVENING + timedelta(minutes=1))
    append_batch(engine, 4, {0: [event("m", "C7", later), event("n", "C1", later)], 1: [copy_of_z]}, ends)
    engine.run("silver", "gold")
    assert {row["order_id"] for row in engine.rows("silver.orders")} == {*KEPT, "m", "n"}
    assert [row["order_id"] for row in engine.rows("gold.latest")] == [newest(engine)]
    assert gold_sums(engine, "gold.totals") != summed(engine)
    found = accounts(engine)[0]
    assert [nonzero(one)["erased"] for one in found.partitions] == [5, 4]
    assert found.offsets == sum(ends.values())
    assert erase(engine).records == 1
    refill(engine.pipeline, engine.layout, "gold.totals")
    engine.run("gold")
    assert gold_sums(engine, "gold.totals") == gold_sums(engine, "gold.spent") == summed(engine)

    assert any("C7" in row for row in all_values(engine, "bronze", "silver"))
    for table in (one.table for one in plan.tables):
        done = maintain(engine.spark, engine.pipeline, engine.layout, table, at_once=True)
        assert done.kept_because == "", table
    assert not any("C7" in row for row in all_values(engine, "bronze", "silver"))
    accounts(engine)
    again = replace(PIPELINE, silver=[replace(ORDERS, name="again")], gold=[])
    grown = engine_in(engine.spark, engine.settings.data_dir.parent, again)
    grown.run("silver")
    assert {row["order_id"] for row in grown.rows("silver.again")} == {*KEPT, "n", "z"}
    accounts(grown)


@pytest.mark.long
def test_the_command_counts_first_asks_and_refuses_beside_a_job(
    copy: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()
    register(app, command)
    monkeypatch.setattr("orchestration.cli.options.context", lambda *given: copy)
    monkeypatch.setattr("orchestration.run.job.spark_for_writing", session_of(copy))
    version = copy.version("bronze.orders")
    plan = json.loads(CliRunner().invoke(app, ["orders", "--where", WHERE, "--plan", "--json"]).stdout)
    assert (plan["records"], plan["is_done"]) == (9, False)
    asked = CliRunner().invoke(app, ["orders", "--where", WHERE])
    assert isinstance(asked.exception, UsageError)
    with Leases(copy.layout.leases, ["silver.by_customer"], "run-silver"):
        held = CliRunner().invoke(app, ["orders", "--where", WHERE, "--yes"])
    assert isinstance(held.exception, LeaseHeldError)
    wrong = CliRunner().invoke(app, ["orders", "--where", "custommer = 'C7'", "--plan"])
    assert "The columns of silver.orders are: order_id, customer" in str(wrong.exception)
    unknown = CliRunner().invoke(app, ["gold.latest", "--where", WHERE, "--plan"])
    assert "gold.latest is no silver table of shop" in str(unknown.exception)
    append_batch(copy, 4, {0: [event("m", "C7")], 1: []}, ends_of(BATCHES))
    unread = CliRunner().invoke(app, ["orders", "--where", WHERE, "--yes"])
    assert "silver.orders has yet to read 1 records of bronze.orders" in str(unread.exception)
    assert copy.version("bronze.orders") == version + 1
    copy.run("silver")
    done = CliRunner().invoke(app, ["orders", "--where", WHERE, "--yes"])
    assert done.exit_code == 0, done.output
    assert "erased 10 records" in done.output
    assert "gold.totals does not follow: it takes no row back. Fill it again" in done.output
    assert "medallion maintain --now bronze.orders" in done.output
    assert "nothing matches" in CliRunner().invoke(app, ["orders", "--where", WHERE, "--plan"]).output


def session_of(engine: Engine) -> Callable[..., Any]:
    """In place of a Spark of the command's own: the leases are real, the session is the run's."""

    @contextmanager
    def opened(
        pipeline: Any, settings: Any, tables: Any, *, name: str, require: Any = lambda: None
    ) -> Iterator[Any]:
        with Leases(engine.layout.leases, tables, name):
            require()
            yield engine.spark

    return opened


class Killed(Exception):  # noqa: N818  # it stands for a SIGKILL
    """The process ended here."""


WRITES = 1 + 2 * 5 + 2
"""Of an erasure: coordinates, two per table with rows, bronze's property, and the end."""


@contextmanager
def killed_at(step: int) -> Iterator[Iterator[int]]:
    """Raise in place of the given write of an erasure, counted from 0; yields the counter of writes."""
    writes = count()

    def cut(write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            if next(writes) == step:
                raise Killed
            return write(*words, **named)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (delta_table, "replace_all"),
            (delta_table, "set_properties"),
            (delta_merge, "delete_matching"),
            (first_load, "discard"),
        ):
            patch.setattr(owner, name, cut(getattr(owner, name)))
        yield writes


def final_rows(engine: Engine) -> dict[str, set[tuple[str, int, int]]]:
    tables = [name for one in engine.pipeline.silver for name in (one.table, *one.side_tables)]
    return {name: places(engine, name) for name in ("bronze.orders", *tables)}


@pytest.fixture(scope="module")
def erased(ran: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[str, int, int]]]:
    """The rows that an erasure leaves which nothing interrupts."""
    whole = copied(ran, tmp_path_factory.mktemp("erased"))
    with killed_at(-1) as writes:
        erase(whole)
    assert next(writes) == WRITES
    return final_rows(whole)


@pytest.mark.long
@pytest.mark.parametrize("step", in_turn(range(WRITES), 3))
def test_an_erasure_that_is_killed_anywhere_ends_right_when_it_is_run_again(
    copy: Engine, erased: dict[str, set[tuple[str, int, int]]], step: int
) -> None:
    """Between the two runs the audit balances, and silver and gold run; the tables are those of one run."""
    with pytest.raises(Killed), killed_at(step):
        erase(copy)
    accounts(copy)
    if step % 4 == 0:
        copy.run("silver", "gold")
    # Whatever the next erasure looks for, it finishes the one that was cut off.
    plan = erase(copy, WHERE if step % 2 else "customer = 'nobody'")
    if step:
        assert plan.cut_off == len(ERASED)
    else:
        erase(copy)
    assert final_rows(copy) == erased
    properties = delta_table.properties(copy.spark, copy.path("bronze.orders"))
    assert properties["delta.appendOnly"] == "true"
    accounts(copy)
    assert erase(copy).records == 0


@pytest.mark.long
def test_histories_and_joins_follow_an_erasure(spark: Any, tmp_path: Path) -> None:
    """Both sides of a join; a lookup does not, and says so."""
    states = History(
        "states", reads="silver.orders", key=["shop"], valid_by="ordered_at", columns=["customer"]
    )
    pairs = Join(
        "pairs",
        reads="silver.orders",
        joins="silver.by_customer",
        on={"customer": "customer"},
        columns={"order_id": "order_id", "other": "by_customer.order_id"},
    )
    looked_up = replace(pairs, name="looked_up", mode="lookup")
    engine = engine_in(spark, tmp_path, replace(PIPELINE, gold=[states, pairs, looked_up]))
    ends = {0: 0, 1: 0}
    for number, values in enumerate(BATCHES):
        append_batch(engine, number, values, ends)
    engine.run("silver", "gold")
    plan = erase(engine)
    assert {one.table: one.follows for one in plan.followers} == {
        "gold.states": True,
        "gold.pairs": True,
        "gold.looked_up": False,
    }
    engine.run("gold")
    rows, others = engine.rows("silver.orders"), engine.rows("silver.by_customer")
    assert Counter((row["order_id"], row["other"]) for row in engine.rows("gold.pairs")) == Counter(
        (row["order_id"], other["order_id"])
        for row in rows
        for other in others
        if row["customer"] == other["customer"]
    )
    # Of versions of one time the highest coordinates count.
    at_time: dict[datetime, dict[str, Any]] = {}
    for row in sorted(
        rows, key=lambda row: (row["_kafka_timestamp"], row["_kafka_partition"], row["_kafka_offset"])
    ):
        at_time[row["ordered_at"]] = row
    runs: list[str] = []
    for _, row in sorted(at_time.items()):
        runs += [row["customer"]] if not runs or runs[-1] != row["customer"] else []
    found = sorted(engine.rows("gold.states"), key=lambda row: row["valid_from"])
    assert [row["customer"] for row in found] == runs
