"""Audit and script are asked after nine operations on healthy tables: neither accuses one.

The operations come in a drawn order, with new records after some. What the script compared before an
operation it compares after it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Rule
from orchestration.access.progress.record_range import parse_range
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.records.erasure.erase import planned
from orchestration.records.quarantine.replay import replay
from orchestration.records.rejudge.refill_gold import refill
from orchestration.records.rejudge.restate import restate
from orchestration.run.maintenance import maintain
from tests.pipeline.records import test_erasure as shop
from tests.pipeline.records.test_planted_faults import PIPELINE, SILVER, faults_of
from tests.runs.shards import in_turn
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.engine import Engine
from tests.support.oracles.proof import Check, checks

pytestmark = pytest.mark.long


@dataclass
class Life:
    """Tables that are operated, and what is known of their topic."""

    engine: Engine
    ends: dict[int, int]
    batches: int = 0

    @property
    def given(self) -> tuple[Any, ...]:
        """What most operations are given first."""
        return self.engine.spark, self.engine.pipeline, self.engine.settings, self.engine.layout

    def declare(self, **changed: Any) -> None:
        """Silver's first table is declared otherwise from now on."""
        first, *others = self.engine.pipeline.silver
        pipeline = replace(self.engine.pipeline, silver=[replace(first, **changed), *others])
        self.engine = Engine(self.engine.spark, pipeline, self.engine.settings)

    def proceed(self) -> None:
        """A start of silver's and gold's queries, until they have nothing to do."""
        self.engine.run("silver", "gold")

    def go_on(self) -> None:
        """New orders, a duplicate, a late one and one that a rule sets aside."""
        at = EVENING + timedelta(minutes=self.batches)
        name = f"n{self.batches}"
        values = [
            shop.event(name, "C1", at),
            shop.event(name, "C7", at),
            shop.event(f"{name} late", "C2"),
            shop.event(f"{name} low", "C2", at, amount=-2),
            None,
        ]
        self.append({0: values, 1: []})
        self.proceed()

    def append(self, values: Mapping[int, Sequence[bytes | None]]) -> None:
        """A micro-batch of bronze."""
        append_batch(self.engine, self.batches, values, self.ends, EVENING, has_digest=True)
        self.batches += 1

    def said(self) -> list[Check]:
        """The script's rows, once the audit has found no fault."""
        assert faults_of(self.engine) == []
        return checks(self.engine.pipeline, self.engine.layout)


def maintained(life: Life) -> None:
    engine = life.engine
    for table in [one.table for one in engine.pipeline.tables]:
        maintain(engine.spark, engine.pipeline, engine.layout, table, at_once=True)


def restated(life: Life) -> None:
    restate(*life.given, life.engine.pipeline.silver[0], parse_range("t/0=3", "t/0=8"), lambda _: None)


def all_restated(life: Life) -> None:
    for silver in life.engine.pipeline.silver:
        restate(*life.given, silver, parse_range("1970-01-01T00:00Z", None), lambda _: None)


def rebuilt(life: Life) -> None:
    for silver in life.engine.pipeline.silver:
        rebuild_silver(*life.given, silver, lambda _: None)


def refilled(life: Life) -> None:
    for gold in life.engine.pipeline.gold:
        refill(life.engine.pipeline, life.engine.layout, gold.table)


def wider_rule_and_replayed(life: Life) -> None:
    life.declare(rules=[Rule("amount_positive", "amount > -5"), shop.ORDERS.rules[1]])
    engine = life.engine
    replay(engine.spark, "shop", engine.pipeline.silver[0], engine.layout, is_with_new_rules=True)


def column_added(life: Life) -> None:
    life.declare(columns={**life.engine.pipeline.silver[0].columns, "day": "to_date(timestamp_millis(ms))"})


def erased(life: Life) -> None:
    engine = life.engine
    silver = engine.pipeline.silver[0]
    given = (engine.spark, engine.pipeline, silver, engine.layout, shop.WHERE)
    with planned(*given, is_dry_run=False) as erasure:
        erasure.carry_out(lambda _: None)


def done_again(life: Life) -> None:
    """Each query has lost its checkpoint's last commit, and does its last micro-batch again."""
    for one in (*life.engine.pipeline.silver, *life.engine.pipeline.gold):
        life.engine.undo_last_commit(one.table)


OPERATIONS: tuple[Callable[[Life], None], ...] = (
    maintained,
    restated,
    all_restated,
    rebuilt,
    refilled,
    wider_rule_and_replayed,
    column_added,
    erased,
    done_again,
)


@pytest.mark.parametrize("seed", in_turn([1, 2, 3, 4], 4))
def test_neither_accuses_a_table_after_any_operation(spark: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # no secret
    life = Life(shop.engine_in(spark, tmp_path, PIPELINE), {0: 0, 1: 0})
    for values in shop.BATCHES:
        life.append(values)
    life.proceed()
    compared = proven(life.said())
    assert any(table == SILVER for table, _ in compared)
    for operation in chance.sample(OPERATIONS, len(OPERATIONS)):
        operation(life)
        life.proceed()
        if chance.random() < 0.5:
            life.go_on()
        rows = life.said()
        wrong = [one for one in rows if one.verdict == "different"]
        assert not wrong, (operation.__name__, wrong)
        lost = compared - proven(rows)
        assert not lost, (operation.__name__, lost, [one for one in rows if one.verdict != "equal"])


def proven(rows: list[Check]) -> Counter[tuple[str, str]]:
    """How often each check of a table ends with equal; of what it names after a colon there may be more."""
    return Counter((one.about, one.check.partition(":")[0]) for one in rows if one.verdict == "equal")
