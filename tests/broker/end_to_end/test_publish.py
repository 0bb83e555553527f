"""Rows sent on to a topic of a real broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from common.declare import (
    ConsoleSink,
    KafkaSink,
    Pipeline,
    Publish,
    Reading,
    Storage,
    Topic,
    Upsert,
)
from common.errors import PipelineError, TableShapeError
from gold.table.context import Context
from orchestration.records.audit.gold.sent import Sent, compare_sent
from tests.broker.end_to_end.consumed import consumed
from tests.conftest import make_settings
from tests.support.engine import Engine

SCHEMA = (
    "k string, version int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)
LATEST = Upsert(
    "latest",
    reads="silver.orders",
    key=["k"],
    newest_by=["version"],
    storage=Storage(change_feed=True),
)


def rows(*pairs: tuple[str | None, int]) -> list[tuple[Any, ...]]:
    """Silver rows; a version is also an offset."""
    return [(k, version, "t", 0, version, None, None) for k, version in pairs]


def sent(broker: str, topic: str) -> list[tuple[str | None, str]]:
    """Keys and values of all messages of a topic as texts, those of a key in their order."""
    found: list[tuple[str | None, str]] = []
    for key, value in consumed(broker, topic):
        assert value is not None
        found.append((None if key is None else key.decode(), value.decode()))
    return found


class Ran:
    """What was published, and where."""

    def __init__(self, engine: Engine, topics: dict[str, str]) -> None:
        self.engine, self.topics = engine, topics


@pytest.fixture(scope="module")
def ran(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    """Two commits of silver, each read by gold and published before the next."""
    topics = {"whole": new_topic(), "even": new_topic(), "shaped": new_topic()}
    pipeline = Pipeline(
        "shop",
        bronze=[Topic("orders")],
        gold=[LATEST],
        publish=[
            Publish(
                "whole",
                reads="gold.latest",
                to=KafkaSink(topics["whole"], key="k"),
                columns=["k", "version"],
                deletes=True,
            ),
            Publish(
                "even",
                reads="gold.latest",
                to=KafkaSink(topics["even"], key="k"),
                columns=["k", "version"],
                where="version % 2 = 0",
                deletes=True,
            ),
            Publish(
                "shaped",
                reads="silver.orders",
                to=KafkaSink(
                    topics["shaped"],
                    value="twice",
                    kafka={"bootstrap.servers": broker},
                    headers={"k": "k", "source": "'shop'", "n": "twice"},
                    partition="0",
                ),
                columns={"k": "k", "twice": "version * 2"},
                where="version > 1",
            ),
        ],
    )
    settings = make_settings(tmp_path_factory.mktemp("publish"), broker)
    engine = Engine(spark, pipeline, settings, broker)
    engine.append("silver.orders", rows(("a", 1), (None, 2), ("c", 3)), SCHEMA)
    engine.run("gold")
    engine.publish()
    return Ran(engine, topics)


@pytest.fixture(scope="module")
def twice(ran: Ran) -> str:
    """The same after three more commits, each a version of gold; what the terminal showed."""
    for more in (rows(("a", 4), ("a", 0)), rows(("a", 5), (None, 8)), rows(("a", 6))):
        ran.engine.append("silver.orders", more, SCHEMA)
        ran.engine.run("gold")
    ran.engine.spark.sql(f"DELETE FROM delta.`{ran.engine.path('gold.latest')}` WHERE k = 'c'")
    ran.engine.publish()
    return ""


def message(k: str | None, version: int, change: str) -> tuple[str | None, str]:
    """A whole row as it is sent; a null is told."""
    return k, json.dumps({"k": k, "version": version, "_change_type": change}, separators=(",", ":"))


def by_key(messages: list[tuple[str | None, str]]) -> dict[str | None, list[tuple[str | None, str]]]:
    """The messages of each key in their order; those without a key, which have none, sorted."""
    found: dict[str | None, list[tuple[str | None, str]]] = {None: []}
    for each in messages:
        found.setdefault(each[0], []).append(each)
    found[None].sort()
    return found


def test_a_gold_tables_changes_are_sent_as_json_with_their_keys(ran: Ran, twice: str, broker: str) -> None:
    """New rows, the newer states of an old one in their order, a deletion; nothing of what was replaced."""
    assert by_key(sent(broker, ran.topics["whole"])) == {
        "a": [message("a", 1, "insert"), *(message("a", n, "update_postimage") for n in (4, 5, 6))],
        None: [message(None, 2, "insert"), message(None, 8, "update_postimage")],
        "c": [message("c", 3, "insert"), message("c", 3, "delete")],
    }


def test_a_row_that_meets_the_condition_no_more_is_deleted(ran: Ran, twice: str, broker: str) -> None:
    """In the order of the table's versions; one that meets it before and after is sent as it is after."""
    assert by_key(sent(broker, ran.topics["even"])) == {
        "a": [
            message("a", 4, "update_postimage"),
            message("a", 4, "delete"),
            message("a", 6, "update_postimage"),
        ],
        None: [message(None, 2, "insert"), message(None, 8, "update_postimage")],
    }


def test_key_value_columns_and_condition_are_sql(ran: Ran, twice: str, broker: str) -> None:
    """To a broker that the sink names itself; a number is sent as text."""
    twice_as_much = [(None, str(2 * version)) for version in (2, 3, 4, 5, 8, 6)]
    assert Counter(sent(broker, ran.topics["shaped"])) == Counter(twice_as_much)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "headers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(ran.topics["shaped"], 0, 0)])
    found = consumer.consume(len(twice_as_much), 10)
    consumer.close()
    headers = [dict(message.headers()) for message in found]
    assert Counter(each["n"] for each in headers) == Counter(text.encode() for _, text in twice_as_much)
    assert {each["source"] for each in headers} == {b"shop"}
    assert None in {each["k"] for each in headers}


def test_an_audit_finds_messages_that_are_no_longer_in_the_topic(ran: Ran, twice: str) -> None:
    """By the keys of the version that was read last; another topic stands for one that was created again."""
    engine = ran.engine
    context = Context(engine.spark, engine.pipeline, engine.settings, engine.layout)
    whole, shaped = (one for one in engine.pipeline.publish if one.name in {"whole", "shaped"})
    assert compare_sent(context, whole, None) == Sent()
    other = replace(whole, to=KafkaSink(ran.topics["even"], key="concat(k, 'x')"))
    assert "has no message since then of 1 of the 1 keys" in compare_sent(context, other, None).fault
    assert "no key" in compare_sent(context, shaped, None).why
    missing = replace(whole, to=KafkaSink("none.of.this.name", key="k"))
    assert any(compare_sent(context, missing, None))


def test_a_table_without_a_feed_and_sql_that_does_not_fit_are_told(spark: Any, ran: Ran) -> None:
    def started(publish: Publish) -> None:
        pipeline = Pipeline("shop", bronze=[Topic("orders")], gold=[LATEST], publish=[publish])
        Engine(spark, pipeline, ran.engine.settings, "none:1").publish()

    feed = Reading(changes="feed")
    with pytest.raises(TableShapeError, match=r"publish\.none reads the change data feed of silver\.orders"):
        started(Publish("none", reads="silver.orders", to=ConsoleSink(), reading=feed))
    with pytest.raises(PipelineError, match=r"publish\.odd, column 'n'"):
        started(Publish("odd", reads="silver.orders", to=ConsoleSink(), columns={"n": "no_such"}))
    with pytest.raises(PipelineError, match=r"publish\.odd, message 'key'"):
        started(Publish("odd", reads="silver.orders", to=KafkaSink("t", key="no_such"), columns=["k"]))
