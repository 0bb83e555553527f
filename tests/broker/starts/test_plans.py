"""What Spark is asked to do: one parse, no Python where rows pass, shuffles and files as configured.

Plans are Spark's own, of queries that ran: what it executed, not what was written down.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import functions as F

from common.declare import (
    Aggregate,
    ChangeFeed,
    Custom,
    History,
    Join,
    Json,
    Message,
    Pipeline,
    Rule,
    Silver,
    Topic,
    Upsert,
    Window,
    Within,
)
from common.spark.session_conf import SHUFFLE_PARTITIONS
from common.streaming.query import RunningQuery
from orchestration.records.rejudge.refill_gold import refill
from tests.conftest import make_settings
from tests.support.engine import Engine

PARTITIONS = 3
"""Of a state: neither the default nor the number of cores, so that none is taken for it."""

_PYTHON = re.compile(r"\b\w*(?:Python|Pandas|InArrow|ArrowEval)\w*")
_STATEFUL = re.compile(r"Exchange hashpartitioning\(.*?(\d+)\), REQUIRED_BY_STATEFUL_OPERATOR")
_PARSE = re.compile(r"medallion\.ValueReader\.\w+\(|from_json\(|JsonToStructs")


def _silver(name: str, *, strict: bool = True, dedupe: Any = "within_watermark") -> Silver:
    return Silver(
        name,
        reads="bronze.orders",
        value=Json("id string, ms bigint, amount int, op string", strict=strict),
        columns={
            "order_id": "id",
            "ordered_at": "timestamp_millis(ms)",
            "amount": "amount",
            "op": "op",
        },
        key=["order_id", "amount"],
        event_time="ordered_at",
        watermark="1 hour",
        dedupe=dedupe,
        rules=[Rule("amount_positive", "amount > 0"), Rule("has_op", "op is not null", on_fail="warn")],
    )


def _aggregate(mode: Any, **how: Any) -> Aggregate:
    return Aggregate(mode, reads="silver.orders", mode=mode, measures={"orders": "count(*)"}, **how)


def _write(rows: Any, gold: Any) -> None:
    gold.merge(rows.groupBy("op").agg(F.max("amount").alias("most")), "own", on=["op"])


def _joined(name: str, mode: Any, **how: Any) -> Join:
    columns = {"order_id": "order_id", "amount": "lenient.amount"}
    return Join(
        name,
        reads="silver.orders",
        joins="silver.lenient",
        on={"order_id": "order_id"},
        columns=columns,
        mode=mode,
        **how,
    )


WITHIN = Within(
    on="ordered_at",
    joins_on="ordered_at",
    after="0 seconds",
    before="1 hour",
    watermark="1 hour",
    joins_watermark="1 hour",
)
LATEST: dict[str, Any] = {"reads": "silver.orders", "key": ["order_id"], "newest_by": ["ordered_at"]}
GOLD = [
    _aggregate("complete", by=["op"]),
    _aggregate("update", by=["op"]),
    _aggregate("append", by=["op"], window=Window("ordered_at", "10 minutes"), watermark="1 hour"),
    _aggregate("recompute", by=["op"]),
    Upsert("latest", **LATEST),
    ChangeFeed(
        "copy",
        reads="silver.orders",
        key=["order_id"],
        sequence_by=["ordered_at"],
        operation="op",
        upserts=["c", "u"],
        deletes=["d"],
    ),
    History("states", reads="silver.orders", key=["order_id"], valid_by="ordered_at", columns=["op"]),
    _joined("joined", "recompute"),
    _joined("looked_up", "lookup"),
    _joined("met", "stream", within=WITHIN),
    Custom("own", reads="silver.orders", write=_write, tables={"own": "op string, most int"}),
]
STATEFUL = {"silver.orders", "silver.lenient", "gold.complete", "gold.update", "gold.append", "gold.met"}


def pipeline(topic: str) -> Pipeline:
    """Every kind of table, over one topic."""
    silver = [_silver("orders"), _silver("lenient", strict=False), _silver("exact", dedupe="exact")]
    return Pipeline(name="shop", bronze=[Topic("orders", topics=[topic])], silver=silver, gold=GOLD)


def events(first: int, number: int, op: str = "c") -> list[Message]:
    """Orders a second apart; one in eight breaks a rule."""
    told = (
        {"id": f"o{n}", "ms": 1_700_000_000_000 + n * 1000, "amount": n % 8, "op": op}
        for n in range(first, first + number)
    )
    return [Message(one["id"].encode(), json.dumps(one).encode()) for one in told]


def rows(messages: Sequence[Message], first: int = 0) -> list[tuple[Any, ...]]:
    """The same as rows of bronze, at offsets from ``first`` on."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return [("t", 0, first + n, at, 0, at, one.key, one.value, None) for n, one in enumerate(messages)]


