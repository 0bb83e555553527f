"""Kafka to bronze on a real broker: what is read, from where, how much at a time, and byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from bronze.kafka_options import options
from common.config.settings import BronzeSettings
from common.declare import Pipeline, Topic
from common.errors import PipelineError
from tests.conftest import make_settings
from tests.support.engine import Engine

T0 = 1_700_000_000_000
HEADERS = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", None)]
COUNTS = {0: 5, 1: 4, 2: 3}
"""Records per partition of the first topic; record n of a partition carries the time T0 + n seconds."""


def _fill(broker: str, first: str, second: str, transactional: str) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for partition, count in COUNTS.items():
        for n in range(count):
            value = f"{partition}-{n}".encode()
            producer.produce(first, value, b"k", partition, timestamp=T0 + n * 1000)
    producer.produce(second, None, b"only a key", 0, headers=HEADERS)
    producer.produce(second, b"", None, 0)
    producer.produce(second, b"\xff\x00", b"\xfe", 0)
    assert producer.flush(30) == 0
    sender = Producer({"bootstrap.servers": broker, "transactional.id": f"of {transactional}"})
    sender.init_transactions()
    for value, commit in ((b"kept 1", True), (b"aborted", False), (b"kept 2", True)):
        sender.begin_transaction()
        sender.produce(transactional, value, partition=0)
        sender.flush()
        if commit:
            sender.commit_transaction()
        else:
            sender.abort_transaction()


class Ran:
    """All ways to read, run once over the same topics."""

    def __init__(self, engine: Engine, first: str, second: str, queries: list[Any]) -> None:
        self.engine, self.first, self.second = engine, first, second
        self.progress = {query.name: list(query.progress()) for query in queries}

    def read(self, table: str) -> dict[tuple[str, int], list[int]]:
        """Offsets by topic and partition."""
        found: dict[tuple[str, int], list[int]] = {}
        for row in self.engine.rows(f"bronze.{table}"):
            found.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
        return {place: sorted(offsets) for place, offsets in found.items()}


@pytest.fixture(scope="module")
def ran(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    """Eleven tables of three topics."""
    first, second, transactional = new_topic(), new_topic(), new_topic()
    _fill(broker, first, second, transactional)
    pipeline = Pipeline(
        name="raw",
        bronze=[
            Topic("subscribed", topics=[first, second], max_offsets_per_trigger=100),
            Topic("matched", pattern=f"{second[:-1]}[{second[-1]}]"),
            Topic("assigned", assign={first: [0, 2]}),
            Topic("by_offset", topics=[first], starting_offsets={first: {0: 3, 1: -1, 2: -2}}),
            Topic("by_time", topics=[first], starting_timestamp=T0 + 2000),
            Topic(
                "by_times", topics=[first], starting_timestamp={first: {0: T0 + 4000, 1: T0, 2: T0 + 9000}}
            ),
            Topic("latest", topics=[first], starting_offsets="latest"),
            Topic("capped", topics=[first], max_offsets_per_trigger=5),
            Topic("committed", topics=[transactional]),
            Topic("uncommitted", topics=[transactional], kafka={"isolation.level": "read_uncommitted"}),
        ],
    )
    engine = Engine(spark, pipeline, make_settings(tmp_path_factory.mktemp("bronze"), broker), broker)
    queries = engine.run("bronze")
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(first, b"new", None, 1)
    assert producer.flush(30) == 0
    again = Engine(
        spark,
        Pipeline(
            name="raw", bronze=[topic for topic in pipeline.bronze if topic.name in {"latest", "by_time"}]
        ),
        engine.settings,
        broker,
    )
    again.run("bronze")
    return Ran(engine, first, second, queries)


@pytest.mark.long
def test_a_subscription_reads_all_of_its_topics_from_the_start(ran: Ran) -> None:
    assert ran.read("subscribed") == {
        (ran.first, 0): [0, 1, 2, 3, 4],
        (ran.first, 1): [0, 1, 2, 3],
        (ran.first, 2): [0, 1, 2],
        (ran.second, 0): [0, 1, 2],
    }


@pytest.mark.long
def test_a_pattern_reads_the_topics_it_matches(ran: Ran) -> None:
    assert ran.read("matched") == {(ran.second, 0): [0, 1, 2]}


@pytest.mark.long
def test_an_assignment_reads_its_partitions_only(ran: Ran) -> None:
    assert ran.read("assigned") == {(ran.first, 0): [0, 1, 2, 3, 4], (ran.first, 2): [0, 1, 2]}


@pytest.mark.long
def test_the_start_is_by_offset_or_by_kafkas_timestamp(ran: Ran) -> None:
    """A partition with nothing that young begins with what comes next."""
    assert ran.read("by_offset") == {(ran.first, 0): [3, 4], (ran.first, 2): [0, 1, 2]}
    assert ran.read("by_time") == {(ran.first, 0): [2, 3, 4], (ran.first, 1): [2, 3, 4], (ran.first, 2): [2]}
    assert ran.read("by_times") == {(ran.first, 0): [4], (ran.first, 1): [0, 1, 2, 3]}


@pytest.mark.long
def test_latest_reads_only_what_came_after_the_first_start(ran: Ran) -> None:
    assert ran.read("latest") == {(ran.first, 1): [4]}


@pytest.mark.long
def test_bytes_nulls_and_headers_are_kept_as_they_were_sent(ran: Ran) -> None:
    rows = [row for row in ran.engine.rows("bronze.subscribed") if row["topic"] == ran.second]
    found = {
        row["offset"]: (row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or []])
        for row in rows
    }
    assert found == {
        0: (b"only a key", None, HEADERS),
        1: (None, b"", []),
        2: (b"\xfe", b"\xff\x00", []),
    }


@pytest.mark.long
def test_kafkas_own_time_is_kept_to_the_millisecond(ran: Ran) -> None:
    rows = [row for row in ran.engine.rows("bronze.subscribed") if row["topic"] == ran.first]
    assert {round(row["kafka_timestamp"].timestamp() * 1000) - row["offset"] * 1000 for row in rows} == {T0}
    assert {row["kafka_timestamp_type"] for row in rows} == {0}
    assert len({row["ingested_at"] for row in rows}) == 1


@pytest.mark.long
def test_an_aborted_transaction_was_never_sent_unless_one_asks_for_it(ran: Ran) -> None:
    """And with it, that an option of the client reaches Kafka's client."""
    values = Counter(row["value"] for row in ran.engine.rows("bronze.committed"))
    assert values == Counter([b"kept 1", b"kept 2"])
    values = Counter(row["value"] for row in ran.engine.rows("bronze.uncommitted"))
    assert values == Counter([b"kept 1", b"aborted", b"kept 2"])


