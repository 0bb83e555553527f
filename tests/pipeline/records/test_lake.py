"""One lake of tables, filled once: what may befall it, and what each operation leaves, on copies of it.

What repeats these proofs, at every write and for every kind of table, are the long tests of this folder and
of ``tests/pipeline/change``.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Pipeline, Topic
from common.errors import CheckpointMismatchError, MedallionError
from orchestration.access.progress.record_range import parse_range
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.change.recover.carry_out import recover_all
from orchestration.records.audit.audit import audit
from orchestration.records.audit.gold.content import GoldProof
from orchestration.records.expiry.carry_out import carry_out
from orchestration.records.expiry.choose import plan_expiry
from orchestration.records.rejudge.refill_gold import refill
from orchestration.records.rejudge.restate import restate
from tests.pipeline.records import test_erasure as shop
from tests.pipeline.records.test_audit import nonzero
from tests.support.bronze_batches import append_batch
from tests.support.engine import Engine

TOPIC = Topic("orders", keep="90 days")
PIPELINE = Pipeline(name="shop", bronze=[TOPIC], silver=[shop.ORDERS], gold=[shop.LATEST, shop.SPENT])
SILVER, LATEST = "silver.orders", "gold.latest"
TABLES = (SILVER, f"{SILVER}__quarantine", f"{SILVER}__late", LATEST, "gold.spent")
READ = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""When bronze read the first micro-batch; each later one was read a day later."""


