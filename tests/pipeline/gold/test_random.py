"""Any life of silver, cut into any micro-batches, killed at any write: gold is what DuckDB makes of silver.

After every micro-batch: each version that one left behind is compared with a query over silver at the
version that it had read to. One life is written down, others are drawn: ``GOLD_EXAMPLES=50`` draws so many.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from common.declare import (
    Aggregate,
    ChangeFeed,
    Gold,
    History,
    Join,
    Pipeline,
    Session,
    Stateful,
    Topic,
    Upsert,
    Window,
)
from orchestration.records.audit.gold.content import ContentAudit, GoldProof
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine
from tests.support.oracles import gold_sql
from tests.support.oracles.numbered_rows import LAST_NUMBER, NUMBERED, Numbered
from tests.support.oracles.silver_history import (
    ADDITION,
    CUSTOMERS,
    ORDERS,
    Append,
    Compact,
    Delete,
    Late,
    SilverCommit,
    SilverTables,
    Update,
    commits_between_runs,
    customers,
    orders,
)

MEASURES = {"orders": "count(*)", "total": "sum(amount)", "first_at": "min(seen_at)"}
ANY_MEASURES = {**MEASURES, "customers": "count(distinct customer)", "middle": "percentile(amount, 0.5)"}
LARGE = {"country": "country", "is_paid": "status = 'paid'"}
OVERLAPPING, SESSIONS = (
    Window("seen_at", "50 minutes", "20 minutes", "-7 minutes"),
    Session("seen_at", "10 minutes"),
)


def _spark(name: str, mode: Literal["complete", "update"], **how: Any) -> Aggregate:
    return Aggregate(name, reads=ORDERS, mode=mode, measures=MEASURES, **how)


def _exact(name: str, **how: Any) -> Aggregate:
    return Aggregate(name, reads=ORDERS, mode="recompute", measures=ANY_MEASURES, **how)


def _processor(name: str, mode: Literal["append", "update"]) -> Stateful:
    return Stateful(name, reads=ORDERS, key=["k"], processor=Numbered, output="k string, n int", mode=mode)


SPARKS: Sequence[tuple[Gold, Mapping[str, str]]] = [
    (
        _spark("complete", "complete", by=LARGE, where="amount > 2"),
        {"gold.complete": gold_sql.SPARKS_LARGE},
    ),
    (
        _spark("complete_sessions", "complete", by=["k"], window=SESSIONS),
        {"gold.complete_sessions": gold_sql.SPARKS_SESSIONS},
    ),
    (
        _spark("update", "update", by=["country"], window=OVERLAPPING),
        {"gold.update": gold_sql.SPARKS_SLIDING},
    ),
    (_processor("numbered", "append"), {"gold.numbered": NUMBERED}),
    (_processor("last_number", "update"), {"gold.last_number": LAST_NUMBER}),
]
"""Spark's output modes and processors, which cannot take a row back, and the SQL of their tables."""

EXACT: Sequence[tuple[Gold, Mapping[str, str]]] = [
    (
        Upsert("latest", reads=ORDERS, key=["k"], newest_by=["version"], delete_when="status = 'gone'"),
        {"gold.latest": gold_sql.LATEST, "gold.latest__deleted": gold_sql.DELETED},
    ),
    (
        _exact("large", by=LARGE, where="amount > 2"),
        {"gold.large": gold_sql.LARGE},
    ),
    (
        _exact("overlapping", by=["country"], window=OVERLAPPING),
        {"gold.overlapping": gold_sql.SLIDING},
    ),
    (
        _exact("sessions", by=["k"], window=SESSIONS),
        {"gold.sessions": gold_sql.SESSIONS},
    ),
    (
        History(
            "states",
            reads=ORDERS,
            key=["k"],
            valid_by="seen_at",
            columns=["status", "country"],
            delete_when="status = 'gone'",
        ),
        {"gold.states": gold_sql.HISTORY},
    ),
    (
        Join(
            "joined",
            reads=ORDERS,
            joins=CUSTOMERS,
            on={"id": "customer"},
            columns={"k": "k", "amount": "amount", "name": "customers.name"},
        ),
        {"gold.joined": gold_sql.JOINED},
    ),
    (
        Join(
            "met",
            reads=ORDERS,
            joins=CUSTOMERS,
            on={"id": "abs(customer)"},
            how="semi",
            columns=["k", "amount"],
        ),
        {"gold.met": gold_sql.MET},
    ),
]
"""The kinds that take rows back, and the SQL of their tables."""

