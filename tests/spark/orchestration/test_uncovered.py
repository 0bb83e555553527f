"""The records of bronze that no receipt is of: by ranges, of all topics of a name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from common.streaming.topic_identity import TOPICS, TopicState
from orchestration.access.kafka.receipts import Receipt
from orchestration.records.receipts.compare import BEGINNING, Generation, Start, uncovered

pytestmark = pytest.mark.long

FAR = 10**11
SECOND = TopicState("B", 2).coordinate("orders")
READ = {Generation("orders", "A", "orders"), Generation("orders", "B", SECOND)}
LAST = {
    "positions": [{"orders": {"0": FAR + 5, "1": 3}}],
    TOPICS: {"orders": {"id": "B", "generation": 2}},
}


def receipt(topic_id: str, *spans: tuple[int, int], partition: int = 0) -> Receipt:
    return Receipt("orders", partition, spans, "ab" * 32, "p", topic_id)


def test_records_without_a_receipt_are_counted_however_far_their_offsets_are(spark: Any) -> None:
    """Of a topic that was deleted, too; not what bronze has read since, and not those of other topics."""
    rows = [("orders", 0, offset) for offset in range(10)]
    rows += [(SECOND, 0, offset) for offset in (0, 7, FAR, FAR + 4, FAR + 5)]
    rows += [(SECOND, 1, 0), ("others", 0, 0)]
    dated = [(*row, datetime.fromtimestamp(row[2] % FAR, UTC)) for row in rows]
    schema = "topic string, partition int, offset bigint, kafka_timestamp timestamp"
    bronze = spark.createDataFrame(dated, schema)

    def told(*receipts: Receipt, start: Start = BEGINNING) -> list[str]:
        found = uncovered(spark, start.within(bronze), receipts, LAST, READ)
        assert [one.oldest for one in found] == [
            datetime.fromtimestamp(one.first % FAR, UTC) for one in found
        ]
        return [str(one) for one in found]

    assert told() == [
        "orders/0: 10, offsets 0 to 9",
        f"{SECOND}/0: 4, offsets 0 to {FAR + 4:,}",
        f"{SECOND}/1: 1, offsets 0 to 0",
    ]
    assert told(start=Start("", {("orders", 0): 6, (SECOND, 0): FAR + 1, (SECOND, 1): 1})) == [
        "orders/0: 4, offsets 6 to 9",
        f"{SECOND}/0: 1, offsets {FAR + 4:,} to {FAR + 4:,}",
    ]
    of_both = receipt("", (0, 6))  # a producer that does not know the topic's id
    assert told(of_both, receipt("A", (7, 9)), receipt("B", (FAR, FAR + 3), (FAR + 4, FAR + 9))) == [
        f"{SECOND}/0: 1, offsets 7 to 7",
        f"{SECOND}/1: 1, offsets 0 to 0",
    ]
    assert (
        told(receipt("A", (0, 9)), receipt("B", (0, 7), (FAR, FAR + 4)), receipt("B", (0, 0), partition=1))
        == []
    )
