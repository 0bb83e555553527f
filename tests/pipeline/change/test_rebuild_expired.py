"""A rebuild keeps silver's rows of records that retention has deleted from bronze, or is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.declare import Silver
from common.errors import CheckpointMismatchError, UsageError
from orchestration.change.rebuild import rebuild_silver as rebuilding
from orchestration.change.recover.carry_out import recover_all
from tests.pipeline.records.test_audit import BATCHES, ORDERS, event
from tests.pipeline.records.test_expiry import PIPELINE, engine_in, expire, send
from tests.support.bronze_batches import EVENING
from tests.support.engine import Engine

ONLY_NEW = {"k", "j", "l", "m", "x", "i"}
"""Keys of the rows whose records bronze still has."""


def rebuild(engine: Engine, work: Any = rebuilding.rebuild_silver, **options: Any) -> list[str]:
    """Rebuild the silver table, or take that back; what was said."""
    said: list[str] = []
    spark, silver = engine.spark, engine.pipeline.silver[0]
    work(spark, engine.pipeline, engine.settings, engine.layout, silver, said.append, **options)
    return said


def rows(engine: Engine, table: str = "silver.orders") -> Counter[str]:
    return Counter(map(repr, engine.rows(table)))


def keys(engine: Engine) -> Counter[str]:
    return Counter(row["order_id"] for row in engine.rows("silver.orders"))


def with_silver(engine: Engine, silver: Silver) -> Engine:
    return Engine(engine.spark, replace(PIPELINE, silver=[silver]), engine.settings)


def expired_shop(spark: Any, folder: Path) -> tuple[Engine, dict[int, int]]:
    """Five micro-batches; the records of the first three have expired."""
    engine = engine_in(spark, folder)
    ends = {0: 0, 1: 0}
    for number, values in enumerate(BATCHES):
        send(engine, number, values, ends)
    engine.run("silver")
    assert expire(engine, 2) == 3
    return engine, ends


@pytest.mark.long
def test_rows_of_expired_records_are_carried_over(spark: Any, tmp_path: Path) -> None:
    """With their keys: later copies of their events are duplicates. Rows that do not fit are a refusal."""
    engine, ends = expired_shop(spark, tmp_path)
    silver, quarantine = rows(engine), rows(engine, "silver.orders__quarantine")
    assert set(keys(engine)) - ONLY_NEW
    said = rebuild(engine)
    assert rows(engine) == silver
    assert rows(engine, "silver.orders__quarantine") == quarantine
    assert any(
        "rows of silver.orders, of records that have expired in bronze, are carried over" in one
        for one in said
    )
    assert engine.faults() == ()
    send(engine, 5, {0: [event("h", EVENING), event("new", EVENING)], 1: []}, ends)
    engine.run("silver")
    former = keys(engine) - Counter(["new"])
    assert sum(former.values()) == sum(silver.values())
    assert max(former.values()) == 1
    assert engine.faults() == ()

    narrow = with_silver(engine, replace(ORDERS, columns={**ORDERS.columns, "amount": "cast(amount as int)"}))
    before = rows(engine)
    with pytest.raises(UsageError, match=r"medallion rebuild silver\.orders --drop-expired"):
        rebuild(narrow)
    assert rows(engine) == before
    rebuild(narrow, drops_expired=True)
    assert set(keys(narrow)) == {*ONLY_NEW, "a", "h", "new"}
    assert {type(row["amount"]) for row in narrow.rows("silver.orders")} == {int}
    assert narrow.faults() == ()


@pytest.mark.long
def test_a_changed_rule_and_a_new_column_leave_rows_of_expired_records_as_they_are(
    spark: Any, tmp_path: Path
) -> None:
    """A column that they lack is null, and undo brings the former rows back."""
    engine, _ = expired_shop(spark, tmp_path)
    silver = rows(engine)
    columns = {**ORDERS.columns, "twice": "amount * 2"}
    wide = with_silver(engine, replace(ORDERS, columns=columns, rules=[]))
    rebuild(wide)
    found = {row["order_id"]: row["twice"] for row in wide.rows("silver.orders")}
    assert {key for key, twice in found.items() if twice is not None} == ONLY_NEW
    assert {key for key, twice in found.items() if twice is None} == set(keys(engine)) - ONLY_NEW
    assert wide.faults() == ()
    rebuild(wide, rebuilding.undo)
    assert rows(engine) == silver
    assert engine.faults() == ()


@pytest.mark.long
def test_records_that_expire_while_a_shadow_waits_begin_it_again(spark: Any, tmp_path: Path) -> None:
    """The shadow has read them, and their live rows would come a second time."""
    engine, _ = expired_shop(spark, tmp_path)
    silver = rows(engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuilding._Rebuild, "leases", _refuse)
        with pytest.raises(InterruptedError):
            rebuild(engine)
    assert expire(engine, 3) == 1
    said = rebuild(engine)
    assert any("records have expired since the shadow was begun" in one for one in said)
    assert rows(engine) == silver
    assert engine.faults() == ()

    shutil.rmtree(engine.checkpoint("silver.orders"))
    once = (
        r"^silver\.orders: the table at .* would write the rows again\. It may .*medallion rebuild silver\."
    )
    with pytest.raises(CheckpointMismatchError, match=once):
        recover_all(
            engine.pipeline, engine.settings, engine.layout, spark=lambda: spark, only="silver.orders"
        )
    rebuild(engine)
    engine.run("silver")
    assert rows(engine) == silver
    assert engine.faults() == ()


def _refuse(work: object) -> None:
    raise InterruptedError