class _Listener:
    """Notes the executed plan of everything that Spark executes."""

    def __init__(self) -> None:
        self.plans: list[str] = []

    def onSuccess(self, name: str, execution: Any, nanoseconds: int) -> None:  # noqa: N802  # Spark's name
        self.plans.append(execution.executedPlan().toString())

    def onFailure(self, name: str, execution: Any, error: Any) -> None:  # noqa: N802  # Spark's name
        self.plans.append(execution.executedPlan().toString())

    class Java:
        """For py4j."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


@contextmanager
def listening(spark: Any) -> Iterator[list[str]]:
    """Plans of all that is executed in here, by a session or the clones that queries make of it."""
    ensure_callback_server_started(spark.sparkContext._gateway)
    listener, manager = _Listener(), spark._jsparkSession.listenerManager()
    manager.register(listener)
    try:
        yield listener.plans
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        manager.clear()  # py4j would ask for another one's removal: it wraps a listener anew in each call


@contextmanager
def configured(spark: Any, settings: Mapping[str, object]) -> Iterator[None]:
    """A session's settings, as they were before at the end."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, str(value))
    try:
        yield
    finally:
        for name, former in before.items():
            spark.conf.unset(name) if former is None else spark.conf.set(name, former)


def streaming_plan(query: RunningQuery) -> str:
    """The plan by which a query's last micro-batch was read."""
    return str(query.query._jsq.streamingQuery().lastExecution().executedPlan().toString())


def exchanges(plan: str) -> list[int]:
    """Into how many partitions each stateful operator of a plan has its rows shuffled."""
    return [int(number) for number in _STATEFUL.findall(plan)]


def added_files(engine: Engine, table: str) -> list[int]:
    """How many files each micro-batch that wrote rows added."""
    found = []
    for one in reversed(engine.history(table)):
        if "batch_id" in json.loads(one.get("userMetadata", "{}")):
            version = one["version"]
            before = engine.files(table, version - 1) if version else set()
            found.append(len(engine.files(table, version) - before))
    return [number for number in found if number]


@dataclass
class Ran:
    """All kinds of tables over two rounds of few events, each layer's queries one round after the other."""

    engine: Engine
    plans: list[str]
    queries: list[RunningQuery]

    def streaming(self) -> dict[str, list[str]]:
        """Streaming plans by query, in order."""
        found = defaultdict(list)
        for query in self.queries:
            found[query.name].append(streaming_plan(query))
        return found


