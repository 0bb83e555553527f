"""What a table's declaration says of its own query and files: pace, first version, clustering, partitions."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from bronze import table as bronze_table
from common.declare import Json, Pipeline, Reading, Rule, Silver, Storage, Topic, Upsert
from common.delta import table as delta_table
from orchestration.access.history.stopped_queries import keep_started, keep_stopped
from orchestration.run.maintenance import maintain
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Wiring
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.plan_shop import COLUMNS, FIELDS, record

pytestmark = pytest.mark.long

READS = "silver.orders"
TOPIC = Topic("orders", storage=Storage(cluster_by=["partition", "offset"]))
LATER = Reading(starting_version="latest")


def upsert(name: str, **more: Any) -> Upsert:
    return Upsert(name, READS, key=["id"], newest_by=["at"], columns=["id", "country", "at"], **more)


GOLD = [upsert("one_by_one", max_files_per_trigger=1), upsert("together"), upsert("later", reading=LATER)]


def shop(*gold: Upsert) -> Pipeline:
    silver = Silver(
        "orders",
        reads=TOPIC.table,
        value=Json(FIELDS),
        columns=COLUMNS,
        key=["id"],
        event_time="at",
        watermark="30 days",
        rules=[Rule("no_empty_text", "country is null or country <> ''")],
        max_files_per_trigger=1,
        storage=Storage(partition_by=["country"]),
    )
    return Pipeline(name="shop", bronze=[TOPIC], silver=[silver], gold=gold)


def commits_of(engine: Engine, table: str) -> int:
    return sum(one.get("query_id") is not None for one in engine.commits(table))


def ids(engine: Engine, table: str) -> Counter[tuple[str, str | None]]:
    return Counter((row["id"], row["country"]) for row in engine.rows(table))


NO_FOLDER = "x" * 300
"""No folder can be named after it."""

FIRST = Counter({("a", "DE"): 1, ("b", None): 1, ("c", "a/b=c %20"): 1})
THEN = Counter({("d", "DE"): 1, ("e", None): 1, ("f", NO_FOLDER): 1})


@pytest.fixture(scope="module")
def engine(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Three commits of bronze, all layers; then three more, all layers."""
    made = Engine(spark, shop(*GOLD), make_settings(tmp_path_factory.mktemp("options"), "none:1"))
    bronze_table.ensure(spark, TOPIC, made.path(TOPIC.table))
    for offset, (key, country) in enumerate([("a", "DE"), ("b", ""), ("c", "a/b=c %20")]):
        made.append_bronze(TOPIC.table, [record(offset, key, country=country)])
    made.run("silver")
    made.run("gold")
    assert ids(made, READS) == ids(made, "gold.together") == FIRST
    for offset, (key, country) in enumerate([("d", "DE"), ("e", None), ("f", NO_FOLDER)], 3):
        made.append_bronze(TOPIC.table, [record(offset, key, country=country)])
    made.run("silver")
    made.before = {gold.table: commits_of(made, gold.table) for gold in GOLD}  # type: ignore[attr-defined]
    made.run("gold")
    return made


def test_each_query_reads_as_much_as_its_own_table_says(engine: Engine) -> None:
    assert commits_of(engine, READS) == 6
    before: dict[str, int] = engine.before  # type: ignore[attr-defined]
    grown = {gold.table: commits_of(engine, gold.table) - before[gold.table] for gold in GOLD}
    assert grown == {"gold.one_by_one": 3, "gold.together": 1, "gold.later": 1}
    assert ids(engine, "gold.one_by_one") == ids(engine, "gold.together") == FIRST + THEN


def test_latest_is_what_comes_after_the_first_start_also_while_the_query_was_stopped(engine: Engine) -> None:
    assert ids(engine, "gold.later") == THEN


def test_a_query_that_waits_for_its_first_version_misses_none(engine: Engine) -> None:
    after = Engine(engine.spark, shop(*GOLD, upsert("after", reading=LATER)), engine.settings)
    wiring = Wiring(after.spark, after.pipeline, after.settings, after.layout, "")
    supervisor = Supervisor(after.spark, StopSignal(), stop_timeout_seconds=60)
    supervisor.start(wiring.streams("gold", only="gold.after"), when=wiring.has_begun)
    try:
        supervisor.poll()
        assert not supervisor.queries
        after.append_bronze(TOPIC.table, [record(6, "g", country="DE")])
        after.run("silver")
        deadline = time.monotonic() + 60
        while not ids(after, "gold.after"):
            assert time.monotonic() < deadline
            assert supervisor.poll() is None
            time.sleep(0.05)
    finally:
        supervisor.end()
    assert ids(after, "gold.after") == Counter({("g", "DE"): 1})


def test_bronze_is_clustered_and_silver_partitioned_and_both_stay_so(engine: Engine) -> None:
    def layout(table: str) -> tuple[list[str], list[str]]:
        found = engine.spark.sql(f"DESCRIBE DETAIL delta.`{engine.path(table)}`").first()
        return list(found.partitionColumns), list(found.clusteringColumns)

    before = {table: Counter(map(repr, engine.rows(table))) for table in (TOPIC.table, READS)}
    expected = {TOPIC.table: ([], ["partition", "offset"]), READS: (["country"], [])}
    assert {table: layout(table) for table in expected} == expected
    for table in expected:
        maintain(engine.spark, engine.pipeline, engine.layout, table)
    assert len(engine.files(TOPIC.table)) == 1
    rows = engine.spark.read.format("delta").load(engine.path(READS))
    metadata = delta_table.maintenance_metadata("shop", READS, "repair")
    delta_table.replace_all(rows, engine.path(READS), metadata)
    assert {table: layout(table) for table in expected} == expected
    assert {table: Counter(map(repr, engine.rows(table))) for table in expected} == before
    assert engine.faults() == ()


def test_one_query_is_stopped_and_started_while_the_others_go_on(engine: Engine) -> None:
    wiring = Wiring(engine.spark, engine.pipeline, engine.settings, engine.layout, "")
    supervisor = Supervisor(engine.spark, StopSignal(), stop_timeout_seconds=60)
    running = threading.Thread(target=supervisor.run)

    def bring(key: str, offset: int, *tables: str) -> None:
        engine.append_bronze(TOPIC.table, [record(offset, key, country="DE")])
        engine.run("silver")
        deadline = time.monotonic() + 60
        while not all((key, "DE") in ids(engine, table) for table in tables):
            assert time.monotonic() < deadline, (key, tables)
            time.sleep(0.05)

    supervisor.start(wiring.streams("gold"), when=wiring.has_begun)
    running.start()
    try:
        bring("h", 7, "gold.one_by_one", "gold.together", "gold.later")
        keep_stopped(engine.layout, "gold.together")
        supervisor.hold("gold.together")
        assert not supervisor.is_running("gold.together")
        bring("i", 8, "gold.one_by_one", "gold.later")
        assert ("i", "DE") not in ids(engine, "gold.together")
        next_job = [stream.name for stream in wiring.streams("gold")]
        assert next_job == ["gold.one_by_one", "gold.later"]
        assert wiring.stopped(["gold"]) == {"gold.together"}
        assert keep_started(engine.layout, "gold.together")
        supervisor.resume("gold.together", wiring.streams("gold", only="gold.together"), wiring.has_begun)
        bring("j", 9, "gold.together")
        assert supervisor.is_running("gold.together")
    finally:
        supervisor.end()
        running.join()
    assert ids(engine, "gold.together") == ids(engine, "gold.one_by_one")