@pytest.mark.long
def test_a_limit_splits_what_is_there_into_micro_batches(ran: Ran) -> None:
    reports = ran.progress["bronze.capped"]
    sizes = [report["numInputRows"] for report in reports if report["numInputRows"]]
    assert sum(sizes) == sum(COUNTS.values())
    assert len(sizes) == 3
    assert max(sizes) <= 5
    commits = ran.engine.commits("bronze.capped")
    assert [commit["batch_id"] for commit in commits] == [0, 1, 2]
    assert commits[-1]["positions"] == [{ran.first: {str(p): count for p, count in COUNTS.items()}}]
    assert [r["numInputRows"] for r in ran.progress["bronze.subscribed"] if r["numInputRows"]] == [15]


@pytest.mark.long
def test_min_partitions_splits_the_reading(spark: Any, broker: str, ran: Ran) -> None:
    """About: Spark rounds."""
    chosen = options(Topic("orders", topics=[ran.first], min_partitions=9), BronzeSettings(), broker, {})
    frame = spark.read.format("kafka").options(**chosen).load()
    assert frame._jdf.queryExecution().toRdd().getNumPartitions() > len(COUNTS)


@pytest.mark.long
def test_an_option_that_the_client_does_not_take_ends_the_query_in_one_line(ran: Ran, spark: Any) -> None:
    topic = Topic("odd", topics=[ran.first], kafka={"receive.buffer.bytes": "many"})
    engine = Engine(spark, Pipeline(name="raw", bronze=[topic]), ran.engine.settings, ran.engine.broker)
    with pytest.raises(Exception, match=r"^bronze\.odd failed: .*receive\.buffer\.bytes") as died:
        engine.run("bronze")
    assert "\n" not in str(died.value)


def test_a_reserved_option_is_refused_before_anything_runs() -> None:
    with pytest.raises(PipelineError, match="starting_offsets"):
        Pipeline(name="raw", bronze=[Topic("a")], kafka={"auto.offset.reset": "earliest"})