@pytest.fixture(scope="module", params=["executors", pytest.param("driver", marks=pytest.mark.long)])
def ran(
    request: pytest.FixtureRequest,
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[[str, Sequence[Message]], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    """The run that most tests look at; few rows are worked out like many, or in the driver."""
    topic = new_topic()
    few = ["driver.batch_rows=0"] if request.param == "executors" else []
    settings = make_settings(tmp_path_factory.mktemp("plans"), broker, *few)
    engine = Engine(spark, pipeline(topic), settings, broker)
    queries = []
    shown = {SHUFFLE_PARTITIONS: PARTITIONS, "spark.sql.debug.maxToStringFields": 1000}
    with configured(spark, shown), listening(spark) as plans:
        later = [*events(12, 24, "u"), *events(0, 2, "d"), *events(3 * 60 * 60, 2)]
        for round_ in (events(0, 24), later):
            send(topic, round_)
            queries += engine.run()
    return Ran(engine, plans, queries)


@pytest.mark.long
def test_the_search_finds_python_where_there_is_some(spark: Any) -> None:
    """Else that none is found would mean nothing."""
    numbers = spark.range(3)
    later = F.udf(lambda value: value + 1, "bigint")
    for frame in (numbers.select(later("id")), numbers.mapInArrow(lambda batches: batches, "id bigint")):
        assert _PYTHON.search(str(frame._jdf.queryExecution().executedPlan().toString()))


@pytest.mark.long
def test_no_python_evaluates_a_row(ran: Ran) -> None:
    """In no layer and no kind: neither where a micro-batch is read, nor in what its writes execute."""
    streaming = [plan for plans in ran.streaming().values() for plan in plans]
    assert {query.name for query in ran.queries} == {table.table for table in ran.engine.pipeline.tables}
    assert len(ran.plans) > len(streaming)
    assert [plan for plan in (*streaming, *ran.plans) if _PYTHON.search(plan)] == []


@pytest.mark.long
def test_a_value_is_parsed_once(ran: Ran) -> None:
    """By one expression over one scan of bronze, whatever is asked of its fields."""
    for table, expected in (
        ("silver.orders", ["medallion.ValueReader.read("]),
        ("silver.exact", ["medallion.ValueReader.read("]),
        ("silver.lenient", ["from_json(", "medallion.ValueReader.text("]),
    ):
        for plan in ran.streaming()[table]:
            assert sorted(_PARSE.findall(plan)) == expected, plan
            assert plan.count("FileScan") == 1, plan
    assert [plan for plan in ran.plans if "medallion.ValueReader" in plan] == []  # by a write once more


@pytest.mark.long
def test_states_are_shuffled_as_configured(ran: Ran) -> None:
    found = {name: [exchanges(plan) for plan in plans] for name, plans in ran.streaming().items()}
    sides = {name: 2 if name == "gold.met" else 1 for name in STATEFUL}
    assert {name: each for name, each in found.items() if any(each)} == {
        name: [[PARTITIONS] * sides[name]] * 2 for name in STATEFUL
    }


@pytest.mark.long
def test_a_micro_batch_of_few_rows_adds_few_files(spark: Any, ran: Ran) -> None:
    """One to silver; to bronze, which is read once, one per core at most; to gold, where Spark has merged
    what changed with what was there, one per partition at most.
    """
    bronze = added_files(ran.engine, "bronze.orders")
    assert len(bronze) == 2
    assert max(bronze) <= spark.sparkContext.defaultParallelism
    for silver in ran.engine.pipeline.silver:
        assert added_files(ran.engine, silver.table) == [1, 1], silver.table
    found = {table.table: added_files(ran.engine, table.table) for table in ran.engine.pipeline.gold}
    assert {table for table, files in found.items() if not 1 <= max(files, default=0) <= PARTITIONS} == set()


@pytest.mark.long
def test_few_rows_that_are_worked_out_in_the_driver_make_one_file(spark: Any, tmp_path: Path) -> None:
    """As they are by default, whatever is merged."""
    gold = [_aggregate("update", by=["op"]), _aggregate("recompute", by=["op"]), Upsert("latest", **LATEST)]
    declared = Pipeline(name="shop", bronze=[Topic("orders")], silver=[_silver("orders")], gold=gold)
    engine = Engine(spark, declared, make_settings(tmp_path, "none:1"))
    with configured(spark, {SHUFFLE_PARTITIONS: PARTITIONS}):
        for first, op in ((0, "c"), (12, "u")):
            engine.append_bronze("bronze.orders", rows(events(first, 24, op), first))
            engine.run("silver", "gold")
    tables = ("silver.orders", *(table.table for table in gold))
    assert {table: added_files(engine, table) for table in tables} == {table: [1, 1] for table in tables}


@pytest.mark.long
def test_a_micro_batch_of_many_rows_adds_as_many_files_as_they_fill(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here ten rows fill one, instead of a quarter of a million. What lies as it came has no more files than
    it has partitions; what is laid out by a key has a range of it in each.
    """
    monkeypatch.setattr("common.rows.spark_rows._ROWS_PER_FILE", 10)
    gold = [_aggregate("update", by=["order_id"]), Upsert("latest", **LATEST)]
    declared = Pipeline(name="shop", bronze=[Topic("orders")], silver=[_silver("orders")], gold=gold)
    engine = Engine(spark, declared, make_settings(tmp_path, "none:1", "driver.batch_rows=0"))
    with configured(spark, {SHUFFLE_PARTITIONS: PARTITIONS}):
        engine.append_bronze("bronze.orders", rows(events(0, 200)))
        engine.run("silver", "gold")
    assert len(engine.rows("silver.orders")) == 175
    found = {table: added_files(engine, table) for table in ("silver.orders", "gold.update", "gold.latest")}
    assert found == {"silver.orders": [PARTITIONS], "gold.update": [PARTITIONS], "gold.latest": [18]}


def test_a_state_stays_as_it_was_divided_until_its_table_is_filled_anew(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which a start says, once per query that has a state; and what it advises does what it says."""
    gold = [_aggregate("update", by=["op"]), Upsert("latest", **LATEST)]
    declared = Pipeline(name="shop", bronze=[Topic("orders")], silver=[_silver("orders")], gold=gold)
    engine = Engine(spark, declared, make_settings(tmp_path, "none:1"))

    def run(partitions: int, first: int) -> tuple[dict[str, list[int]], list[str]]:
        with configured(spark, {SHUFFLE_PARTITIONS: partitions}):
            engine.append_bronze("bronze.orders", rows(events(first, 8), first))
            capsys.readouterr()
            queries = engine.run("silver", "gold")
        said = [line for line in capsys.readouterr().err.splitlines() if "state partitions" in line]
        return {query.name: exchanges(streaming_plan(query)) for query in queries}, said

    found, said = run(2, 0)
    assert found == {"silver.orders": [2], "gold.update": [2], "gold.latest": []}
    assert said == []
    found, said = run(5, 8)
    assert found == {"silver.orders": [2], "gold.update": [2], "gold.latest": []}
    assert [line.partition(":")[0] for line in said] == ["silver.orders", "gold.update"]
    assert "has 2 state partitions since its first start" in said[1]
    assert "medallion rebuild gold.update" in said[1]
    refill(declared, engine.layout, "gold.update")
    found, said = run(5, 16)
    assert found == {"silver.orders": [2], "gold.update": [5], "gold.latest": []}
    assert [line.partition(":")[0] for line in said] == ["silver.orders"]
    assert sum(row["orders"] for row in engine.rows("gold.update")) == len(engine.rows("silver.orders")) == 21
    _, said = run(2, 24)
    assert [line.partition(":")[0] for line in said] == ["gold.update"]