COUNTED = {"where": "amount > 2 and country is not null"}
FILTERED: Sequence[tuple[Gold, Mapping[str, str]]] = [
    (
        Upsert(
            "latest", reads=ORDERS, key=["k"], newest_by=["version"], delete_when="status = 'gone'", **COUNTED
        ),
        {
            "gold.latest": gold_sql.of_some(gold_sql.LATEST),
            "gold.latest__deleted": gold_sql.of_some(gold_sql.DELETED),
        },
    ),
    (
        ChangeFeed(
            "copy",
            reads=ORDERS,
            key=["k"],
            sequence_by=["version"],
            operation="status",
            upserts=["open", "paid"],
            deletes=["gone"],
            unchanged=None,
            **COUNTED,
        ),
        {
            "gold.copy": gold_sql.of_some(gold_sql.LATEST),
            "gold.copy__deleted": gold_sql.of_some(gold_sql.DELETED),
        },
    ),
    (
        History(
            "states",
            reads=ORDERS,
            key=["k"],
            valid_by="seen_at",
            columns=["status", "country"],
            delete_when="status = 'gone'",
            **COUNTED,
        ),
        {"gold.states": gold_sql.of_some(gold_sql.HISTORY)},
    ),
    (
        Join(
            "joined",
            reads=ORDERS,
            joins=CUSTOMERS,
            on={"id": "customer"},
            columns={"k": "k", "amount": "amount", "name": "customers.name"},
            **COUNTED,
        ),
        {"gold.joined": gold_sql.of_some(gold_sql.JOINED)},
    ),
]
"""The kinds with a condition on the rows that count, and the SQL of their tables."""

PARTIAL: Sequence[tuple[Gold, Mapping[str, str]]] = [
    (
        Upsert(
            "filled",
            reads=ORDERS,
            key=["k"],
            newest_by=["version"],
            delete_when="status = 'gone'",
            ignore_nulls=True,
        ),
        {"gold.filled": gold_sql.FILLED, "gold.filled__deleted": gold_sql.DELETED},
    ),
    (
        History(
            "filled_states",
            reads=ORDERS,
            key=["k"],
            valid_by="seen_at",
            columns=["status", "country"],
            delete_when="status = 'gone'",
            sequence_by=["version"],
            untracked=["amount"],
            ignore_nulls=True,
            surrogate_key="state_id",
        ),
        {"gold.filled_states": gold_sql.FILLED_HISTORY},
    ),
]
"""Partial updates, and the SQL of their tables."""

SNAPSHOTS: Sequence[tuple[Gold, Mapping[str, str]]] = [
    (
        History(
            "followed_states",
            reads=ORDERS,
            key=["k"],
            valid_by="seen_at",
            columns=["status", "country"],
            sequence_by=["version"],
            untracked=["amount"],
            ignore_nulls=True,
            surrogate_key="state_id",
            snapshots="followed",
        ),
        {"gold.followed_states": gold_sql.FOLLOWED_HISTORY},
    ),
    (
        History(
            "arrived_states",
            reads=ORDERS,
            key=["k"],
            valid_by="seen_at",
            columns=["status", "country"],
            snapshots="arrived",
            **COUNTED,
        ),
        {"gold.arrived_states": gold_sql.of_some(gold_sql.ARRIVED_HISTORY)},
    ),
]
"""Histories of full snapshots, and the SQL of their tables."""

_folders = itertools.count()


@dataclass(frozen=True)
class Run:
    """What happens to silver, then to the checkpoint of one gold table, and then gold runs.

    Attributes:
        commits: Commits of silver.
        replayed: The gold table whose last micro-batch comes again, by its place.
        lost: The gold table whose checkpoint is gone, by its place.
        crashes: By the number of a write: whether that write is done before the process crashes there.
        in_driver: Whether few rows are worked out in the driver, or like many by the executors.
    """

    commits: Sequence[SilverCommit]
    replayed: int | None
    lost: int | None
    crashes: Mapping[int, bool]
    in_driver: bool = True


