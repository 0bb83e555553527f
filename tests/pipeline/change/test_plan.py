"""Each change of tests/spec/plan, planned, then really started: the plan is what the start did."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from common.config.settings import Settings
from common.declare import (
    Debezium,
    Pipeline,
    Rule,
    Silver,
    Topic,
    Upsert,
)
from common.delta.lease.local_leases import Leases
from common.delta.log import column_types
from common.errors import MedallionError, UnknownFieldError
from common.schema import value_fields
from orchestration.change.plan.change import Effect
from orchestration.change.plan.plan import plan
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import make_settings
from tests.runs.shards import in_turn
from tests.support.documents.chapters import Row
from tests.support.documents.chapters import rows as rows_of
from tests.support.engine import Engine
from tests.support.oracles.plan_shop import (
    BASE,
    DAY,
    FIRST,
    GOLD,
    THEN,
    only,
    orders,
)

CHANGES = Path(__file__).parents[2] / "spec" / "plan" / "changes.md"
Rows = dict[str, Counter[str]]


@dataclass(frozen=True)
class Case:
    """A change.

    Attributes:
        name: What it changes.
        query: The query that it concerns.
        effect: What the plan says.
        now: The declaration after the change; None: it is gone.
        shows: Whether rows that come after the change tell the two declarations apart.
        settings: Settings after the change.
        pipeline: Other attributes of the pipeline.
    """

    name: str
    query: str
    effect: Effect
    now: Any
    shows: bool = True
    settings: tuple[str, ...] = ()
    pipeline: dict[str, Any] = field(default_factory=dict)


ORDERS = "silver.orders"


def case(row: Row) -> Case:
    """The change of a row of the chapter."""
    effect, _, same = row.cells[2].partition(", ")
    now = row.value(1)
    return Case(row.cells[0], now.table, cast("Effect", effect), now, not same)


CASES = [
    *(case(row) for row in rows_of(CHANGES) if not isinstance(row.value(1), Topic)),
    Case("trigger", ORDERS, "next start", orders(), False, ("silver.trigger=3 seconds",)),
    Case("state partitions", ORDERS, "no effect", orders(), False, ("spark.shuffle_partitions=7",)),
    Case("table removed", "silver.exact", "not declared", None, False),
    Case("name of the pipeline", ORDERS, "new", orders(), pipeline={"name": "store"}),
    Case(
        "change that is accepted",
        "gold.latest",
        "next start",
        replace(GOLD["latest"], newest_by=["amount"]),
        settings=('gold.accept_changed=["gold.latest"]',),
        shows=False,
    ),
]


FAST: dict[str, set[Effect]] = {
    "expression of a column": {"not compared"},
    "column of another type": {"not compared"},
    "column of a wider type": {"not compared"},
    "field of the value added": {"not compared"},
    "column of an unknown field": {"new column"},
    "unknown fields rescued": {"not compared"},
    "unknown fields become columns": {"not compared"},
    "unknown fields refused": {"not compared"},
    "columns of a custom table": {"not compared"},
}
"""What a plan says instead where the types of columns are not compared."""

IN_EVERY_RUN = {(ORDERS, "column added")}
"""The kinds of change that are not left to the long tests."""


def settings_of(folder: Path, *more: str) -> Settings:
    """Settings of the shop under a folder."""
    return make_settings(folder, "none:1", "spark.shuffle_partitions=1", *more)


@pytest.fixture(scope="module")
def before(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function: the shop after its first records, as far as a query needs it."""
    made: dict[bool, Path] = {}

    def find(query: str) -> Path:
        has_gold = not query.startswith("silver.")
        if has_gold not in made:
            made[has_gold] = tmp_path_factory.mktemp("before")
            engine = Engine(spark, BASE, settings_of(made[has_gold]))
            engine.append_bronze("bronze.orders", FIRST)
            engine.append_bronze("bronze.others", FIRST[:1])
            engine.run("silver")
            if has_gold:
                engine.run("gold")
                engine.publish()
        return made[has_gold]

    return find


@pytest.fixture(scope="module")
def usual(
    spark: Any, before: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Rows]:
    """A function: the rows of a query's tables after all records, without any change."""
    known: dict[str, Rows] = {}

    def find(query: str) -> Rows:
        if query not in known:
            engine = copied(spark, before(query), tmp_path_factory.mktemp("usual"), only(query, BASE))
            start(engine, query)
            known[query] = rows(engine, query)
        return known[query]

    return find


def copied(spark: Any, before: Path, folder: Path, pipeline: Pipeline, *settings: str) -> Engine:
    """A copy of the shop, whose bronze and silver have the next records unless its silver is under test."""
    shutil.copytree(before / "data", folder / "data")
    return Engine(spark, pipeline, settings_of(folder, *settings))


