"""Bronze to silver over real tables: every row in one place, through restarts, late rows and deletions."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from common.declare import Json, Pipeline, Rule, Silver, Topic
from common.delta import merge as delta_merge
from common.delta import table as delta_table
from common.errors import HistoryGoneError, PipelineError, QueryFailedError, TableShapeError
from common.streaming.query import RunningQuery
from tests.conftest import make_settings
from tests.support.engine import Engine

pytestmark = pytest.mark.long

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAR = datetime(3000, 1, 1, tzinfo=UTC)
DDL = "id string, ms bigint, amount double"
ORDERS = Silver(
    "orders",
    reads="bronze.orders",
    value=Json(DDL),
    columns={"order_id": "id", "ordered_at": "timestamp_millis(ms)", "amount": "amount"},
    key=["order_id"],
    event_time="ordered_at",
    watermark="1 hour",
    rules=[Rule("amount_positive", "amount > 0"), Rule("amount_small", "amount < 100")],
)
TOMBSTONE = ["a tombstone"]
"""What stands for the fate of a record without a value."""
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], silver=[ORDERS])


def value(key: str | None, at: datetime | None, amount: float | None = 5.0) -> bytes:
    """An event's bytes."""
    ms = None if at is None else round(at.timestamp() * 1000)
    return json.dumps({"id": key, "ms": ms, "amount": amount}).encode()


def records(values: Sequence[bytes | None], first: int = 0) -> list[tuple[Any, ...]]:
    """Bronze rows at offsets from ``first`` on, all of Kafka's time NOON + 10 hours."""
    time = NOON + timedelta(hours=10)
    return [("t", 0, first + n, time, 0, time, b"k", each, None) for n, each in enumerate(values)]


@dataclass
class Expected:
    """What must become of a mix, worked out row by row in plain Python."""

    accepted: dict[str, int] = field(default_factory=dict)
    quarantine: dict[int, list[str]] = field(default_factory=dict)
    duplicates: int = 0
    tombstones: int = 0

    def take(self, offset: int, key: str | None, reasons: list[str]) -> None:
        """One more row."""
        if reasons == TOMBSTONE:
            self.tombstones += 1
        elif reasons:
            self.quarantine[offset] = reasons
        elif key in self.accepted:
            self.duplicates += 1
        else:
            self.accepted[str(key)] = offset


def mix(chance: random.Random, size: int, first: int, expected: Expected) -> list[bytes | None]:
    """Good, repeated and rotten events in any order."""
    kinds: list[tuple[bytes | None, list[str]]] = [
        (None, TOMBSTONE),
        (b"", ["empty_value"]),
        (b"\xc3\x28", ["not_utf8"]),
        (b'{"id": 1', ["malformed_json"]),
        (value("x", None), ["null_event_time"]),
        (value(None, NOON), ["null_key"]),
        (value("x", NOON + timedelta(hours=11, milliseconds=1)), ["future_event_time"]),
        (value("x", NOON, -1.0), ["amount_positive"]),
        (value("x", NOON, None), ["amount_positive", "amount_small"]),
        (
            value(None, datetime(3000, 1, 1, tzinfo=UTC), 100.0),
            ["null_key", "future_event_time", "amount_small"],
        ),
    ]
    rotten = itertools.cycle(kinds)
    values: list[bytes | None] = []
    for offset in range(first, first + size):
        if chance.random() < 0.3:
            bad, reasons = next(rotten)
            values.append(bad)
            expected.take(offset, None, reasons)
        else:
            key = f"order {chance.randrange(size // 2)}"
            values.append(value(key, NOON + timedelta(minutes=chance.randrange(30))))
            expected.take(offset, key, [])
    return values


