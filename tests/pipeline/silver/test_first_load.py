"""A first load from a bronze whose order is lost: nothing is late, nothing twice, and the stream goes on."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from common.declare import Debezium, Pipeline, Rule, Silver, Topic
from common.delta import table as delta_table
from common.errors import HistoryGoneError
from silver.query import rows
from silver.read.bronze_history import needs_snapshot
from silver.write import first_load, table_columns
from silver.write.known_keys import KeysWrittenOutsideStream
from tests.conftest import make_settings
from tests.pipeline.silver.test_silver import NOON, ORDERS, records, value
from tests.support.engine import Engine

COMMITS, EACH = 12, 20
SHORT = replace(ORDERS, watermark="10 minutes", rules=[Rule("amount_positive", "amount > 0")])
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], silver=[SHORT])
Event = tuple[str, datetime, float]


@dataclass
class Oracle:
    """What must become of every event, in the order of arrival, where none is late."""

    place: int = 0
    silver: dict[str, int] = field(default_factory=dict)
    quarantine: list[int] = field(default_factory=list)
    duplicates: int = 0

    def take(self, events: Sequence[Event | None]) -> list[bytes | None]:
        """More events; None has no value."""
        for offset, event in enumerate(events, self.place):
            if event is None:
                continue
            if event[2] <= 0:
                self.quarantine.append(offset)
            elif event[0] in self.silver:
                self.duplicates += 1
            else:
                self.silver[event[0]] = offset
        self.place += len(events)
        return [value(*event) if event else None for event in events]


def bronze(engine: Engine) -> Oracle:
    """Twelve commits in time order, a quarter of an hour each; some events repeated, bad or empty."""
    oracle, chance = Oracle(), random.Random(5)  # noqa: S311
    for n in range(COMMITS):
        events: list[Event | None] = []
        for _ in range(EACH):
            at = NOON + timedelta(minutes=15 * n, seconds=chance.randrange(900))
            key = f"{n - chance.randrange(2)} {chance.randrange(EACH)}"
            events.append((key, at, -1.0 if chance.random() < 0.1 else 5.0))
        events[chance.randrange(EACH)] = None
        first = oracle.place
        engine.append_bronze("bronze.orders", records(oracle.take(events), first))
    return oracle


def compact(engine: Engine) -> None:
    """The same rows in six files of two commits each, in an order that has nothing to do with time."""
    path = engine.path("bronze.orders")
    order = list(range(COMMITS))
    random.Random(1).shuffle(order)  # noqa: S311
    place = F.element_at(F.array(*map(F.lit, order)), (F.col("offset") / EACH).cast("int") + 1)
    engine.spark.sql(f"alter table delta.`{path}` unset tblproperties ('delta.appendOnly')")
    frame = engine.spark.read.format("delta").load(path).orderBy(place, "offset").coalesce(1)
    writer = frame.write.format("delta").mode("overwrite").option("dataChange", "false")
    writer.option("maxRecordsPerFile", 2 * EACH).save(path)


def vacuum(engine: Engine) -> None:
    """Only the live files are left."""
    table = DeltaTable(engine.path("bronze.orders"))
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def clean(engine: Engine) -> None:
    """Only the newest commit is left in the log, and a checkpoint."""
    table = DeltaTable(engine.path("bronze.orders"))
    table.create_checkpoint()
    for version in range(table.version()):
        (Path(engine.path("bronze.orders")) / "_delta_log" / f"{version:020}.json").unlink()


def check(engine: Engine, oracle: Oracle, table: str = "silver.orders") -> None:
    """Silver and quarantine hold each of their rows once."""
    found = engine.rows(table)
    assert {row["order_id"]: row["_kafka_offset"] for row in found} == oracle.silver
    assert len(found) == len(oracle.silver)
    aside = Counter(row["offset"] for row in engine.rows(f"{table}__quarantine"))
    assert aside == Counter(oracle.quarantine)
    assert engine.rows(f"{table}__late") == []


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, Oracle]:
    """A bronze whose history is gone."""
    return gone(spark, tmp_path_factory.mktemp("load"))


def gone(spark: Any, folder: Path) -> tuple[Engine, Oracle]:
    """A bronze that was compacted, vacuumed and its log cleaned before silver was ever filled."""
    settings = make_settings(
        folder,
        "none:1",
        "silver.max_files_per_trigger=1",
        "silver.first_load_rows=50",
    )
    engine = Engine(spark, PIPELINE, settings)
    oracle = bronze(engine)
    path = engine.path("bronze.orders")
    assert not needs_snapshot("auto", "bronze.orders", path)
    compact(engine)
    assert not needs_snapshot("auto", "bronze.orders", path)
    vacuum(engine)
    assert needs_snapshot("auto", "bronze.orders", path)
    with pytest.raises(
        HistoryGoneError, match=r"bronze\.orders: a file that its log names is gone .*snapshot"
    ):
        needs_snapshot("log", "bronze.orders", path)
    clean(engine)
    assert needs_snapshot("auto", "bronze.orders", path)
    with pytest.raises(HistoryGoneError, match=r"bronze\.orders: its log no longer begins at commit 0"):
        needs_snapshot("log", "bronze.orders", path)
    return engine, oracle


def test_a_load_has_each_row_once(spark: Any, tmp_path: Path) -> None:
    engine, oracle = gone(spark, tmp_path)
    engine.run("silver")
    check(engine, oracle)


@pytest.mark.long
def test_a_table_of_thirty_columns_that_are_expressions_is_loaded(spark: Any, tmp_path: Path) -> None:
    """Spark came to no end over them, in the load and in the stream, while it derived conditions of them."""
    forms = {
        "bigint": "if(after.{0} between -9 and 9, timestamp_micros(after.{0}), null)",
        "binary": "conv(concat('0', hex(reverse(after.{0}))), 16, 10)",
        "string": "try_cast(if(after.{0} rlike '^[0-9]{{4}}-', after.{0}, null) as timestamp)",
    }
    kinds = {f"v{n}": list(forms)[n % 3] for n in range(30)}
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Debezium(", ".join(["id int", *(f"{name} {kind}" for name, kind in kinds.items())])),
        columns={"id": "after.id", "at": "_kafka.timestamp"}
        | {name: f"cast({forms[kind].format(name)} as string)" for name, kind in kinds.items()},
        key=["id"],
        event_time="at",
        watermark="1 day",
    )
    loading = make_settings(tmp_path, "none:1", "silver.first_load=snapshot", "driver.batch_rows=0")
    engine = Engine(spark, Pipeline(name="shop", bronze=[Topic("orders")], silver=[silver]), loading)
    values = {"bigint": 1, "binary": "sQ==", "string": "2026-03-01T12:00:00Z"}
    for id_ in range(2):
        after = {"id": id_} | {name: values[kind] for name, kind in kinds.items()}
        engine.append_bronze(
            "bronze.orders", records([json.dumps({"op": "c", "after": after}).encode()], id_)
        )
        engine.run("silver")
    found = sorted(engine.rows("silver.orders"), key=lambda row: row["id"])
    given = [(row["id"], *(row[f"v{n}"] for n in range(27, 30))) for row in found]
    assert given == [(id_, "1970-01-01 00:00:00.000001", "177", "2026-03-01 12:00:00") for id_ in range(2)]


@pytest.mark.long
def test_a_plain_stream_loses_rows_and_ours_none_though_it_dies_midway(
    shop: tuple[Engine, Oracle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, oracle = shop
    source = engine.spark.readStream.format("delta").option("maxFilesPerTrigger", "1")
    plain = table_columns.accepted_frame(rows([source.load(engine.path("bronze.orders"))], SHORT)).writeStream
    plain = plain.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    plain.trigger(availableNow=True).start(str(tmp_path / "plain")).awaitTermination()
    kept = {row["order_id"] for row in DeltaTable(tmp_path / "plain").to_pyarrow_table().to_pylist()}
    lost = len(oracle.silver.keys() - kept)
    print(f"a plain stream loses {lost} of {len(oracle.silver)} events; ours 0")  # noqa: T201
    assert lost > 0

    real, calls = delta_table.append_with_metadata, []

    def dying(*args: Any) -> None:
        if len(calls) in {2, 4}:
            calls.append("died before")
            raise OSError("the power went out")
        real(*args)
        calls.append("written")
        if len(calls) == 4:
            raise OSError("the power went out again")

    monkeypatch.setattr(delta_table, "append_with_metadata", dying)
    for _ in range(3):
        with pytest.raises(OSError, match="the power went out"):
            engine.run("silver")
    assert 0 < len(engine.rows("silver.orders")) < len(oracle.silver)
    engine.run("silver")
    check(engine, oracle)
    assert not Path(f"{engine.checkpoint('silver.orders')}.first_load").exists()


@pytest.mark.long
def test_its_commits_come_in_the_order_of_event_time_and_account_for_every_row(
    shop: tuple[Engine, Oracle],
) -> None:
    engine, oracle = shop
    loads = [one for one in reversed(engine.history("silver.orders")) if "first load" in str(one)]
    assert len(loads) == 5
    spans = []
    for one in loads:
        before, now = (
            {
                row["_kafka_offset"]: row["ordered_at"]
                for row in DeltaTable(engine.path("silver.orders"), version=version)
                .to_pyarrow_table()
                .to_pylist()
            }
            for version in (one["version"] - 1, one["version"])
        )
        times = [at for offset, at in now.items() if offset not in before]
        spans.append((min(times), max(times)))
    assert all(earlier[1] < later[0] for earlier, later in pairwise(spans))
    told = [json.loads(one["userMetadata"]) for one in loads]
    assert [(one["bucket"], one["of"]) for one in told] == [(n, 5) for n in range(5)]
    total = Counter[str]()
    assert told[-1]["counts"].pop("rules") == {"amount_positive": len(oracle.quarantine)}
    for one in told:
        total.update(one["counts"])
    assert +total == {
        "accepted": len(oracle.silver),
        "quarantined": len(oracle.quarantine),
        "duplicates": oracle.duplicates,
        "tombstones": COMMITS,
    }


@pytest.mark.long
def test_what_is_appended_between_the_newest_commit_and_the_load_is_read_once(
    spark: Any, shop: tuple[Engine, Oracle]
) -> None:
    """The stream begins with the newest commit, so the load leaves its rows to it."""
    engine, oracle = shop
    last = NOON + timedelta(hours=3)
    oracle_rows = oracle.take([("new", last, 5.0), ("bad", last, 0.0), ("new", last, 5.0), None])
    engine.append_bronze("bronze.orders", records(oracle_rows, oracle.place - 4))
    again = Engine(spark, replace(PIPELINE, silver=[replace(SHORT, name="again")]), engine.settings)
    again.run("silver")
    check(again, oracle, "silver.again")
    loaded = first_load.mark(again.path("silver.again"))
    assert loaded is not None
    latest = engine.version("bronze.orders")
    assert (loaded.begins, loaded.bronze_versions) == ((latest,), (latest - 1,))


@pytest.mark.long
def test_the_stream_goes_on_without_a_gap_or_a_duplicate(
    shop: tuple[Engine, Oracle], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What repeats the snapshot is a duplicate until the watermark has passed it; then that is free."""
    engine, oracle = shop
    old = [key for key in oracle.silver if key != "new"][::7]
    last = NOON + timedelta(hours=3, minutes=1)
    for events in (
        [*((key, NOON + timedelta(hours=2), 5.0) for key in old), ("n 1", last, 5.0)],
        [("n 1", last, 5.0), ("n 2", last, 5.0), (old[0], last, 5.0), ("n 3", last, -1.0)],
        [("jump", last + timedelta(hours=1), 5.0)],
        [("jump", last + timedelta(hours=1), 5.0), ("n 4", last + timedelta(hours=1), 5.0)],
    ):
        first = oracle.place
        engine.append_bronze("bronze.orders", records(oracle.take(events), first))
        engine.run("silver")
        engine.undo_last_commit("silver.orders")
    engine.run("silver")
    check(engine, oracle)
    counts = [one["counts"] for one in engine.commits("silver.orders") if "batch_id" in one]
    assert sum(one["duplicates"] for one in counts) == len(old) + 4

    def never(*_: object) -> None:
        raise AssertionError("silver was asked, although the watermark has passed the snapshot")

    monkeypatch.setattr(KeysWrittenOutsideStream, "_known", never)
    first = oracle.place
    events = [("n 5", last + timedelta(hours=1), 5.0), ("n 5", last + timedelta(hours=1), 5.0)]
    engine.append_bronze("bronze.orders", records(oracle.take(events), first))
    engine.run("silver")
    check(engine, oracle)
    assert engine.faults() == ()


@pytest.mark.long
def test_the_event_time_option_is_set_and_nothing_depends_on_it(
    spark: Any, shop: tuple[Engine, Oracle], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.readwriter import DataStreamReader

    engine, oracle = shop
    real, given = DataStreamReader.option, {}

    def without(self: Any, key: str, value: Any) -> Any:
        given[key] = value
        return self if key == "withEventTimeOrder" else real(self, key, value)

    monkeypatch.setattr(DataStreamReader, "option", without)
    plain = Engine(spark, replace(PIPELINE, silver=[replace(SHORT, name="without")]), engine.settings)
    plain.run("silver")
    assert given["withEventTimeOrder"] == "true"
    found = {row["order_id"]: row["_kafka_offset"] for row in plain.rows("silver.without")}
    assert found == {row["order_id"]: row["_kafka_offset"] for row in engine.rows("silver.orders")}
    assert found == oracle.silver
