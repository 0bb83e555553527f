"""When unread data is deleted, worked out by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from orchestration.observe.status.time_to_loss import Unread, in_delta, in_kafka

AT = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = {"retention.ms": 3_600_000, "retention.bytes": -1, "cleanup.policy.delete": 1}
SIZE = {"retention.ms": -1, "retention.bytes": 10**9, "cleanup.policy.delete": 1}


@pytest.mark.parametrize(
    ("unread", "seconds"),
    [
        (Unread(6_000, 600, 0.0), 3_000),  # nothing is read: the rest of the hour
        (Unread(6_000, 600, 5.0), 6_000),  # read half as fast as written: the age grows half as fast
        (Unread(6_000, 600, 10.0), math.inf),  # as fast as written
        (Unread(6_000, 600, 50.0), math.inf),
        (Unread(6_000, 4_000, 1.0), 0.0),  # older than the retention already
        (Unread(0, 0, 0.0), math.inf),  # nothing is unread
    ],
)
def test_kafkas_retention_by_time(unread: Unread, seconds: float) -> None:
    assert in_kafka(unread, HOUR, None, "orders").seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kept", "rate", "seconds"),
    [
        (None, 0.0, math.inf),  # the partition has not deleted anything yet
        (4_000, 0.0, 400),  # deleted as fast as written: 10 records a second
        (4_000, 5.0, 800),
        (4_000, 10.0, math.inf),
        (0, 0.0, 0.0),
        (-1, 0.0, 0.0),  # the oldest unread record is gone
    ],
)
def test_kafkas_retention_by_size(kept: int | None, rate: float, seconds: float) -> None:
    assert in_kafka(Unread(6_000, 600, rate), SIZE, kept, "orders").seconds == pytest.approx(seconds)


def test_the_limit_that_comes_first_counts_and_is_named() -> None:
    both = {**HOUR, "retention.bytes": 10**9}
    assert in_kafka(Unread(6_000, 600, 0.0), both, 4_000, "orders").cause == "retention.bytes of topic orders"
    assert in_kafka(Unread(6_000, 600, 0.0), both, 90_000, "orders").cause == "retention.ms of topic orders"


def test_a_compacted_topic_deletes_nothing_by_age() -> None:
    compacted = {**HOUR, "cleanup.policy.delete": 0}
    assert in_kafka(Unread(6_000, 600, 0.0), compacted, None, "orders").is_never


def test_an_unknown_retention_is_not_never() -> None:
    assert in_kafka(Unread(6_000, 600, 0.0), {}, None, "orders").seconds is None


def test_deltas_log_is_deleted_after_its_retention() -> None:
    properties = {"delta.logRetentionDuration": "interval 2 days"}
    loss = in_delta(Unread(100, 86_400, 0.0), None, properties, "bronze.orders", AT)
    assert (loss.seconds, loss.cause) == (86_400, "delta.logRetentionDuration of bronze.orders")


def test_a_vacuum_deletes_what_a_compaction_has_removed() -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 1 days"}
    removed_at = AT - timedelta(hours=6)
    loss = in_delta(Unread(100, 3 * 86_400, 0.0), removed_at, properties, "bronze.orders", AT)
    assert (loss.seconds, loss.cause) == (18 * 3_600, "delta.deletedFileRetentionDuration of bronze.orders")
    assert in_delta(Unread(100, 3 * 86_400, 0.0), None, properties, "b", AT).seconds == 27 * 86_400
