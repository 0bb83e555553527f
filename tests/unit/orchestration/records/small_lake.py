"""A bronze table, a silver table and gold tables of a few rows, written without the engine.

The commits carry what the engine's would: the offsets that were read, the position in bronze, the counts, and
the version of silver that gold has read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Pipeline
from common.delta.lease.release import own_release
from silver.judge.reasons_and_verdict import RELEASE
from tests.conftest import make_settings

SENT = datetime(2026, 3, 1, 22, tzinfo=UTC)
"""Kafka's time of every record, and that at which bronze read it."""
COORDINATES = {
    "_kafka_topic": pa.string(),
    "_kafka_partition": pa.int32(),
    "_kafka_offset": pa.int64(),
    "_kafka_timestamp": pa.timestamp("us", "UTC"),
}
_BRONZE = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "kafka_timestamp": pa.timestamp("us", "UTC"),
    "kafka_timestamp_type": pa.int32(),
    "ingested_at": pa.timestamp("us", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
}
_KEPT = {"delta.deletedFileRetentionDuration": "interval 0 hours"}


@dataclass
class SmallLake:
    """The tables of a pipeline with the topic ``t``.

    Attributes:
        pipeline: The pipeline.
        folder: Where they are.
    """

    pipeline: Pipeline
    folder: Path
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        """Find the paths of the tables."""
        self.layout = Layout.of(self.pipeline, make_settings(self.folder, "none:1"))

    def bronze(self, values: Sequence[bytes | None]) -> None:
        """Write all records of the topic's one partition, as one micro-batch."""
        rows = [
            dict(zip(_BRONZE, ("t", 0, offset, SENT, 0, SENT, b"k", value), strict=True))
            for offset, value in enumerate(values)
        ]
        told = {"step": "append", "counts": {}, "positions": [{"t": {"0": len(values)}}]}
        self.commit("bronze.orders", pa.Table.from_pylist(rows, pa.schema(list(_BRONZE.items()))), told)

    def silver(self, rows: Mapping[int, Mapping[str, Any]], kinds: Mapping[str, Any], **counts: int) -> None:
        """Write silver's rows by their offsets, as one micro-batch that has read all of bronze."""
        whole = [
            {**row, **dict(zip(COORDINATES, ("t", 0, offset, SENT), strict=True))} | {"_ingested_at": SENT}
            for offset, row in rows.items()
        ]
        names = {**kinds, **COORDINATES, "_ingested_at": COORDINATES["_kafka_timestamp"]}
        zeros = dict.fromkeys(("quarantined", "dropped", "tombstones", "duplicates", "late", "merged"), 0)
        told = {"step": "accepted", "counts": {**zeros, "accepted": len(rows), **counts}}
        told[RELEASE] = own_release()
        table = pa.Table.from_pylist(whole, pa.schema(list(names.items())))
        self.commit(
            self.pipeline.silver[0].table, table, told | {"positions": [self.position("bronze.orders")]}
        )

    def gold(self, name: str, rows: pa.Table, *, is_view: bool = False) -> None:
        """Write a gold table that has read all of silver."""
        silver = self.pipeline.silver[0].table
        counts = {"versions": {silver: self.version(silver)}} if is_view else {}
        told = {"step": "merge", "counts": counts, "positions": [self.position(silver)]}
        self.commit(f"gold.{name}", rows, told)

    def commit(self, table: str, rows: pa.Table, told: Mapping[str, Any]) -> None:
        """Write a table by one commit of its query."""
        own = {"pipeline": self.pipeline.name, "query": table, "query_id": "q", "batch_id": 0}
        properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(own | dict(told))})
        write_deltalake(
            self.layout.table_path(table), rows, commit_properties=properties, configuration=_KEPT
        )

    def position(self, table: str) -> dict[str, Any]:
        """The position after all that a table has."""
        at = {"sourceVersion": 1, "reservoirId": "t", "index": -1, "isStartingVersion": False}
        return at | {"reservoirVersion": self.version(table) + 1}

    def version(self, table: str) -> int:
        """The newest version of a table."""
        return int(DeltaTable(self.layout.table_path(table)).version())

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table."""
        found: list[dict[str, Any]] = DeltaTable(self.layout.table_path(table)).to_pyarrow_table().to_pylist()
        return found

    def overwrite(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write other rows, as another program would."""
        path = self.layout.table_path(table)
        schema = DeltaTable(path).to_pyarrow_table().schema
        write_deltalake(path, pa.Table.from_pylist(list(rows), schema), mode="overwrite")
