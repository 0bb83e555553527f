"""A record that ends the process is set aside as poison, and the job goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestration.records.quarantine.replay import replay
from silver.write.poison_search import DEATHS
from tests.pipeline.silver.test_verbs import ORDERS, event, keys, records, shop

pytestmark = pytest.mark.long

POISON_AT = 3


def plan_and_kill(engine: Any, deaths: int) -> int:
    """What is left of processes that ended in the newest micro-batch; returns the micro-batch."""
    batch_id = int(engine.undo_last_commit("silver.orders"))
    mark = {"batch_id": batch_id, "attempts": deaths}
    (engine.checkpoint("silver.orders") / "attempt").write_text(json.dumps(mark))
    return batch_id


def found(engine: Any) -> Path:
    """The file of the search."""
    return Path(f"{engine.checkpoint('silver.orders')}.poison") / "found.json"


def test_a_poison_record_goes_to_quarantine_with_its_bytes(spark: Any, tmp_path: Path) -> None:
    """The search has found it; the row before it and after it go where they went; the audit balances."""
    engine = shop(spark, tmp_path, ORDERS)
    engine.append_bronze("bronze.orders", records([event("a"), event("b")]))
    engine.run("silver")
    batch_id = plan_and_kill(engine, DEATHS)
    # The last process died of the record for the second time; it comes with the next micro-batch.
    alone = {"topic": "t", "partition": 0, "first": POISON_AT, "last": POISON_AT, "deaths": 1}
    search = {"batch_id": batch_id, "left": [], "trying": alone, "ended_after": None}
    found(engine).parent.mkdir()
    found(engine).write_text(json.dumps({"found": [], "search": search}))
    engine.append_bronze("bronze.orders", records([event("c"), event("d"), event("e")], 2))
    engine.run("silver")
    assert keys(engine) == {"a": 0, "b": 1, "c": 2, "e": 4}
    (row,) = engine.rows("silver.orders__quarantine")
    assert (row["offset"], row["reasons"], row["verdict"]) == (POISON_AT, ["poison"], "quarantine")
    assert (row["key"], row["value"]) == (b"k", event("d"))
    assert engine.faults() == ()
    assert not (engine.checkpoint("silver.orders") / "attempt").exists()

    same = replay(spark, "shop", ORDERS, engine.layout, is_with_new_rules=True)
    assert same.judged == 0, "the same declaration would end the process again"


def test_a_micro_batch_without_poison_is_read_in_ranges_and_then_run(spark: Any, tmp_path: Path) -> None:
    """Three processes were killed from outside in the same micro-batch: nothing is set aside."""
    engine = shop(spark, tmp_path, ORDERS)
    engine.append_bronze("bronze.orders", records([event("a"), event("b"), event("c")]))
    engine.run("silver")
    batch_id = plan_and_kill(engine, DEATHS)
    engine.run("silver")
    known = json.loads(found(engine).read_text())
    assert known["found"] == []
    assert (known["search"]["batch_id"], known["search"]["ended_after"]) == (batch_id, DEATHS)
    assert keys(engine) == {"a": 0, "b": 1, "c": 2}
    assert engine.rows("silver.orders__quarantine") == []
    assert engine.faults() == ()