@pytest.fixture(scope="module")
def filled(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Four micro-batches with all that can become of a record."""
    engine, ends = shop.engine_in(spark, tmp_path_factory.mktemp("lake"), PIPELINE), {0: 0, 1: 0}
    for number, values in enumerate(shop.BATCHES):
        append_batch(engine, number, values, ends, read_at=READ + timedelta(days=number))
    engine.run("silver", "gold")
    return engine


@pytest.fixture
def lake(filled: Engine, tmp_path: Path) -> Engine:
    """A copy of the tables and checkpoints."""
    return shop.copied(filled, tmp_path)


def rows(engine: Engine) -> dict[str, Counter[str]]:
    """The rows of all tables."""
    return {table: Counter(map(repr, engine.rows(table))) for table in TABLES}


def require_right(engine: Engine, before: dict[str, Counter[str]]) -> None:
    """All tables have the rows that they had, and the audit balances."""
    assert rows(engine) == before
    assert engine.faults() == ()


def test_every_offset_is_in_one_place_and_gold_is_made_of_silver(filled: Engine) -> None:
    (account,) = shop.accounts(filled)
    assert {one.partition: nonzero(one) for one in account.partitions} == {
        0: {"silver": 6, "duplicates": 2, "quarantine": 2, "tombstones": 1},
        1: {"silver": 2, "duplicates": 1, "late": 2, "quarantine": 1, "dropped": 1},
    }
    assert shop.gold_sums(filled, "gold.spent") == shop.summed(filled)
    assert [row["order_id"] for row in filled.rows(LATEST)] == [shop.newest(filled)]


def test_micro_batches_that_come_again_are_skipped(lake: Engine) -> None:
    before, versions = rows(lake), {table: lake.version(table) for table in TABLES}
    for query in (SILVER, LATEST, "gold.spent"):
        lake.undo_last_commit(query)
    lake.run("silver", "gold")
    assert rows(lake) == before
    assert {table: lake.version(table) for table in TABLES} == versions


def lost(engine: Engine) -> None:
    shutil.rmtree(engine.checkpoint(SILVER))


def old(engine: Engine) -> None:
    for folder in ("offsets", "commits"):
        for file in (engine.checkpoint(SILVER) / folder).glob("*3*"):
            file.unlink()


def table_gone(engine: Engine) -> None:
    shutil.rmtree(engine.path(SILVER))


def entry_gone(engine: Engine) -> None:
    newest = max((Path(engine.path(SILVER)) / "_delta_log").glob("*.json"))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "damage",
    [lost, *(pytest.param(one, marks=pytest.mark.long) for one in (old, table_gone, entry_gone))],
    ids=lambda each: each.__name__,
)
def test_whatever_is_gone_or_damaged_is_refused_and_recovered(
    lake: Engine, damage: Callable[[Engine], None]
) -> None:
    before = rows(lake)
    damage(lake)
    with pytest.raises(MedallionError, match="medallion recover"):
        lake.run("silver")
    recover_all(lake.pipeline, lake.settings, lake.layout, spark=lambda: lake.spark)
    lake.run("silver", "gold")
    require_right(lake, before)


def change_a_bit(table: str) -> None:
    """Change one bit of the last data file of a table that the driver has written; it may still be read."""
    file = max(Path(table).glob("*.parquet"), key=lambda each: each.stat().st_mtime_ns)
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "table",
    [SILVER, *(pytest.param(one, marks=pytest.mark.long) for one in TABLES if one != SILVER)],
)
def test_a_changed_bit_is_a_fault_of_the_file_that_has_it_and_the_named_command_ends_right(
    lake: Engine, table: str
) -> None:
    before = rows(lake)
    change_a_bit(lake.path(table))
    (fault,) = lake.faults()
    assert (fault.name, fault.text.partition(":")[0]) == ("files", table)
    command = fault.text.rpartition("medallion recover ")[2]
    done = recover_all(lake.pipeline, lake.settings, lake.layout, only=command, spark=lambda: lake.spark)
    assert [one.kind for one in done.steps if one.query == command] == ["refill"]
    lake.run("silver", "gold")
    assert rows(lake) == before


def change_a_value(engine: Engine) -> None:
    """Another program changes an amount in silver; no count shows it."""
    DeltaTable(engine.path(SILVER)).update({"amount": "amount + 1"}, predicate="_kafka_partition = 0")


@pytest.mark.parametrize("is_typed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_changed_value_is_a_fault_of_silver_alone_and_the_named_command_ends_right(
    lake: Engine, *, is_typed: bool
) -> None:
    before = rows(lake)
    change_a_value(lake)
    proof = GoldProof(lake.settings)
    given = (lake.spark, lake.pipeline, lake.pipeline.silver[0], lake.layout)
    faults = {fault.name: fault for fault in audit(*given, again_seconds=0, gold=proof).faults}
    assert faults["values"].count == 6
    assert all("rebuild" not in fault.text for fault in faults.values())
    words = faults["values"].text.rpartition("medallion restate ")[2].split()
    assert words[:2] == [SILVER, "--from"]
    if not is_typed:
        return
    records, silver = parse_range(words[2], words[4]), lake.pipeline.silver[0]
    restate(lake.spark, lake.pipeline, lake.settings, lake.layout, silver, records, lambda _: None)
    lake.run("silver", "gold")
    assert rows(lake) == before
    assert audit(*given, again_seconds=0, gold=proof).faults == ()


def test_the_checkpoint_of_another_query_is_refused(lake: Engine) -> None:
    before, own = rows(lake), lake.checkpoint(LATEST)
    aside = own.rename(own.with_suffix(".aside"))
    shutil.copytree(lake.checkpoint("gold.spent"), own)
    with pytest.raises(CheckpointMismatchError, match="is that of query"):
        lake.run("gold")
    shutil.rmtree(own)
    aside.rename(own)
    assert rows(lake) == before


def test_a_restored_table_is_refused_and_filled_anew(lake: Engine) -> None:
    """A version is what the table was after a micro-batch."""
    before, newest = rows(lake), lake.version(LATEST)
    DeltaTable(lake.path(LATEST)).restore(newest - 1)
    with pytest.raises(CheckpointMismatchError, match=r"medallion rebuild gold\.latest"):
        lake.run("gold")
    assert refill(PIPELINE, lake.layout, LATEST) is not None
    lake.run("gold")
    assert rows(lake) == before


def test_a_rebuild_changes_no_row_and_keeps_those_of_records_that_have_expired(lake: Engine) -> None:
    """Expired records leave bronze by whole files; each of their offsets keeps one place."""
    before = rows(lake)
    plan = plan_expiry(lake.spark, PIPELINE, lake.layout, TOPIC, now=READ + timedelta(days=90 + 1))
    assert len(carry_out(lake.spark, "shop", lake.path("bronze.orders"), plan)) == 2
    assert {row["offset"] for row in lake.rows("bronze.orders") if row["partition"] == 1} == {5, 6}
    (account,) = shop.accounts(lake)
    assert account.offsets == sum(shop.ends_of(shop.BATCHES).values())
    assert account.totals["expired"] > 0
    assert rows(lake) == before
    silver, said = lake.pipeline.silver[0], list[str]()
    rebuild_silver(lake.spark, lake.pipeline, lake.settings, lake.layout, silver, said.append)
    assert any("of records that have expired in bronze, are carried over" in one for one in said)
    lake.run("silver", "gold")
    # In the order of event time, in which the records that are left are read anew, no row is late.
    require_right(lake, before | {f"{SILVER}__late": Counter()})


def test_erased_records_are_in_no_table_and_a_restore_that_brings_them_back_is_a_fault(lake: Engine) -> None:
    """That they are in no file in the end is shown by the page's example."""
    version = lake.version(SILVER)
    plan = shop.erase(lake)
    assert plan.records == len(shop.ERASED)
    for one in plan.tables:
        assert not shop.places(lake, one.table) & shop.ERASED, one.table
    lake.run("silver", "gold")
    assert shop.gold_sums(lake, "gold.spent") == shop.summed(lake)
    assert [one.totals["erased"] for one in shop.accounts(lake)] == [9]
    DeltaTable(lake.path(SILVER)).restore(version)
    assert "erased" in {fault.name for fault in lake.faults()}
