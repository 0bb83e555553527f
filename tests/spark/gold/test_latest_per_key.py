"""One row per key by a total order: whatever order the rows come in, the same row wins."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from common.declare.row_order import COORDINATES, total_order
from common.rows.latest_in_spark import latest_per_key

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(microseconds=1)
SCHEMA = (
    "k string, k2 int, v bigint, w bigint, note string,"
    "_kafka_timestamp timestamp, _kafka_topic string, _kafka_partition int, _kafka_offset bigint"
)

# Per key from the oldest to the newest: the last one is the one kept.
VERSIONS: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {
    ("highest v", 1): [(1, 9, NOON, "t", 0, 9), (2, 1, NOON, "t", 0, 1)],
    ("null v lowest", 1): [(None, 9, LATER, "t", 9, 9), (-5, None, NOON, "t", 0, 0)],
    ("then w", 1): [(2, None, LATER, "t", 0, 9), (2, 1, LATER, "t", 0, 2), (2, 3, NOON, "t", 0, 1)],
    ("then Kafka's time", 1): [(2, 3, NOON, "z", 9, 9), (2, 3, LATER, "t", 0, 1)],
    ("then topic", 1): [(2, 3, NOON, "s", 9, 9), (2, 3, NOON, "t", 0, 1)],
    ("then partition", 1): [(2, 3, NOON, "t", 1, 99), (2, 3, NOON, "t", 10, 1)],
    ("then offset", 1): [(2, 3, NOON, "t", 0, 9), (2, 3, NOON, "t", 0, 10)],
    ("all null", 1): [(None, None, None, "t", 0, 0), (None, None, None, "t", 0, 1)],
    (None, 1): [(1, 1, NOON, "t", 0, 0), (2, 1, NOON, "t", 0, 1)],
    (None, None): [(1, 1, NOON, "t", 0, 2), (3, 1, NOON, "t", 0, 3)],
    ("", None): [(1, 1, NOON, "t", 0, 4), (4, 1, NOON, "t", 0, 5)],
}


def test_the_last_of_each_key_wins_in_any_order_of_arrival(spark: Any) -> None:
    rows = [
        (*key, v, w, f"{at} of {len(versions)}", *coordinates)
        for key, versions in VERSIONS.items()
        for at, (v, w, *coordinates) in enumerate(versions, 1)
    ]
    order = total_order(["v", "w"])
    for seed in (1, 2):
        random.Random(seed).shuffle(rows)  # noqa: S311
        frame = spark.createDataFrame(rows, SCHEMA).repartition(3)
        found = latest_per_key(frame, key=["k", "k2"], order=order)
        assert found.columns == frame.columns
        kept = {
            (row["k"], row["k2"]): (row["note"], row["v"], row["_kafka_offset"]) for row in found.collect()
        }
        assert kept == {
            key: (f"{len(versions)} of {len(versions)}", versions[-1][0], versions[-1][-1])
            for key, versions in VERSIONS.items()
        }


def test_the_order_ends_with_the_coordinates_and_names_none_twice() -> None:
    assert total_order(["v"]) == ("v", *COORDINATES)
    assert total_order(["_kafka_offset", "v"]) == (
        *("_kafka_offset", "v", "_kafka_timestamp", "_kafka_topic", "_kafka_partition"),
    )
