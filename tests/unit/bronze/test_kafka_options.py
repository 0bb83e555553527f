"""A declared topic becomes exactly these options of Spark's Kafka source, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from bronze.kafka_options import options
from common.config.settings import BronzeSettings
from common.declare import Topic
from common.errors import PipelineError

ALWAYS = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "maxOffsetsPerTrigger": "200000",
    "groupIdPrefix": "medallion-orders",
}
PLAIN = {**ALWAYS, "subscribe": "orders", "startingOffsets": "earliest"}
BY_TIME = "startingOffsetsByTimestampStrategy"


def made(settings: BronzeSettings | None = None, client: dict[str, str] | None = None, **topic: Any) -> dict:
    """Options of a topic declared with these fields."""
    return options(Topic("orders", **topic), settings or BronzeSettings(), "broker:9092", client or {})


def test_a_bare_topic_reads_its_own_name_from_the_start_and_loses_nothing() -> None:
    assert made() == PLAIN


@pytest.mark.parametrize(
    ("declared", "chosen"),
    [
        ({"topics": ["a", "b.c"]}, {"subscribe": "a,b.c"}),
        ({"pattern": "a.*"}, {"subscribePattern": "a.*"}),
        ({"assign": {"a": [0, 2], "b": [1]}}, {"assign": '{"a": [0, 2], "b": [1]}'}),
    ],
)
def test_topics_are_chosen_in_one_of_three_ways(declared: dict[str, Any], chosen: dict[str, str]) -> None:
    assert made(**declared) == {**ALWAYS, **chosen, "startingOffsets": "earliest"}


@pytest.mark.parametrize(
    ("declared", "start"),
    [
        ({"starting_offsets": "latest"}, {"startingOffsets": "latest"}),
        ({"starting_offsets": {"a": {0: 5, 1: -2}}}, {"startingOffsets": '{"a": {"0": 5, "1": -2}}'}),
        ({"starting_timestamp": 1700000000000}, {"startingTimestamp": "1700000000000", BY_TIME: "latest"}),
        (
            {"starting_timestamp": {"a": {0: 17, 1: 18}}},
            {"startingOffsetsByTimestamp": '{"a": {"0": 17, "1": 18}}', BY_TIME: "latest"},
        ),
    ],
)
def test_the_first_start_begins_where_it_is_said(declared: dict[str, Any], start: dict[str, str]) -> None:
    assert made(**declared) == {**ALWAYS, "subscribe": "orders", **start}


def test_limits_are_the_topics_then_the_settings() -> None:
    settings = BronzeSettings(max_offsets_per_trigger=10, min_partitions=4)
    assert made(settings) == {**PLAIN, "maxOffsetsPerTrigger": "10", "minPartitions": "4"}
    own = made(settings, max_offsets_per_trigger=7, min_partitions=9)
    assert own == {**PLAIN, "maxOffsetsPerTrigger": "7", "minPartitions": "9"}


def test_data_loss_may_be_accepted_by_name() -> None:
    assert made(fail_on_data_loss=False) == {**PLAIN, "failOnDataLoss": "false"}


def test_client_options_are_prefixed_and_win_over_ours_but_the_address_is_the_one_in_force() -> None:
    client = {
        "security.protocol": "SSL",
        "isolation.level": "read_uncommitted",
        "bootstrap.servers": "elsewhere:1",
    }
    assert made(client=client) == {
        **PLAIN,
        "kafka.security.protocol": "SSL",
        "kafka.isolation.level": "read_uncommitted",
    }


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("auto.offset.reset", "use starting_offsets instead"),
        ("enable.auto.commit", "Spark keeps the offsets"),
        ("key.deserializer", "bronze keeps raw bytes"),
        ("value.deserializer", "bronze keeps raw bytes"),
        ("interceptor.classes", "refuses it"),
        ("kafka.security.protocol", "write it without 'kafka.': 'security.protocol'"),
    ],
)
def test_a_client_option_that_would_break_the_source_is_refused_where_it_is_declared(
    option: str, why: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        Topic("orders", kafka={option: "x"})
    assert repr(option) in str(refused.value)
    assert why in str(refused.value)
    assert "bronze.orders" in str(refused.value)
