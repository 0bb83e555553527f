"""Tables and checkpoints of three layers, any of them one step back: refused, or right; never silently wrong.

Every mixture starts from copies of the same two states of one pipeline. Bronze goes on in each of them, so
that the numbers of versions fit again where it went back.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Aggregate, ForeachSink, Gold, Join, Pipeline, Publish, Storage, Upsert, Within
from common.delta import table as delta_table
from common.errors import CheckpointMismatchError
from gold.table.context import Context
from orchestration.change.recover.carry_out import recover_all
from orchestration.run import start_checks
from tests.pipeline.change.test_recover import CUTS, GOLD, PIPELINE, SILVER, Life, _settings, content
from tests.pipeline.silver.test_accounts import KAFKA_TIME
from tests.support.engine import Engine
from tests.support.heap import release_tables
from tests.support.oracles.silver_oracle import Record

OLDER, NEWER = 3, 4
"""Micro-batches of bronze in the two states; the others follow in every mixture."""

FEED = Storage(change_feed=True)
ON_GOLD: tuple[Gold, ...] = (
    Upsert("by_event", reads="silver.events", key=["event_id"], newest_by=["happened_at"], storage=FEED),
    Aggregate("of_gold", reads="gold.by_event", mode="recompute", by=["amount"], measures={"n": "count(*)"}),
    Join(
        "with_late",
        reads="silver.events",
        joins="silver.events__late",
        on={"event_id": "event_id"},
        columns={"event_id": "event_id"},
        mode="stream",
        within=Within(
            on="happened_at",
            joins_on="happened_at",
            before="1 hour",
            after="1 hour",
            watermark="1 hour",
            joins_watermark="1 hour",
        ),
    ),
    Join(
        "beside_gold",
        reads="silver.events",
        joins="gold.by_event",
        on={"event_id": "event_id"},
        columns={"event_id": "event_id"},
    ),
)
ALL_KINDS = replace(
    PIPELINE,
    gold=[*GOLD, *ON_GOLD],
    publish=[
        Publish("of_silver", reads="silver.events", to=ForeachSink(lambda row: None)),
        Publish("of_gold", reads="gold.by_event", to=ForeachSink(lambda row: None)),
    ],
)
THREE_LAYERS = replace(PIPELINE, gold=[next(one for one in GOLD if one.table == "gold.newest")])

PARTS = [(layer, part) for layer in ("bronze", "silver", "gold") for part in ("tables", "checkpoint")]
SIZES = range(1, (len(PARTS) if "CHAOS_MIXTURES" in os.environ else 2) + 1)
"""How many parts go back at once; ``make chaos`` has them all."""
MIXTURES = [frozenset(chosen) for size in SIZES for chosen in itertools.combinations(PARTS, size)]
PARTED = 8
"""So many tests run all mixtures: none of them takes long by itself."""
CONSISTENT = {
    frozenset(one for one in PARTS if one[0] in layers)
    for layers in (("gold",), ("silver", "gold"), ("bronze", "silver", "gold"))
}
"""Mixtures in which no query has read more than its source has: they go on as if nothing had been."""


@dataclass
class Steps:
    """Two states of one pipeline: one that goes on, and the folder of an older copy."""

    newer: Life
    older: Path

    @property
    def silver(self) -> Any:
        """The declaration of the silver table."""
        return self.newer.engine.pipeline.silver[0]

    @property
    def gold(self) -> Any:
        """The declaration of the first gold table."""
        return self.newer.engine.pipeline.gold[0]


def _records() -> tuple[list[list[Record]], list[list[int]]]:
    records: list[list[Record]] = []
    ends, at = [], [0, 0]
    for values in CUTS:
        batch = []
        for value in values:
            partition = at.index(min(at))
            batch.append(Record(partition, at[partition], KAFKA_TIME, value))
            at[partition] += 1
        records.append(batch)
        ends.append(list(at))
    return records, ends


def _steps(spark: Any, folder: Path, pipeline: Pipeline) -> Steps:
    engine = Engine(spark, pipeline, _settings(folder))
    records, ends = _records()
    delta_table.ensure(spark, "bronze.events", engine.path("bronze.events"), SCHEMA, PROPERTIES)
    life = Life(engine, folder, ends, records, {})
    older = folder.parent / f"{folder.name}_older"
    for first, end in ((0, OLDER), (OLDER, NEWER)):
        life.read(engine, first, end)
        engine.run("silver", "gold")
        if pipeline.publish:
            engine.publish()
        # The checkpoint of bronze, as its query would have it.
        recover_all(pipeline, engine.settings, engine.layout, only="bronze.events", spark=lambda: spark)
        if end == OLDER:
            shutil.copytree(folder, older)
    return Steps(life, older)


def _copy(steps: Steps, name: str) -> Engine:
    folder = steps.newer.folder.parent / f"{steps.newer.folder.name}_{name}"
    shutil.copytree(steps.newer.folder, folder)
    return Engine(steps.newer.engine.spark, steps.newer.engine.pipeline, _settings(folder))


def _put_back(steps: Steps, engine: Engine, parts: Sequence[tuple[str, str]] | frozenset[Any]) -> None:
    """Have the older copy of these parts in place of the newer one."""
    older = Engine(engine.spark, engine.pipeline, _settings(steps.older))
    for layer, part in parts:
        declared = [one for one in engine.pipeline.tables if one.table.startswith(f"{layer}.")]
        for one in declared:
            if part == "checkpoint":
                _replace(Path(older.checkpoint(one.table)), Path(engine.checkpoint(one.table)))
                continue
            for table in (one.table, *one.side_tables):
                _replace(Path(older.path(table)), Path(engine.path(table)))


def _replace(older: Path, newer: Path) -> None:
    shutil.rmtree(newer)
    shutil.copytree(older, newer)


def _read_by_bronze(engine: Engine) -> int:
    return len(engine.commits("bronze.events"))


def _go_on(steps: Steps, engine: Engine) -> None:
    """A start of all layers, with all records that bronze lacks."""
    context = Context(engine.spark, engine.pipeline, engine.settings, engine.layout)
    start_checks.check_table(context, engine.pipeline.bronze[0], start_checks.TornCommits())
    steps.newer.read(engine, _read_by_bronze(engine), len(CUTS))
    engine.run("silver", "gold")


def _recovers(steps: Steps, engine: Engine) -> bool:
    """Start; as long as it is refused, type what the message says. Whether it was refused."""
    was_refused = False
    for _ in range(4):
        try:
            _go_on(steps, engine)
        except CheckpointMismatchError as refusal:
            was_refused, told = True, str(refusal)
            recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: engine.spark)
        else:
            return was_refused
    raise AssertionError(f"still refused: {told}")


def _run_mixtures(steps: Steps, mixtures: Sequence[frozenset[Any]]) -> None:
    expected, failed = _expected(steps), []
    for mixture in mixtures:
        name = "_".join(sorted(f"{layer}-{part}" for layer, part in mixture))
        engine = _copy(steps, name)
        _put_back(steps, engine, mixture)
        was_refused = _recovers(steps, engine)
        if was_refused == (mixture in CONSISTENT):
            failed.append(f"{name}: {'refused' if was_refused else 'not refused'}")
        print(name, "refused" if was_refused else "goes on", flush=True)  # noqa: T201
        found = content(engine)
        failed += [f"{name}: {table} differs" for table in found if found[table] != expected[table]]
        failed += [f"{name}: {fault}" for fault in engine.faults()]
        shutil.rmtree(engine.layout.local.parents[1])
        release_tables()
    assert failed == []


def _expected(steps: Steps) -> dict[str, Counter[str]]:
    undamaged = _copy(steps, f"undamaged_{next(_numbers)}")
    _go_on(steps, undamaged)
    found = content(undamaged)
    assert len(found[SILVER[0]]) > 0
    return found


_numbers = itertools.count()


@pytest.fixture(scope="module")
def three(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """Bronze, silver and one gold table."""
    return _steps(spark, tmp_path_factory.mktemp("back"), THREE_LAYERS)


def test_a_source_that_went_back_with_its_checkpoint_is_refused_by_its_reader(three: Steps) -> None:
    """Bronze for silver, silver for gold, and again once the numbers of versions fit."""
    for layer, reader in (("bronze", three.silver), ("silver", three.gold)):
        engine = _copy(three, f"{layer}_back")
        assert not _refused(engine, [reader])
        _put_back(three, engine, [(layer, "tables"), (layer, "checkpoint")])
        assert _refused(engine, [reader])
        if layer == "bronze":
            three.newer.read(engine, OLDER, NEWER)
        else:
            engine.run("silver")
        assert engine.version(f"{layer}.events") == three.newer.engine.version(f"{layer}.events")
        assert _refused(engine, [reader])


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTED))
def test_every_mixture_of_one_step_back_is_refused_or_right(three: Steps, part: int) -> None:
    assert len(MIXTURES) >= 21
    _run_mixtures(three, MIXTURES[part::PARTED])


@pytest.mark.long
def test_every_kind_of_reader_asks(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """All kinds of gold, joins of two tables, gold over gold and publications: each by its own start."""
    steps = _steps(spark, tmp_path_factory.mktemp("kinds"), ALL_KINDS)
    engine = _copy(steps, "silver")
    _put_back(steps, engine, [("silver", "tables"), ("silver", "checkpoint")])
    engine.run("silver")  # its numbers fit again
    every = [*ALL_KINDS.gold, *ALL_KINDS.publish]
    assert _refused(engine, every) == {one.table for one in every if one.reads == "silver.events"}
    engine = _copy(steps, "gold")
    older = Engine(spark, ALL_KINDS, _settings(steps.older))
    _replace(older.checkpoint("gold.by_event"), engine.checkpoint("gold.by_event"))
    _replace(Path(older.path("gold.by_event")), Path(engine.path("gold.by_event")))
    assert _refused(engine, every) == {"gold.of_gold", "gold.beside_gold", "publish.of_gold"}


def _refused(engine: Engine, declared: Sequence[Any]) -> set[str]:
    context = Context(engine.spark, engine.pipeline, engine.settings, engine.layout)
    return {one.table for one in declared if _is_refused(context, one)}


def _is_refused(context: Context, declared: Any) -> bool:
    try:
        if isinstance(declared, Publish):
            start_checks.check_publication(context, declared)
        else:
            start_checks.check_table(context, declared, start_checks.TornCommits())
    except CheckpointMismatchError as refusal:
        return f"medallion recover {declared.table}" in str(refusal)
    return False