@dataclass
class Ran:
    """Six micro-batches of one file each; the sixth after a deletion in bronze and a restart."""

    engine: Engine
    expected: Expected
    queries: list[RunningQuery]


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run that most tests look at."""
    settings = make_settings(tmp_path_factory.mktemp("silver"), "none:1", "silver.max_files_per_trigger=1")
    engine = Engine(spark, PIPELINE, settings)
    chance, expected = random.Random(3), Expected()  # noqa: S311
    evening = NOON + timedelta(hours=10)
    engine.append_bronze("bronze.orders", records(mix(chance, 40, 0, expected)))
    engine.append_bronze("bronze.orders", records(mix(chance, 60, 40, expected), 40))
    engine.append_bronze("bronze.orders", records([value("jump", evening)], 100))
    engine.append_bronze("bronze.orders", records([value("filler", evening)], 101))
    late = [
        value("late 1", NOON),
        value("late 2", NOON),
        value("late 3", NOON, -1),
        value("in time", evening),
    ]
    engine.append_bronze("bronze.orders", records(late, 102))
    queries = engine.run("silver")

    path = engine.path("bronze.orders")
    spark.sql(f"alter table delta.`{path}` unset tblproperties ('delta.appendOnly')")
    erased = spark.createDataFrame([(n,) for n in range(20)], "offset bigint")
    delta_merge.delete_matching(
        erased, path, delta_table.maintenance_metadata("shop", "bronze.orders", "erasure"), key=["offset"]
    )
    again = [value("filler", evening), value("late 4", NOON), value("last", evening), value("last", evening)]
    engine.append_bronze("bronze.orders", records(again, 106))
    late_ones = ((102, "late 1"), (103, "late 2"), (107, "late 4"))
    for offset, key in (*((100, "jump"), (101, "filler"), (105, "in time"), (108, "last")), *late_ones):
        expected.accepted[key] = offset
    expected.quarantine[104] = ["amount_positive"]
    return Ran(engine, expected, queries + engine.run("silver"))


def test_silver_is_the_first_of_each_key_with_its_coordinates(ran: Ran) -> None:
    """Within a micro-batch, across them, and across a restart."""
    rows = ran.engine.rows("silver.orders")
    assert {row["order_id"]: row["_kafka_offset"] for row in rows} == ran.expected.accepted
    assert len(rows) == len(ran.expected.accepted)
    assert {(row["_kafka_topic"], row["_kafka_partition"], row["amount"]) for row in rows} == {("t", 0, 5.0)}


def test_quarantine_is_every_rejected_record_with_all_its_reasons(ran: Ran) -> None:
    rows = ran.engine.rows("silver.orders__quarantine")
    assert {row["offset"]: row["reasons"] for row in rows} == ran.expected.quarantine
    assert len(rows) == len(ran.expected.quarantine)
    assert set(Counter(reason for row in rows for reason in row["reasons"])) == {
        *("empty_value", "not_utf8", "malformed_json", "null_key", "null_event_time"),
        *("future_event_time", "amount_positive", "amount_small"),
    }


def test_every_row_read_is_accepted_rejected_a_duplicate_or_late(ran: Ran) -> None:
    """In every micro-batch's own account; the deletion in bronze brought none."""
    commits = ran.engine.commits("silver.orders")
    counts = [commit["counts"] for commit in commits if commit["step"] == "accepted"]
    merged = [each.pop("merged") for each in counts]
    assert merged == [0, 0, 0, 0, 2, 1]
    rules = Counter[str]()
    for each in counts:
        rules.update(each.pop("rules"))
    assert [sum(each.values()) for each in counts] == [40, 60, 1, 1, 4, 4]
    nothing = dict.fromkeys(("quarantined", "dropped", "tombstones", "duplicates", "late"), 0)
    assert counts[2:] == [
        {**nothing, "accepted": 1},
        {**nothing, "accepted": 1},
        {**nothing, "accepted": 1, "quarantined": 1, "late": 2},
        {**nothing, "accepted": 1, "duplicates": 2, "late": 1},
    ]
    total = Counter[str]()
    for each in counts:
        total.update(each)
    assert total == {
        "accepted": len(ran.expected.accepted) - 3,
        "quarantined": len(ran.expected.quarantine),
        "dropped": 0,
        "tombstones": ran.expected.tombstones,
        "duplicates": ran.expected.duplicates + 2,
        "late": 3,
    }
    broken = Counter(reason for reasons in ran.expected.quarantine.values() for reason in reasons)
    assert rules == {name: broken[name] for name in ("amount_positive", "amount_small")}
    assert ran.expected.tombstones > 0


def test_as_many_files_as_allowed_make_a_micro_batch_and_each_is_parsed_once(ran: Ran) -> None:
    sizes = [r["numInputRows"] for query in ran.queries for r in query.progress() if r["numInputRows"]]
    assert sizes == [40, 60, 1, 1, 4, 4]
    for query in ran.queries:
        plan = query.query._jsq.streamingQuery().lastExecution().executedPlan().toString()
        assert plan.count("static_invoke(medallion.ValueReader.read(") == 1
        assert plan.count("dropDuplicatesWithinWatermark") + plan.count("DeduplicateWithinWatermark") >= 1


