"""Operations on the stored rows of a shop, and pairs of them, one after the other.

All pairs start from copies of one filled shop with all kinds of gold, in one session. An operation may be
refused; what a refusal of a start or a fault of the audit names is typed. At the end the shop reads more
records; then the audit must balance, and an oracle without Spark must find the right rows in all tables.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from deltalake.exceptions import TableNotFoundError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from common.declare import Custom, Gold, Rule
from common.errors import MedallionError, UsageError
from orchestration.access.progress.record_range import RecordRange
from orchestration.change.rebuild import rebuild_silver as rebuilding
from orchestration.change.recover.carry_out import recover_all
from orchestration.records.erasure.erase import planned
from orchestration.records.expiry.carry_out import carry_out
from orchestration.records.expiry.choose import plan_expiry
from orchestration.records.quarantine.replay import replay
from orchestration.records.rejudge.followers import Follower
from orchestration.records.rejudge.refill_gold import refill
from orchestration.records.rejudge.restate import restate
from orchestration.run.maintenance import maintain
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.heap import release_tables
from tests.support.pairs.shop import BEGAN, FILL, GOLD, READS, SIDES, Shop, timedelta

_COMMAND = re.compile(r"medallion (recover|rebuild|erase) ((?:bronze|silver|gold|publish)\.\w+)")
_FORMER = "Restore the former declaration, finish the micro-batch"
_ROUNDS = 6


@dataclass
class Life:
    """A shop in a folder of its own."""

    spark: Any
    folder: Path
    shop: Shop

    @property
    def engine(self) -> Engine:
        """The shop under its declaration of now."""
        settings = make_settings(self.folder, "none:1", "spark.shuffle_partitions=1")
        return Engine(self.spark, self.shop.pipeline, settings)

    def copied(self, folder: Path) -> Life:
        """A copy in another folder."""
        shutil.copytree(self.folder / "data", folder / "data")
        return Life(self.spark, folder, self.shop.copied())

    def gold(self, *tables: str) -> list[str]:
        """Those of these gold tables that the shop has."""
        return [one.table for one in self.shop.gold if one.table in tables]

    def start(self, *layers: Any) -> None:
        """Start the layers; what a refusal names is typed."""
        for _ in range(_ROUNDS):
            try:
                self.engine.run(*layers)
            except MedallionError as refusal:
                told = str(refusal)
                if _FORMER in told:
                    self._finish_by_the_former()
                else:
                    self.type_what_is_named(told)
            else:
                return
        raise AssertionError(f"still refused: {told}")

    def _finish_by_the_former(self) -> None:
        """Finish a micro-batch by the former declaration, as a start asks for, and take the new one."""
        self.shop.is_relaxed = not self.shop.is_relaxed
        self.start("silver")
        self.shop.is_relaxed = not self.shop.is_relaxed

    def type_what_is_named(self, text: str) -> None:
        """Do what a message names."""
        named = _COMMAND.search(text)
        if named is None:
            raise AssertionError(f"nothing to type: {text}")
        command, table = named.groups()
        try:
            if command == "recover":
                recover(self, table)
            elif command == "erase":
                erase(self, "false")
            elif table == READS:
                rebuild(self)
            else:
                refill(self.engine.pipeline, self.engine.layout, table)
        except MedallionError as refusal:
            if str(refusal) == text or _COMMAND.search(str(refusal)) is None:
                raise
            self.type_what_is_named(str(refusal))

    def silver_work(self, work: Callable[..., Any], *more: Any) -> Any:
        """A function of rebuild or restate; gold tables that it names stay as they are."""
        engine = self.engine
        given = (self.spark, engine.pipeline, engine.settings, engine.layout, engine.pipeline.silver[0])
        done = work(*given, *more, lambda text: None)
        self.shop.by_hand |= set(done.by_hand)
        return done

    def settled(self) -> list[str]:
        """Read more records, and have what the audit names put right; what is wrong then."""
        self.shop.send_more(self.engine)
        self.start("silver", "gold")
        for _ in range(_ROUNDS):
            faults = self.engine.faults()
            named = next((one.text for one in faults if _COMMAND.search(one.text)), None)
            if named is None:
                break
            self.type_what_is_named(named)
            self.start("silver", "gold")
        found = [f"audit: {one.name}: {one.text} {one.examples}" for one in faults]
        return [*found, *self.shop.problems(self.engine)]


def erase(life: Life, where: str = "") -> None:
    """Erase a customer that is still there, and do what is said about gold."""
    customer = next(name for name in ("C7", "C8", "C2") if name not in life.shop.erased)
    try:
        follow = _erase(life, where or f"customer = '{customer}'")
    except UsageError as refusal:
        if "medallion run silver" not in str(refusal):
            raise
        life.start("silver")
        follow = _erase(life, where or f"customer = '{customer}'")
    if not where:
        life.shop.erased.add(customer)
    for one in follow:
        if not one.follows and "medallion rebuild" in one.advice:
            refill(life.engine.pipeline, life.engine.layout, one.table)
        elif not one.follows:
            life.shop.by_hand.add(one.table)


def _erase(life: Life, where: str) -> Sequence[Follower]:
    engine = life.engine
    silver = engine.pipeline.silver[0]
    with planned(life.spark, engine.pipeline, silver, engine.layout, where, is_dry_run=False) as erasure:
        if erasure.plan.records or erasure.plan.cut_off is not None:
            erasure.carry_out(lambda text: None)
        return erasure.plan.followers


def rebuild(life: Life) -> None:
    """Fill silver again from bronze."""
    life.silver_work(rebuilding.rebuild_silver)


def undo(life: Life) -> None:
    """Take the last rebuild back; where there is none, one is made first."""
    try:
        life.silver_work(rebuilding.undo)
    except MedallionError as refusal:
        if "no rebuild to take back" not in str(refusal):
            raise
        rebuild(life)
        life.silver_work(rebuilding.undo)


def switch_killed(life: Life) -> None:
    """A rebuild that ends before the checkpoints are moved; a function gets its rows again, as after any."""
    life.shop.by_hand |= {one.table for one in life.shop.gold if isinstance(one, Custom)}
    cut = mock.patch.object(rebuilding, "move_checkpoints", side_effect=KeyboardInterrupt)
    with cut, pytest.raises(KeyboardInterrupt):
        rebuild(life)


def restate_all(life: Life) -> None:
    """Judge all records again."""
    life.silver_work(restate, RecordRange(first={("t", 0): 0, ("t", 1): 0}))


def replay_batch(life: Life) -> None:
    """The newest micro-batch of silver and of one gold table come again."""
    life.start("silver", "gold")
    for query in (READS, *life.gold("gold.latest", "gold.counts")):
        life.engine.undo_last_commit(query)
    life.start("silver", "gold")


def maintain_now(life: Life) -> None:
    """Delete all files of former versions."""
    engine = life.engine
    for table in ("bronze.orders", READS, *SIDES, *life.gold("gold.latest", "gold.seen")):
        maintain(life.spark, engine.pipeline, engine.layout, table, at_once=True)


def keep(life: Life) -> None:
    """Records of the first micro-batches expire."""
    engine = life.engine
    now = BEGAN + timedelta(days=91 + life.shop.batches - len(FILL))
    topic = engine.pipeline.bronze[0]
    plan = plan_expiry(life.spark, engine.pipeline, engine.layout, topic, now=now)
    carry_out(life.spark, engine.pipeline.name, engine.path("bronze.orders"), plan)


def restore(life: Life) -> None:
    """Silver as it was before its newest micro-batch with rows, by another program."""
    engine = life.engine
    files = engine.files(READS)
    older = range(engine.version(READS) - 1, -1, -1)
    version = next(one for one in older if engine.files(READS, one) != files)
    life.spark.sql(f"RESTORE TABLE delta.`{engine.path(READS)}` TO VERSION AS OF {version}")


def lose_checkpoint(life: Life) -> None:
    """Silver's checkpoint is gone, and is recovered."""
    shutil.rmtree(life.engine.checkpoint(READS), ignore_errors=True)  # it may be lost already
    recover(life)


