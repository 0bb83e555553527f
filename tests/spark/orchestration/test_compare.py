"""A silver table beside its shadow: which rows differ, and which are other copies of the same event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestration.change.rebuild.compare import compare
from tests.support.oracles.plan_shop import orders

pytestmark = pytest.mark.long

AT = datetime(2026, 1, 10, tzinfo=UTC)
COLUMNS = (
    "id string, amount int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint, "
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)


def row(key: str, amount: int, offset: int) -> tuple[Any, ...]:
    """A row of silver; each record came at a time of its own."""
    return (key, amount, "orders", 0, offset, AT.replace(second=offset), AT.replace(minute=offset))


def test_rows_are_new_gone_changed_or_another_copy(spark: Any, tmp_path: Path) -> None:
    live = [row("a", 1, 0), row("b", 1, 1), row("c", 1, 2), row("d", 1, 3), row("e", 1, 5), row("e", 1, 6)]
    shadow = [row("a", 1, 0), row("b", 1, 11), row("c", 2, 2), row("f", 1, 4), row("e", 1, 7)]
    live.append(row("g", 1, 8))
    shadow.append((*live[-1][:5], live[-1][5] + timedelta(microseconds=1), live[-1][6]))
    for name, rows in (("live", live), ("shadow", shadow)):
        frame = spark.createDataFrame(rows, COLUMNS)
        for table in ("silver.orders", "silver.orders__quarantine"):
            frame.write.format("delta").save(f"{tmp_path}/{name}/{table}")
    tables = ("silver.orders", "silver.orders__quarantine")
    paths = {name: {table: f"{tmp_path}/{name}/{table}" for table in tables} for name in ("live", "shadow")}
    new = {table: spark.read.format("delta").load(path) for table, path in paths["shadow"].items()}
    found = compare(spark, orders(), paths["live"], new)
    assert (found.live["silver.orders"], found.shadow["silver.orders"]) == (7, 6)
    # b and one of the two e: each table has them once, of another record.
    assert (found.added, found.removed, found.changed, found.copies) == (1, 2, 2, 2)
    assert not found.is_equal
    assert found.checksums[0] != found.checksums[1]
    assert {2, 3, 4, 8} <= {shown["_kafka_offset"] for shown in found.sample} <= {*range(2, 9)}
    assert compare(spark, orders(), paths["shadow"], new).is_equal