def start(engine: Engine, query: str) -> None:
    """Bring the next records, and start the query."""
    layer = query.partition(".")[0]
    if layer != "silver":
        base = Engine(engine.spark, replace(BASE, gold=[], publish=[]), engine.settings)
        base.layout = engine.layout
        base.append_bronze("bronze.orders", THEN)
        base.run("silver")
        engine.run("gold")
        if layer == "publish":
            engine.publish()
        return
    engine.append_bronze("bronze.orders", THEN)
    engine.run("silver")


def rows(engine: Engine, query: str) -> Rows:
    """The rows of the query's tables, without what differs from run to run."""
    if query.startswith("publish."):
        return {}
    declared = engine.pipeline.table(query)
    return {
        table: Counter(
            repr(sorted((n, v) for n, v in row.items() if n not in {"rule_version", "_ingested_at"}))
            for row in engine.rows(table)
        )
        for table in (query, *declared.side_tables)
        if column_types(engine.path(table))
    }


def changed(case: Case) -> Pipeline:
    """The pipeline of a case: what the query needs, with the declaration after the change."""
    layer = case.query.partition(".")[0]
    kept = [
        one
        for one in getattr(BASE, layer)
        if case.now is None or one.table not in {case.query, case.now.table}
    ]
    if case.name == "name of a table":
        kept = [one for one in kept if one.table != ORDERS]
    declared = [one for one in kept if one.table != case.query] + ([case.now] if case.now else [])
    pipeline = replace(BASE, **{layer: declared}, **case.pipeline)
    return pipeline if case.now is None else only(case.query, pipeline)


_USUAL = [case for case in CASES if (case.query, case.name) in IN_EVERY_RUN]
_CHOSEN = [*_USUAL, *in_turn([case for case in CASES if case not in _USUAL], 3)]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=f"{case.query} {case.name}",
            marks=() if (case.query, case.name) in IN_EVERY_RUN else pytest.mark.long,
        )
        for case in _CHOSEN
    ],
)
def test_the_plan_is_what_the_next_start_did(
    spark: Any,
    before: Callable[[str], Path],
    usual: Callable[[str], Rows],
    tmp_path: Path,
    case: Case,
) -> None:
    engine = copied(spark, before(case.query), tmp_path, changed(case), *case.settings)
    if case.pipeline:
        engine.append_bronze("bronze.orders", FIRST)
    found = {one.query: one for one in plan(engine.pipeline, engine.settings, engine.layout, lambda: spark)}
    assert found[case.query].effect == case.effect, found[case.query]
    fast = {one.query: one.effect for one in plan(engine.pipeline, engine.settings, engine.layout)}
    # Without Spark an unknown field is not known, and types are not compared; the rest is the same.
    assert fast[case.query] in {case.effect, *FAST.get(case.name, ())}
    check(engine, case, usual)


def test_a_micro_batch_that_a_job_writes_is_not_called_cut_off(
    spark: Any, before: Callable[[str], Path], tmp_path: Path
) -> None:
    """Without the job it is: silver is written, and the checkpoint has not committed the micro-batch."""
    pipeline = replace(
        BASE, silver=[orders(rules=[Rule("amount_positive", "amount > 1")])], gold=[], publish=[]
    )
    engine = copied(spark, before(ORDERS), tmp_path, pipeline)
    engine.undo_last_commit(ORDERS)

    def found() -> tuple[str, list[str]]:
        plans = plan(engine.pipeline, engine.settings, engine.layout)
        (one,) = (each for each in plans if each.query == ORDERS)
        return one.effect, [change.name for change in one.changes]

    assert found()[0] == "refused"
    assert "cut-off micro-batch" in found()[1]
    with Leases(engine.layout.leases, [ORDERS], "run-silver"):
        assert found()[0] == "next start"
        assert "cut-off micro-batch" not in found()[1]