def runs(*, changes: bool) -> SearchStrategy[list[Run]]:
    """A life: what is there before gold's first start, and what happens between two starts."""
    seldom = st.one_of(st.none(), st.none(), st.integers(0, 20))
    crashes = st.dictionaries(st.integers(0, 30), st.booleans(), max_size=2)
    first = st.lists(ADDITION, min_size=1, max_size=2)
    begins = st.builds(Run, first, st.none(), st.none(), crashes, st.booleans())
    goes_on = st.builds(Run, commits_between_runs(changes=changes), seldom, seldom, crashes, st.booleans())
    return st.tuples(begins, st.lists(goes_on, min_size=2, max_size=3)).map(lambda life: [life[0], *life[1]])


BEGINS = Run(
    [
        Append(
            ORDERS,
            [
                orders("a 1 de 5 open 0 1", "a 2 de 7 open 10 2", "b 1 fr 3 open 5 2", "- 1 - 4 paid 7 -"),
                orders(
                    "a 2 fr 1 paid 35 1", "b - de 9 gone - 3", "c 3 - - open 120 1", "c 3 fr 8 gone 121 1"
                ),
            ],
        ),
        Append(CUSTOMERS, [customers("1 ann", "2 bob", "- eve")]),
    ],
    replayed=None,
    lost=None,
    crashes={4: True},
)
NEWER = Run(
    [
        Append(ORDERS, [orders("a 3 de 5 open 125 1", "c 4 fr 8 paid 125 1")]),
        Append(ORDERS, [orders("b 3 de 5 open 125 1"), orders("a 4 de 5 open 130 1", "d 4 de 5 open 130 1")]),
        Append(ORDERS, [orders("a 5 de 6 open 135 1"), orders("b 4 de 7 paid 135 1", "c 5 fr 9 paid 140 1")]),
    ],
    replayed=1,
    lost=None,
    crashes={},
)
TAKEN_BACK = Run(
    [
        Late(ORDERS, orders("a 1 de 6 open 20 3", "c 2 fr 7 open 60 1")),
        Update(ORDERS, "k = 'a'", (("seen_at", "seen_at + interval '10 minutes'"), ("amount", "amount + 1"))),
        Append(CUSTOMERS, [customers("3 joe", "1 amy")]),
        Delete(ORDERS, "_kafka_offset % 4 = 3"),
        Compact(ORDERS),
        Append(ORDERS, [orders("b 2 fr 2 gone 50 2", "c 4 de 5 open 15 1"), orders("- 5 de 6 paid 12 2")]),
    ],
    replayed=4,
    lost=2,
    crashes={5: False},
)
BY_EXECUTORS = Run(
    [
        Late(ORDERS, orders("b 1 de 1 open 30 2", "c 5 fr 2 gone 61 1")),
        Update(ORDERS, "k = 'c'", (("seen_at", "seen_at - interval '15 minutes'"), ("customer", "2"))),
        Append(CUSTOMERS, [customers("2 rob")]),
    ],
    replayed=None,
    lost=None,
    crashes={},
    in_driver=False,
)
ADDED = Run(
    [
        Late(ORDERS, orders("a 1 de 6 open 20 3", "c 2 fr 7 open 60 1")),
        Compact(ORDERS),
        Append(ORDERS, [orders("b 2 fr 2 gone 50 2", "c 4 de 5 open 15 1"), orders("- 5 de 6 paid 12 2")]),
    ],
    replayed=0,
    lost=1,
    crashes={2: False},
)


