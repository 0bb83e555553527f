"""One silver table of two bronze tables: each record of both in its one place, killed anywhere, audited."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from bronze.table import PROPERTIES, SCHEMA
from common.config.settings import Settings
from common.declare import Json, Pipeline, Silver, Topic
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.micro_batch import MicroBatch
from common.errors import HistoryGoneError, PipelineError
from orchestration.change.plan.plan import plan
from orchestration.change.rebuild.rebuild_silver import rebuild_silver
from orchestration.observe.lineage.sources import of_silver
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.records.audit.audit import audit
from orchestration.records.quarantine.replay import replay
from orchestration.records.trace.record import Place
from orchestration.records.trace.trace import Trace
from tests.conftest import make_settings
from tests.pipeline.silver.test_accounts import ARROW, EVENTS, KAFKA_TIME, NOON, ROTTEN
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine
from tests.support.oracles.silver_oracle import EPOCH, Record, SilverOracle, judge, read

DELAY = timedelta(minutes=30)
BOTH = replace(EVENTS, reads=["bronze.web", "bronze.app"], unknown_fields="ignore")
TOPICS = [Topic("web"), Topic("app")]
PIPELINE = Pipeline(name="accounts", bronze=TOPICS, silver=[BOTH])
_folders = itertools.count()

Cuts = Sequence[tuple[Sequence[bytes | None], Sequence[bytes | None]]]
"""Per micro-batch the values that come to each of the two bronze tables."""


def event(key: str, minutes: int, amount: str = "5") -> bytes:
    at = (NOON + timedelta(minutes=minutes)).strftime("%FT%TZ")
    return f'{{"id": "{key}", "at": "{at}", "amount": {amount}}}'.encode()


WRITTEN: Cuts = [
    ([event("w0", 0), event("w1", 5, "250"), event("w0", 9), *ROTTEN], [event("a0", 1), event("a0", 2)]),
    # The first table is ahead by hours, and no row of the other is late for that.
    ([event("w2", 150), event("a0", 149)], [event("w1", 20), event("a1", 3), *ROTTEN[::2]]),
    ([event("w3", 170)], [event("a2", 21), event("a3", 10)]),
    ([event("w4", 171)], []),
    ([event("w5", 172)], [event("a4", 140), event("w2", 141)]),
    ([event("w6", 173), event("w5", 172)], [event("a5", 141)]),
    # Late from here on: of keys that are there, and of one that is not, twice.
    ([event("w7", 20), event("w7", 21), event("w2", 22)], [event("a6", 30), event("a0", 31), None]),
    # One of the tables has no more: the watermark is that of the other, which stays where it was.
    ([], [event("a7", 220)]),
    ([], [event("a8", 221)]),
    ([], [event("a9", 130), event("b1", 150)]),
]


@dataclass
class TwoTablesOracle(SilverOracle):
    """The oracle of one table, with the watermark of two: the earlier of both.

    A restart forgets how far each of them was, and the watermark stays until both have come.
    """

    newest: dict[str, datetime] = field(default_factory=dict)

    def of_both(self, batch: Sequence[Record], *, is_restarted: bool) -> None:
        """One micro-batch; the table of a record is in the first digit of its partition."""
        far = [self.newest.get(name, EPOCH) for name in ("web", "app")]
        self._newest = min(far)
        if is_restarted:
            self.newest.clear()
        self.batch(batch)
        for record in batch:
            found = None if record.value is None else read(record.value)
            if found is None or isinstance(found, str) or judge(found, KAFKA_TIME) or found.at is None:
                continue
            name = TOPICS[record.partition // 10].name
            self.newest[name] = max(self.newest.get(name, EPOCH), found.at)


@pytest.fixture(scope="module")
def lived(spark: Any, session_dir: Path) -> tuple[Engine, TwoTablesOracle]:
    """Both tables after a life without a kill."""
    return live(spark, session_dir, {})


def test_each_record_of_both_tables_is_in_its_one_place(lived: tuple[Engine, TwoTablesOracle]) -> None:
    _, oracle = lived
    assert oracle.late & set(oracle.silver)
    assert oracle.late - set(oracle.silver)
    twice = {oracle.silver[place].id for place in oracle.silver}
    assert len(twice) == len(oracle.silver)
    assert {place[0] // 10 for place in oracle.duplicates} == {0, 1}  # also of a row of the other table


@pytest.mark.long
@pytest.mark.parametrize("crashes", [{0: True, 4: False}, {2: False, 6: True, 9: False}])
def test_it_is_so_through_kills(spark: Any, session_dir: Path, crashes: dict[int, bool]) -> None:
    live(spark, session_dir, crashes)


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "topic", "name"),
    [
        ("silver.events", "app", "missing"),
        pytest.param("silver.events", "web", "missing", marks=pytest.mark.long),
        pytest.param("silver.events", "app", "twice", marks=pytest.mark.long),
        pytest.param("silver.events__quarantine", "app", "missing", marks=pytest.mark.long),
        pytest.param("silver.events__quarantine", "web", "twice", marks=pytest.mark.long),
    ],
)
def test_a_planted_fault_is_found_in_either_table(
    lived: tuple[Engine, TwoTablesOracle], table: str, topic: str, name: str
) -> None:
    engine, _ = lived
    target = DeltaTable(engine.path(table))
    before, rows = target.version(), target.to_pyarrow_table()
    prefix = "" if table.endswith("__quarantine") else "_kafka_"
    found = [row for row in rows.to_pylist() if row[f"{prefix}topic"] == topic]
    row = next(row for row in found if row.get("event_id") in {None, "a4", "w3"})
    place = topic, row[f"{prefix}partition"], row[f"{prefix}offset"]
    if name == "missing":
        same = zip(("topic", "partition", "offset"), place, strict=True)
        target.delete(" and ".join(f"{prefix}{column} = {value!r}" for column, value in same))
    else:
        write_deltalake(engine.path(table), rows.slice(rows.to_pylist().index(row), 1), mode="append")
    faults = audit(engine.spark, PIPELINE, BOTH, engine.layout, again_seconds=0).faults
    DeltaTable(engine.path(table)).restore(before)
    assert [fault.name for fault in faults if place in fault.examples and fault.name == name] == [name]
    assert any(fault.name == "counts" for fault in faults)


@pytest.mark.long
def test_a_record_of_a_topic_that_neither_has_read_is_found(lived: tuple[Engine, TwoTablesOracle]) -> None:
    engine, _ = lived
    path = engine.path("silver.events")
    before, rows = DeltaTable(path).version(), DeltaTable(path).to_pyarrow_table()
    at = rows.schema.get_field_index("_kafka_topic")
    stray = rows.slice(0, 1).set_column(at, rows.schema.field(at), pa.array(["elsewhere"]))
    write_deltalake(path, stray, mode="append")
    faults = audit(engine.spark, PIPELINE, BOTH, engine.layout, again_seconds=0).faults
    DeltaTable(path).restore(before)
    assert any("elsewhere" in {place[0] for place in fault.examples} for fault in faults)


def test_commands_know_both_tables(lived: tuple[Engine, TwoTablesOracle]) -> None:
    engine, _ = lived
    commit = engine.commits("silver.events")[-1]
    assert [one["table"] for one in commit["source_commits"]] == ["bronze.web", "bronze.app"]
    assert len(commit["positions"]) == 2
    status = Collector(PIPELINE, engine.layout, BrokerOffsets(PIPELINE, engine.settings)).collect()
    mine = next(one for one in status.tables if one.table == "silver.events")
    assert (mine.reads, mine.lag.count) == (("bronze.web", "bronze.app"), 0)
    record = Trace(PIPELINE, engine.layout).record(Place("app", 0, 0))
    assert (record["bronze"]["table"], record["silver"][0]["place"]) == ("bronze.app", "silver")
    columns = of_silver(BOTH, ["event_id"], [name.name for name in SCHEMA], {}).columns
    assert {source.table for source in columns["event_id"]} == {"bronze.web", "bronze.app"}


@pytest.mark.long
def test_another_list_of_tables_is_refused_and_filled_by_a_rebuild(spark: Any, session_dir: Path) -> None:
    """A table is added, and taken away again; the state has another number of partitions then."""
    one = replace(PIPELINE, silver=[replace(BOTH, reads="bronze.web")])
    engine = begun(spark, session_dir, one)
    engine.run("silver")
    both = Engine(spark, PIPELINE, engine.settings)
    (found,) = (one for one in plan(PIPELINE, engine.settings, engine.layout) if one.query == "silver.events")
    (change,) = (one for one in found.changes if one.name == "reads")
    assert (found.effect, change.effect, change.new) == ("rebuild", "rebuild", "[bronze.web, bronze.app]")
    of_web, before = values(engine), engine.version("silver.events")
    with pytest.raises(PipelineError, match=r"was filled from bronze\.web and is declared with"):
        both.run("silver")
    assert engine.version("silver.events") == before
    rebuild_silver(spark, PIPELINE, engine.settings, engine.layout, BOTH, str.strip)
    assert both.faults() == ()
    end = sum(len(app) for _, app in WRITTEN)
    bring(
        both,
        sum(bool(app) for _, app in WRITTEN),
        [Record(0, end, KAFKA_TIME, event("b2", 222))],
        TOPICS[1],
        [end + 1],
    )
    both.run("silver")
    assert both.faults() == ()
    assert {row["_kafka_topic"] for row in both.rows("silver.events")} == {"web", "app"}
    wider = Engine(spark, replace(PIPELINE, silver=[replace(BOTH, rules=[])]), engine.settings)
    replayed = replay(spark, "accounts", wider.pipeline.silver[0], engine.layout, is_with_new_rules=True)
    assert replayed.passed > 0
    assert wider.faults() == ()
    with pytest.raises(PipelineError, match=r"was filled from \[bronze\.web, bronze\.app\] and is"):
        engine.run("silver")
    name = "spark.sql.shuffle.partitions"
    had = int(spark.conf.get(name))
    checkpoint = Checkpoint(engine.layout.checkpoint_path("silver.events"))
    assert checkpoint.state_partitions() == had
    spark.conf.set(name, had + 2)
    try:
        rebuild_silver(spark, one, engine.settings, engine.layout, one.silver[0], str.strip)
        engine.run("silver")
    finally:
        spark.conf.set(name, had)
    assert checkpoint.state_partitions() == had + 2
    assert values(engine) == of_web
    assert engine.faults() == ()


def values(engine: Engine) -> Counter[str]:
    """The rows of silver, but when they came."""
    rows = engine.rows("silver.events")
    return Counter(
        repr({name: value for name, value in row.items() if name != "_ingested_at"}) for row in rows
    )


@pytest.mark.long
def test_a_first_load_by_event_time_has_both_tables(spark: Any, session_dir: Path) -> None:
    engine = begun(spark, session_dir, PIPELINE)
    web, app = (engine.version(topic.table) for topic in TOPICS)
    named = engine.path("bronze.app")
    delta_table.set_property(spark, named, "{}", delta_table.ERASED, "2026-03-01T12:00:00Z")
    with pytest.raises(HistoryGoneError, match=r"bronze\.app: rows were erased"):
        Engine(spark, PIPELINE, with_silver(engine, first_load="log")).run("silver")
    loaded = Engine(spark, PIPELINE, with_silver(engine, first_load="auto", first_load_rows=10))
    assert run_through_crashes(lambda: loaded.run("silver"), {2: True, 4: False}) == 2
    first = next(one for one in loaded.commits("silver.events") if one.get("by") == "first load")
    assert (first["begins"], first["of"] > 2) == ([web, app + 1], True)
    assert loaded.faults() == ()
    # Of the keys of the load the state knows nothing: the table does, whichever way they come.
    number, end = len([web for web, _ in WRITTEN if web]), sum(len(web) for web, _ in WRITTEN)
    late = [event("a5", 172), event("w9", 174)]
    bring(
        loaded,
        number,
        [Record(0, end + n, KAFKA_TIME, one) for n, one in enumerate(late)],
        TOPICS[0],
        [end + 2],
    )
    loaded.run("silver")
    assert loaded.faults() == ()
    keys = Counter(row["event_id"] for row in loaded.rows("silver.events"))
    assert (set(keys.values()), keys["w9"], keys["a5"]) == ({1}, 1, 1)


def with_silver(engine: Engine, **given: Any) -> Settings:
    """The settings with others of silver."""
    return engine.settings.model_copy(update={"silver": engine.settings.silver.model_copy(update=given)})


@pytest.mark.long
def test_exact_duplicates_are_found_over_both_tables(spark: Any, session_dir: Path) -> None:
    exact = replace(PIPELINE, silver=[replace(BOTH, dedupe="exact")])
    engine = begun(spark, session_dir, exact)
    engine.run("silver")
    assert engine.faults() == ()
    keys = Counter(row["event_id"] for row in engine.rows("silver.events"))
    sent = {read(value).id for web, app in WRITTEN for value in (*web, *app) if value in GOOD}  # type: ignore[union-attr]
    assert set(keys.values()) == {1}
    assert set(keys) >= sent


GOOD = {
    value
    for pair in WRITTEN
    for values in pair
    for value in values
    if value is not None and value not in ROTTEN
}


def test_declarations_that_cannot_be_counted_are_refused() -> None:
    same = Pipeline(name="p", bronze=[Topic("a", topics=["t"]), Topic("b", topics=["t"])], silver=[over()])
    named = Pipeline(name="p", bronze=[Topic("a"), Topic("b", pattern="a.*")], silver=[over()])
    for pipeline, words in ((same, "both bronze.a and bronze.b read the topic t"), (named, "has a pattern")):
        assert words in "\n".join(str(problem) for problem in problems(pipeline))
    for argument, given in (("each", "items"), ("where", "id = 'x'")):
        with pytest.raises(PipelineError, match=f"{argument}=.* needs one bronze table"):
            over(**{argument: given})
    with pytest.raises(PipelineError, match="is there twice"):
        over(reads=["bronze.a", "bronze.a"])
    assert over(reads=["bronze.a"]).reads == "bronze.a"


def problems(pipeline: Pipeline) -> Sequence[Any]:
    from orchestration.author.check.pipeline import check

    return check(pipeline)


def over(**more: Any) -> Silver:
    return Silver(
        "events",
        **{
            "reads": ["bronze.a", "bronze.b"],
            "value": Json("id string, at timestamp, items array<struct<n: int>>"),
            "columns": {"event_id": "id", "happened_at": "at"},
            "key": ["event_id"],
            "event_time": "happened_at",
            "watermark": "1 hour",
            **more,
        },
    )


def begun(spark: Any, session_dir: Path, pipeline: Pipeline) -> Engine:
    """An engine whose two bronze tables have all records."""
    folder = session_dir / f"several_{next(_folders)}"
    folder.mkdir()
    engine = Engine(spark, pipeline, make_settings(folder, "none:1", "silver.max_files_per_trigger=1"))
    for topic in TOPICS:
        delta_table.ensure(spark, topic.table, engine.path(topic.table), SCHEMA, PROPERTIES)
    for place, topic in enumerate(TOPICS):
        end = 0
        files = [pair[place] for pair in WRITTEN if pair[place]]
        for number, values in enumerate(files):
            batch = [Record(0, end + n, KAFKA_TIME, value) for n, value in enumerate(values)]
            end += len(batch)
            bring(engine, number, batch, topic, [end])
    return engine


def bring(engine: Engine, number: int, batch: Sequence[Record], topic: Topic, ends: Sequence[int]) -> None:
    """One bronze commit of one file, as a bronze query leaves it; of no record, no commit."""
    rows = [
        {
            "topic": topic.name,
            "partition": record.partition,
            "offset": record.offset,
            "kafka_timestamp": record.kafka_time,
            "kafka_timestamp_type": 0,
            "ingested_at": record.kafka_time,
            "key": b"k",
            "value": record.value,
            "headers": None,
        }
        for record in batch
    ]
    position = {topic.name: {str(partition): end for partition, end in enumerate(ends)}}
    told = MicroBatch("accounts", topic.table, "bronze", number, (position,)).metadata("append", {})
    write_deltalake(
        engine.path(topic.table),
        pa.Table.from_pylist(rows, schema=ARROW),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": told}),
    )


def live(spark: Any, session_dir: Path, crashes: dict[int, bool]) -> tuple[Engine, TwoTablesOracle]:
    """Run both tables through silver, compare with the oracle, and audit."""
    engine = begun(spark, session_dir, PIPELINE)
    restarts = set[int]()

    def run() -> None:
        done = Checkpoint(engine.layout.checkpoint_path("silver.events")).last_committed()
        restarts.add(0 if done is None else done + 1)
        engine.run("silver")

    assert run_through_crashes(run, crashes) == len(crashes)
    oracle = TwoTablesOracle(DELAY)
    for number, batch in enumerate(batches()):
        oracle.of_both(batch, is_restarted=number in restarts)
    compare(engine, oracle)
    found = audit(spark, PIPELINE, BOTH, engine.layout, again_seconds=0)
    assert found.faults == ()
    assert found.reads == "bronze.web and bronze.app"
    for place, topic in enumerate(TOPICS):
        (mine,) = (one for one in found.partitions if one.topic == topic.name)
        assert {name: count for name, count in mine.counts.items() if count} == totals(oracle, place)
        assert mine.offsets == sum(len(pair[place]) for pair in WRITTEN)
    return engine, oracle


def batches() -> list[list[Record]]:
    """The micro-batches: of each table the next file that has records."""
    files: list[list[list[Record]]] = []
    for place in range(len(TOPICS)):
        end, of_table = 0, []
        for values in (pair[place] for pair in WRITTEN):
            batch = [Record(place * 10, end + n, KAFKA_TIME, value) for n, value in enumerate(values)]
            end += len(batch)
            of_table.append(batch)
        files.append([batch for batch in of_table if batch])
    return [[*web, *app] for web, app in itertools.zip_longest(*files, fillvalue=[])]


def totals(oracle: TwoTablesOracle, table: int) -> dict[str, int]:
    """The fates of the records of one table."""
    fates = {
        "silver": set(oracle.silver),
        "duplicates": oracle.duplicates,
        "late": oracle.late - set(oracle.silver),
        "quarantine": set(oracle.quarantine),
        "dropped": set(oracle.dropped),
        "tombstones": oracle.tombstones,
    }
    counted = {name: sum(place[0] // 10 == table for place in places) for name, places in fates.items()}
    return {name: count for name, count in counted.items() if count}


def compare(engine: Engine, oracle: TwoTablesOracle) -> None:
    """Rows as multisets, and reasons."""
    number = {topic.name: place * 10 for place, topic in enumerate(TOPICS)}
    rows = engine.rows("silver.events")
    assert Counter(
        (number[row["_kafka_topic"]], row["_kafka_offset"], row["event_id"], row["happened_at"])
        for row in rows
    ) == Counter((*place, one.id, one.at) for place, one in oracle.silver.items())
    aside = {
        verdict: {
            (number[row["topic"]], row["offset"]): row["reasons"]
            for row in engine.rows("silver.events__quarantine")
            if row["verdict"] == verdict
        }
        for verdict in ("quarantine", "drop")
    }
    assert aside == {"quarantine": oracle.quarantine, "drop": oracle.dropped}
    late = engine.rows("silver.events__late")
    assert Counter((number[row["_kafka_topic"]], row["_kafka_offset"]) for row in late) == Counter(
        oracle.late
    )