@pytest.mark.long
@pytest.mark.parametrize("rows_in_driver", [1_000, 0])
def test_fields_at_the_ends_of_structs_are_added_as_columns_are(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_in_driver: int
) -> None:
    """The envelope's source, which a release gave a field, and an author's struct and array of structs."""

    def shop(more: str) -> Pipeline:
        part = f"named_struct('n', cast(after.n as int){more})"
        columns = {"id": "after.id", "at": "timestamp_millis(ts_ms)", "source": "source"}
        columns |= {"own": part, "many": f"array(named_struct('n', 1{more}))"}
        table = Silver(
            "orders", "bronze.orders", Debezium("id string, n int"), columns, ["id", "at"], "at", "1 day"
        )
        latest = Upsert("latest", ORDERS, key=["id"], newest_by=["at"], columns=["id", "at", "source"])
        return Pipeline(name="shop", bronze=BASE.bronze, silver=[table], gold=[latest])

    def sent(offset: int) -> tuple[Any, ...]:
        source = {"lsn": offset, "ts_ms": offset, "snapshot": "last"}
        content = {
            "op": "c",
            "after": {"id": f"k{offset}", "n": 1},
            "ts_ms": 1_768_000_000_000,
            "source": source,
        }
        return ("orders", 0, offset, DAY, 0, DAY, b"k", json.dumps(content).encode(), None)

    settings = settings_of(tmp_path, f"driver.batch_rows={rows_in_driver}")
    with monkeypatch.context() as former:
        former.setattr(value_fields, "_SOURCE_FIELDS", value_fields._SOURCE_FIELDS[:-1])
        former.setattr(value_fields, "_ENVELOPE", value_fields._ENVELOPE.replace(", `snapshot` string", ""))
        engine = Engine(spark, shop(""), settings)
        engine.append_bronze("bronze.orders", [sent(0)])
        engine.run("silver", "gold")
        assert set(engine.rows(ORDERS)[0]["source"]) == {name for name, _ in value_fields._SOURCE_FIELDS}
    engine = Engine(spark, shop(", 'm', after.n + 1"), settings)
    engine.append_bronze("bronze.orders", [sent(1)])
    found = {
        one.query: one for one in plan(engine.pipeline, settings, engine.layout, lambda: spark) if one.changes
    }
    assert found[ORDERS].effect == "new column"
    names = {"column source", "column own", "column many"}
    assert names <= {each.name for each in found[ORDERS].changes}
    engine.run("silver")
    old, new = sorted(engine.rows(ORDERS), key=lambda row: row["id"])
    assert (old["source"]["lsn"], old["source"]["snapshot"], old["own"], old["many"]) == (
        (0, None, {"n": 1, "m": None}, [{"n": 1, "m": None}])
    )
    assert (new["source"]["snapshot"], new["own"], new["many"]) == (
        ("last", {"n": 1, "m": 2}, [{"n": 1, "m": 2}])
    )
    # Gold may have made the struct itself: only a rebuild knows what rows that are there have in the field.
    assert found["gold.latest"].effect == "rebuild"
    with pytest.raises(MedallionError, match=r"medallion rebuild gold\.latest"):
        engine.run("gold")
    refill(engine.pipeline, engine.layout, "gold.latest")
    engine.run("gold")
    assert {row["id"]: row["source"]["snapshot"] for row in engine.rows("gold.latest")} == {
        "k0": None,
        "k1": "last",
    }
    assert engine.faults() == ()


def check(engine: Engine, case: Case, usual: Callable[[str], Rows]) -> None:
    """Start the query: what happens is what the effect means."""
    if case.effect == "not declared":
        held = engine.version(case.query)
        engine.run("silver")
        assert engine.version(case.query) == held
        return
    columns = set(column_types(engine.path(case.query)))
    held = {} if case.query.startswith("publish.") or not columns else rows(engine, case.query)
    if case.effect in {"refused", "rebuild"}:
        named = f"medallion rebuild {case.query}" if case.effect == "rebuild" else None
        with pytest.raises(MedallionError, match=named):
            start(engine, case.query)
        if case.effect == "rebuild":
            rebuilds(engine, case)
        return
    if case.name == "unknown fields refused":
        with pytest.raises(UnknownFieldError):
            start(engine, case.query)
        return
    start(engine, case.query)
    after = rows(engine, case.query)
    if case.effect in {"unchanged", "no effect"}:
        assert after == usual(case.query)
    if case.effect == "next start" and case.shows:
        assert after != usual(case.query)
    if case.effect in {"next start", "new column", "new"} and case.query.startswith("silver."):
        assert engine.rows(case.query)
    added = set(column_types(engine.path(case.query))) - columns
    assert bool(added) == (case.effect in {"new column", "new"}) or case.query.startswith("publish.")
    if case.effect == "new column":
        olds = [row for row in engine.rows(case.query) if row["_kafka_offset"] < len(FIRST)]
        assert len(olds) == len(FIRST)
        assert {row[name] for row in olds for name in added} == {None}
    elif case.query == ORDERS and held and case.effect != "new":
        assert held[ORDERS] <= after[ORDERS]  # rows that were there stay as they are


def rebuilds(engine: Engine, case: Case) -> None:
    """After a rebuild the table is as if it were new."""
    layer = case.query.partition(".")[0]
    if layer == "silver":
        shop, silver = engine.pipeline, engine.pipeline.silver[0]
        rebuild_silver(engine.spark, shop, engine.settings, engine.layout, silver, lambda text: None)
        assert engine.faults() == ()
    else:
        refill(engine.pipeline, engine.layout, case.query)
    engine.run(layer)
    found = rows(engine, case.query)
    for table in (case.query, *engine.pipeline.table(case.query).side_tables):
        shutil.rmtree(engine.path(table))
    shutil.rmtree(engine.checkpoint(case.query))
    engine.run(layer)
    assert found == rows(engine, case.query)
