"""Which row of a key may stand for its duplicates: where the first is kept, one that came no later."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bronze.table import SCHEMA
from common.declare import Json, Silver
from orchestration.records.audit.duplicate_witness import bronze_keys, lone_rows, without_witness
from orchestration.records.audit.offset_ranges import BatchRange
from orchestration.records.audit.other_records import Decision

pytestmark = pytest.mark.long

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp"),
    columns=["id", "at"],
    key=["id"],
    event_time="at",
    watermark="1 hour",
    dedupe="exact",
)
COLUMNS = (
    "id string, at timestamp, _kafka_topic string, _kafka_partition int, _kafka_offset bigint, "
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)


def test_a_later_row_is_no_witness_of_an_earlier_record(spark: Any) -> None:
    """Unless its clock is behind or it is of another partition: nobody knows then which came first."""
    record = ("t", 0, 2, AT, 0, AT, b"k", b'{"id": "a", "at": "2026-03-01T12:00:00Z"}', None)
    bronze = spark.createDataFrame([record], SCHEMA)
    rest = bronze.select("topic", "partition", "offset")
    cases = [
        (0, 1, 0, True),
        (0, 4, 0, False),
        (0, 4, 1, False),
        (0, 4, -1, True),
        (1, 4, 1, True),
    ]
    for partition, offset, seconds, is_witness in cases:
        read_at = AT + timedelta(seconds=seconds)
        silver = spark.createDataFrame([("a", AT, "t", partition, offset, AT, read_at)], COLUMNS)
        for declared, is_ordered in ((FIRST, True), (FIRST, False), (replace(FIRST, keep="newest"), True)):
            keys = bronze_keys(bronze, rest, declared, Decision(), is_ordered=is_ordered)
            found = not without_witness(keys, [silver], declared).count()
            split = not without_witness(keys, [silver], declared, is_split=True).count()
            newest = (AT, "t", partition, offset) >= (AT, "t", 0, 2)
            wanted = newest if declared.keep == "newest" else is_witness or not is_ordered
            assert split == (wanted or (seconds == 0 and declared.keep == "first"))
            assert found == wanted, (partition, offset, seconds, declared.keep, is_ordered)


def test_a_row_of_a_later_micro_batch_is_no_witness_of_an_earlier_record(spark: Any) -> None:
    """In one micro-batch any row of a key may stay; nothing is said of one that is not known."""
    record = ("t", 0, 2, AT, 0, AT, b"k", b'{"id": "a", "at": "2026-03-01T12:00:00Z"}', None)
    bronze = spark.createDataFrame([record], SCHEMA)
    declared = replace(FIRST, dedupe="within_watermark")
    rest = bronze.select("topic", "partition", "offset")
    keys = bronze_keys(bronze, rest, declared, Decision(), is_ordered=True)
    batches = [BatchRange("t", 0, 0, 3, 0), BatchRange("t", 0, 3, 6, 1), BatchRange("t", 0, 9, 12, 2)]
    cases = [(1, 0, batches, True), (3, 1, batches, False), (3, 0, batches, True), (6, 1, batches, True)]
    cases += [(10, 1, batches, False), (3, 1, [BatchRange("t", 0, 0, 6, 0)], True)]
    for offset, seconds, known, is_witness in cases:
        read_at = AT + timedelta(seconds=seconds)
        silver = spark.createDataFrame([("a", AT, "t", 0, offset, AT, read_at)], COLUMNS)
        other = spark.createDataFrame([("b", AT, "t", 0, 1, AT, AT)], COLUMNS)
        for accepted in ([silver, None], [other, silver], [other.limit(0), other.union(silver)]):
            with lone_rows(keys, accepted, declared, 1, False, known) as lone:
                assert bool(lone.count) == (not is_witness), (offset, seconds, len(known))
