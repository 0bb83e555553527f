"""Micro-batches of bronze.orders with the metadata that a real one has, for tests that count its offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from bronze.digest import HASH, entry, row_hash
from bronze.table import PROPERTIES, SCHEMA
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from tests.support.engine import Engine

EVENING = datetime(2026, 3, 1, 22, tzinfo=UTC)
"""Kafka's time of every record."""


def append_batch(
    engine: Engine,
    number: int,
    values: Mapping[int, Sequence[bytes | None]],
    ends: dict[int, int],
    read_at: datetime = EVENING,
    *,
    has_digest: bool = False,
) -> None:
    """Append the micro-batch of this number, which bronze read at a time.

    Args:
        engine: The pipeline's tables.
        number: Id of the micro-batch.
        values: By partition, the values that come one after the other.
        ends: By partition, the next offset; goes on.
        read_at: When bronze read the records.
        has_digest: Whether the commit has the digest of its rows, as where the driver writes them.
    """
    path = engine.path("bronze.orders")
    delta_table.ensure(engine.spark, "bronze.orders", path, SCHEMA, PROPERTIES)
    rows = []
    for partition, each in values.items():
        for value in each:
            rows.append(("t", partition, ends[partition], EVENING, 0, read_at, b"k", value, None))
            ends[partition] += 1
    positions = ({"t": {str(partition): end for partition, end in ends.items()}},)
    batch = MicroBatch("shop", "bronze.orders", "b", number, positions, is_first=False)
    frame = engine.spark.createDataFrame(rows, SCHEMA).coalesce(1)
    if has_digest:
        digest = entry(frame.select(row_hash()).toArrow()[HASH], round(read_at.timestamp() * 1000))
        batch = replace(batch, facts=digest)
    delta_table.append(frame, path, batch, "append", {})