def drawn(*, changes: bool) -> Any:
    """Lives drawn anew in each run: two, or as many as ``GOLD_EXAMPLES`` says."""
    how = settings(
        max_examples=int(os.environ.get("GOLD_EXAMPLES", "2")),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    lives = given(life=runs(changes=changes), files=st.sampled_from([1, 2, 200]))
    return lambda test: pytest.mark.long(how(lives(test)))


SHORT = [
    replace(BEGINS, crashes={}),
    Run(
        [
            Late(ORDERS, orders("a 1 de 6 open 20 3", "c 2 fr 7 open 60 1")),
            Update(ORDERS, "k = 'a'", (("seen_at", "seen_at + interval '10 minutes'"),)),
            Append(CUSTOMERS, [customers("3 joe", "1 amy")]),
            Delete(ORDERS, "_kafka_offset % 4 = 3"),
        ],
        replayed=0,
        lost=None,
        crashes={2: True},
    ),
]
WRITTEN = {
    "driver": [BEGINS, TAKEN_BACK],
    "executors": [BEGINS, BY_EXECUTORS],
    "added": [replace(BEGINS, crashes={1: True}), replace(ADDED, in_driver=False)],
}


def test_a_short_life_of_kinds_that_take_rows_back_is_a_batch_over_silver(
    spark: Any, session_dir: Path
) -> None:
    """Rows that are late, changed and deleted; a micro-batch that is replayed, and a crash after a write."""
    kinds = [EXACT[place] for place in (0, 4, 5)]
    crashed, compared = live(spark, session_dir, kinds, SHORT, 200)
    assert (crashed, compared > 2 * len(kinds)) == (1, True)


@pytest.mark.long
def test_kinds_that_take_rows_back_are_a_batch_over_silver(spark: Any, session_dir: Path) -> None:
    """Late rows, deletes, updates, in one table and in the one that is joined."""
    crashed, compared = live(spark, session_dir, EXACT, WRITTEN["driver"], 2)
    assert (crashed, compared > 2 * len(EXACT)) == (2, True)


@pytest.mark.long
def test_kinds_with_a_condition_are_a_batch_over_the_rows_that_meet_it(spark: Any, session_dir: Path) -> None:
    """Rows that begin or cease to meet it, by the driver and then by the executors."""
    life = [*WRITTEN["driver"], BY_EXECUTORS]
    crashed, compared = live(spark, session_dir, FILTERED, life, 2)
    assert (crashed, compared > 3 * len(FILTERED)) == (2, True)


@pytest.mark.long
def test_partial_updates_are_a_batch_over_silver(spark: Any, session_dir: Path) -> None:
    """Null leaves a value as it was, also where the row that has it is late, is deleted or changes."""
    life = [replace(BEGINS, crashes={1: True}), replace(TAKEN_BACK, crashes={1: False}), BY_EXECUTORS]
    crashed, compared = live(spark, session_dir, PARTIAL, life, 2)
    assert (crashed >= 1, compared > 3 * len(PARTIAL)) == (True, True)


@pytest.mark.long
@drawn(changes=True)
def test_partial_updates_are_a_batch_over_any_silver(
    spark: Any, session_dir: Path, life: list[Run], files: int
) -> None:
    live(spark, session_dir, PARTIAL, life, files)


@pytest.mark.long
def test_histories_of_snapshots_are_a_batch_over_silver(spark: Any, session_dir: Path) -> None:
    """In order, late, cut, corrected and removed."""
    life = [replace(BEGINS, crashes={1: True}), NEWER, replace(TAKEN_BACK, crashes={1: False}), BY_EXECUTORS]
    crashed, compared = live(spark, session_dir, SNAPSHOTS, life, 1)
    assert (crashed >= 1, compared > 3 * len(SNAPSHOTS)) == (True, True)


@pytest.mark.long
@drawn(changes=True)
def test_histories_of_snapshots_are_a_batch_over_any_silver(
    spark: Any, session_dir: Path, life: list[Run], files: int
) -> None:
    live(spark, session_dir, SNAPSHOTS, life, files)


@pytest.mark.long
@drawn(changes=True)
def test_kinds_that_take_rows_back_are_a_batch_over_any_silver(
    spark: Any, session_dir: Path, life: list[Run], files: int
) -> None:
    live(spark, session_dir, EXACT, life, files)


@pytest.mark.long
def test_the_executors_go_on_where_the_driver_was(spark: Any, session_dir: Path) -> None:
    """The same tables, once few rows are no longer worked out in the driver."""
    crashed, compared = live(spark, session_dir, EXACT, WRITTEN["executors"], 2)
    assert (crashed, compared > 2 * len(EXACT)) == (1, True)


@pytest.mark.long
def test_sparks_output_modes_are_a_batch_over_silver(spark: Any, session_dir: Path) -> None:
    """Late rows and compaction; no row is taken back."""
    crashed, compared = live(spark, session_dir, SPARKS, WRITTEN["added"], 2)
    assert (crashed, compared > 2 * len(SPARKS)) == (2, True)


@pytest.mark.long
@drawn(changes=False)
def test_sparks_output_modes_are_a_batch_over_any_silver(
    spark: Any, session_dir: Path, life: list[Run], files: int
) -> None:
    live(spark, session_dir, SPARKS, life, files)


def live(
    spark: Any,
    session_dir: Path,
    kinds: Sequence[tuple[Gold, Mapping[str, str]]],
    life: Sequence[Run],
    files: int,
) -> tuple[int, int]:
    """Live one life, and compare every version that a micro-batch left; how often it crashed, how many."""
    folder = session_dir / f"gold_random_{next(_folders)}"
    folder.mkdir()
    gold = [declared for declared, _ in kinds]
    pipeline = Pipeline(name="shop", bronze=[Topic("orders")], gold=gold)
    engines = {}
    for in_driver in (True, False):
        rows = f"driver.batch_rows={20_000 if in_driver else 0}"
        given = make_settings(folder, "none:1", f"gold.max_files_per_trigger={files}", rows)
        engines[in_driver] = Engine(spark, pipeline, given)
    silver, crashed = SilverTables(engines[True], (ORDERS, CUSTOMERS)), 0
    for run in life:
        engine = engines[run.in_driver]
        for commit in run.commits:
            silver.write(commit)
        if run.replayed is not None:
            _replay(engine, gold[run.replayed % len(gold)].table)
        if run.lost is not None:
            shutil.rmtree(engine.checkpoint(gold[run.lost % len(gold)].table))
        crashed += run_through_crashes(partial(engine.run, "gold"), run.crashes)
    compared = compare(engines[True], kinds)
    content = ContentAudit(spark, pipeline, engines[True].layout, GoldProof(engines[True].settings))
    assert [fault for _, fault in content.compared(gold) if fault is not None] == []
    shutil.rmtree(folder)
    return crashed, compared


def _replay(engine: Engine, query: str) -> None:
    if any(file.name.isdigit() for file in (engine.checkpoint(query) / "commits").iterdir()):
        engine.undo_last_commit(query)


def compare(engine: Engine, kinds: Sequence[tuple[Gold, Mapping[str, str]]]) -> int:
    """Each version that a micro-batch left behind at a commit's end, and the last one of all; how many."""

    @cache
    def silver(table: str, version: int) -> pa.Table:
        return DeltaTable(engine.path(table), version=version).to_pyarrow_table()

    compared, latest = 0, {table: engine.version(table) for table in (ORDERS, CUSTOMERS)}
    for gold, sqls in kinds:
        for table, sql in sqls.items():
            states = [*whole_batches(engine, gold.table, table), (engine.version(table), latest)]
            for version, read_to in states:
                sources = {name.partition(".")[2]: silver(name, read_to.get(name, 0)) for name in latest}
                found = gold_sql.multiset(
                    DeltaTable(engine.path(table), version=version).to_pyarrow_table().to_pylist()
                )
                expected = gold_sql.answer(sql, sources)
                assert (Counter(found) - expected, expected - Counter(found)) == (Counter(), Counter()), (
                    f"{table} at version {version}, silver at {read_to}"
                )
                compared += 1
    return compared


def whole_batches(engine: Engine, query: str, table: str) -> Iterator[tuple[int, Mapping[str, int]]]:
    """The version that each micro-batch left behind, and silver's that it had read to.

    But those that ended within a commit: they have a part of its rows.
    """
    left: dict[tuple[str, int], tuple[int, Mapping[str, int]]] = {}
    for commit in reversed(engine.history(table)):
        told = json.loads(commit.get("userMetadata") or "null") or {}
        if told.get("query") != query or "batch_id" not in told:
            continue
        ends = [None if end is None else int(end["reservoirVersion"]) - 1 for end in told["positions"]]
        if any(end and int(end["index"]) >= 0 for end in told["positions"]):
            left.pop((told["query_id"], told["batch_id"]), None)
            continue
        read_to = {name: end for name, end in zip((ORDERS, CUSTOMERS), ends, strict=False) if end is not None}
        left[told["query_id"], told["batch_id"]] = (int(commit["version"]), read_to)
    yield from left.values()