def test_a_schema_file_and_a_function_give_what_ddl_and_sql_give(
    spark: Any, ran: Ran, tmp_path: Path
) -> None:
    """And many files may be one micro-batch."""
    from silver.read.value_reader import struct_type

    (tmp_path / "order.json").write_text(json.dumps(struct_type(DDL).jsonValue()), encoding="utf-8")

    def columns(frame: Any) -> Any:
        return frame.select(
            "_kafka", F.col("id").alias("order_id"), F.timestamp_millis("ms").alias("ordered_at"), "amount"
        )

    ways = [
        replace(ORDERS, name="by_file", reads="bronze.few", value=Json(str(tmp_path / "order.json"))),
        replace(ORDERS, name="by_type", reads="bronze.few", value=Json(struct_type(DDL)), columns=columns),
    ]
    settings = make_settings(tmp_path, "none:1")
    engine = Engine(spark, Pipeline(name="ways", bronze=[Topic("few")], silver=ways), settings)
    expected = Expected()
    values = mix(random.Random(4), 30, 0, expected)  # noqa: S311
    engine.append_bronze("bronze.few", records(values[:8]))
    engine.append_bronze("bronze.few", records(values[8:], 8))
    places: dict[str, set[int]] = {}
    for offset, each in enumerate(values):
        if each is not None and offset not in expected.quarantine:
            places.setdefault(json.loads(each)["id"], set()).add(offset)
    reports = [len([r for r in query.progress() if r["numInputRows"]]) for query in engine.run("silver")]
    assert reports == [1, 1]
    for way in ways:
        rows = engine.rows(way.table)
        assert len(rows) == len(places)
        assert all(row["_kafka_offset"] in places[row["order_id"]] for row in rows)
        assert {row["offset"]: row["reasons"] for row in engine.rows(way.quarantine)} == expected.quarantine
    accepted = [Counter(map(repr, engine.rows(way.table))) for way in ways]
    assert accepted[0] == accepted[1]


def test_a_columns_function_that_fails_on_a_value_ends_the_query_in_one_line_that_names_it(
    spark: Any, ran: Ran
) -> None:
    """Nothing of the micro-batch is written; the function is the pipeline's to mend."""

    def columns(frame: Any) -> Any:
        at, amount = F.timestamp_millis("ms").alias("ordered_at"), F.expr("cast(9e9 * amount as int) amount")
        return frame.select("_kafka", F.col("id").alias("order_id"), at, amount)

    poisoned = replace(ORDERS, name="poisoned", columns=columns, rules=[])
    engine = Engine(spark, replace(PIPELINE, silver=[poisoned]), ran.engine.settings)
    with pytest.raises(QueryFailedError) as died:
        engine.run("silver")
    assert died.value.query == "silver.poisoned"
    assert "CAST_OVERFLOW" in str(died.value)
    assert str(died.value).startswith("silver.poisoned failed: [CAST_OVERFLOW]")
    assert "\n" not in str(died.value)
    assert engine.rows("silver.poisoned") == []


def test_a_column_of_another_type_needs_another_table(spark: Any, ran: Ran) -> None:
    changed = replace(ORDERS, columns={**dict(ORDERS.columns), "amount": "cast(amount as decimal(9,2))"})
    before = ran.engine.version("silver.orders")
    with pytest.raises(TableShapeError, match=r"silver\.orders .*amount is double, declared decimal\(9,2\)"):
        Engine(spark, replace(PIPELINE, silver=[changed]), ran.engine.settings).run("silver")
    assert ran.engine.version("silver.orders") == before


def test_a_function_that_filters_stops_the_start_before_any_table_is_made(spark: Any, ran: Ran) -> None:
    odd = replace(ORDERS, name="odd", columns=lambda frame: frame.where("amount > 0"))
    engine = Engine(spark, replace(PIPELINE, silver=[odd]), ran.engine.settings)
    with pytest.raises(PipelineError, match=r"silver\.odd.*Filter"):
        engine.run("silver")
    assert not Path(engine.path("silver.odd")).exists()


def test_without_bronzes_first_commit_a_started_table_goes_on_and_a_new_one_is_refused(
    spark: Any, ran: Ran
) -> None:
    """The last test here: it takes bronze's log apart."""
    engine = ran.engine
    engine.append_bronze("bronze.orders", records([value("more", NOON + timedelta(hours=10))], 110))
    DeltaTable(engine.path("bronze.orders")).create_checkpoint()
    for version in range(5):
        (Path(engine.path("bronze.orders")) / "_delta_log" / f"{version:020}.json").unlink()
    new = replace(ORDERS, name="new")
    by_log = engine.settings.silver.model_copy(update={"first_load": "log"})
    settings = engine.settings.model_copy(update={"silver": by_log})
    with pytest.raises(HistoryGoneError, match=r"bronze\.orders.*no longer begins at commit 0"):
        Engine(spark, replace(PIPELINE, silver=[new]), settings).run("silver")
    engine.run("silver")
    assert {row["order_id"] for row in engine.rows("silver.orders")} == {*ran.expected.accepted, "more"}