def recover(life: Life, table: str = READS) -> None:
    """Recover a table and what reads it."""
    engine = life.engine
    recover_all(engine.pipeline, engine.settings, engine.layout, only=table, spark=lambda: life.spark)


def replay_quarantine(life: Life) -> None:
    """The rule is relaxed, and quarantine judged again."""
    life.shop.is_relaxed = True
    life.start("silver")
    engine = life.engine
    silver = engine.pipeline.silver[0]
    replay(life.spark, engine.pipeline.name, silver, engine.layout, is_with_new_rules=True)


def keep_late(life: Life) -> None:
    """Late rows are no longer merged; a late record comes."""
    life.shop.keeps_late = True
    life.shop.send_more(life.engine)
    life.start("silver")


def edit_and_back(life: Life) -> None:
    """Another declaration of silver and gold is started, refused or not, and taken back."""
    engine = life.engine
    silver = engine.pipeline.silver[0]
    rules = [*silver.rules, Rule("amount_small", "amount < 1000")]
    gold = [
        replace(one, columns=["customer", "order_id", "ordered_at"]) if one.table == "gold.latest" else one
        for one in life.shop.gold
    ]
    edited = replace(engine.pipeline, silver=[replace(silver, rules=rules)], gold=gold)
    for layer in ("silver", "gold"):
        try:
            Engine(life.spark, edited, engine.settings).run(layer)
        except MedallionError:
            continue
    life.start("silver", "gold")


OPERATIONS: Sequence[Callable[[Life], None]] = (
    erase,
    rebuild,
    undo,
    switch_killed,
    restate_all,
    replay_quarantine,
    replay_batch,
    maintain_now,
    keep,
    restore,
    lose_checkpoint,
    keep_late,
    edit_and_back,
)
KINDS = (
    {"latest", "looked", "noted"},
    {"latest", "joined", "states", "days"},
    {"counts", "again", "pairs", "seen"},
)
"""Gold tables of a pair, in turn: of all pairs, each operation meets each of them."""


_CHOSEN: Mapping[Callable[[Life], None], Sequence[Callable[[Life], None]]] = {
    rebuild: [erase, undo],
    undo: [erase, maintain_now],
    switch_killed: [lose_checkpoint, erase],
    restate_all: [erase, undo],
    replay_quarantine: [rebuild, erase],
    keep: [rebuild, lose_checkpoint],
    restore: [erase, maintain_now, rebuild],
    lose_checkpoint: [erase, undo],
    keep_late: [edit_and_back],
    edit_and_back: [rebuild],
    maintain_now: [undo],
    replay_batch: [erase],
}


def chosen_pairs() -> Mapping[Callable[[Life], None], Sequence[Callable[[Life], None]]]:
    """What is done after each operation.

    With ``PAIRS=all`` it is each operation after each one, with ``PAIRS=erase:restore,restore:undo`` these.
    """
    wanted = os.environ.get("PAIRS")
    if wanted is None:
        return _CHOSEN
    if wanted == "all":
        return dict.fromkeys(OPERATIONS, OPERATIONS)
    by_name = {one.__name__: one for one in OPERATIONS}
    found: dict[Callable[[Life], None], list[Callable[[Life], None]]] = {}
    for pair in wanted.split(","):
        first, second = pair.split(":")
        found.setdefault(by_name[first], []).append(by_name[second])
    return found


def done(life: Life, operation: Callable[[Life], None]) -> str:
    """Do an operation; empty, or why it was refused."""
    try:
        operation(life)
    except MedallionError as refusal:
        return str(refusal)
    except (PySparkException, Py4JJavaError, StopIteration, TableNotFoundError) as error:
        if operation is not restore:  # another program's, not the engine's
            raise
        return str(error)
    return ""


def run_pairs(
    filled: Life, folder: Path, first: Callable[[Life], None], seconds: Sequence[Callable[[Life], None]]
) -> None:
    """Do each pair with one first operation, which is done once; a pair has some of the kinds of gold."""
    after = filled.copied(folder / first.__name__)
    why = done(after, first)
    failed = []
    for second in seconds:
        began = time.monotonic()
        name = f"{first.__name__}, {second.__name__}"
        life = after.copied(folder / f"{first.__name__}_{second.__name__}")
        kinds = KINDS[(OPERATIONS.index(first) + OPERATIONS.index(second)) % len(KINDS)]
        life.shop.gold = [one for one in life.shop.gold if one.name in kinds]
        try:
            then = done(life, second)
            wrong = life.settled()
        except Exception as error:  # noqa: BLE001  # the other pairs are done all the same
            then, wrong = "", [f"{type(error).__name__}: {error}"]
        refused = "; ".join(f"refused: {text.splitlines()[0][:160]}" for text in (why, then) if text)
        print(f"{name}: {time.monotonic() - began:.0f} s {refused}", *wrong, sep="\n    ", flush=True)  # noqa: T201
        failed += [f"{name}: {one}" for one in wrong]
        shutil.rmtree(life.folder)
        release_tables()
    assert failed == []


def fill(spark: Any, folder: Path, gold: Sequence[Gold] = GOLD) -> Life:
    """A shop after three micro-batches of bronze; the last one came behind the watermark."""
    life = Life(spark, folder, Shop(gold=gold))
    for batches in (FILL[:-1], FILL[-1:]):
        for orders in batches:
            life.shop.send(life.engine, orders)
        life.engine.run("silver")
    if gold:
        life.engine.run("gold")
    assert life.engine.faults() == ()
    assert list(life.shop.problems(life.engine)) == []
    return life
