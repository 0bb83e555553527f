"""Rows for tables that are to be large before anything is measured: made by number, at native speed.

Each function gives rows ``first`` to ``first + count`` of an endless table, in the columns and types of a
schema. Their keys ascend, so a file has a range of them, as clustering and maintenance leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.bench.data.events import Batch, Stream

Rows = Callable[[pa.Schema, int, int], pa.Table]

_START = 1_735_689_600_000_000  # 2025-01-01, microseconds
_SECOND = 1_000_000


def bronze_rows(schema: pa.Schema, first: int, count: int) -> pa.Table:
    """Records of the same few thousand messages, over and over, under offsets of their own."""
    return bronze_of(schema, _messages(count), first)


def bronze_of(
    schema: pa.Schema, batch: Batch, first: int | None = None, kafka_ms: int | None = None
) -> pa.Table:
    """The messages of a batch as bronze has them.

    Args:
        schema: Of bronze.
        batch: What was sent.
        first: Its first offset; unset: the number of its first message.
        kafka_ms: When Kafka took them, milliseconds since 1970; unset: when they were to be sent.
    """
    begin = int(batch.number[0]) if first is None else first
    sent = batch.sent_at if kafka_ms is None else np.full(len(batch), kafka_ms * 1000)
    return _table(
        schema,
        {
            "topic": pa.repeat("past", len(batch)),
            "partition": np.zeros(len(batch), dtype=np.int32),
            "offset": np.arange(begin, begin + len(batch)),
            "kafka_timestamp": sent,
            "kafka_timestamp_type": np.zeros(len(batch), dtype=np.int32),
            "ingested_at": sent,
            "key": batch.keys(),
            "value": batch.values(),
        },
    )


def silver_rows(schema: pa.Schema, first: int, count: int, *, later: int = 0) -> pa.Table:
    """Events of users ``first`` and on, one each, so many seconds later than the first of all."""
    number = np.arange(first, first + count)
    at = np.full(count, _START + later * _SECOND)
    return _table(
        schema,
        {
            **_event(number, later, at),
            "kind": pa.repeat("order", count),
            "quantity": np.ones(count, dtype=np.int32),
            "country": pa.repeat("DE", count),
            "_kafka_topic": pa.repeat("past", count),
            "_kafka_partition": np.zeros(count, dtype=np.int32),
            "_kafka_offset": number + later * 10_000_000,
            "_kafka_timestamp": at,
            "_ingested_at": at,
        },
    )


def latest_rows(schema: pa.Schema, first: int, count: int) -> pa.Table:
    """The newest event of users ``first`` and on, in gold's columns."""
    at = np.full(count, _START)
    number = np.arange(first, first + count)
    coordinates = {name: _kafka(name, number, at) for name in schema.names if name.startswith("_")}
    return _table(schema, {**_event(number, 0, at), **coordinates})


def _kafka(name: str, number: NDArray[np.int64], at: NDArray[np.int64]) -> Any:
    found: dict[str, Any] = {
        "_kafka_topic": pa.repeat("past", len(number)),
        "_kafka_partition": np.zeros(len(number), dtype=np.int32),
        "_kafka_offset": number,
        "_kafka_timestamp": at,
    }
    return found[name]


def _event(number: NDArray[np.int64], later: int, at: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "event_id": [f"e{later:06x}{user:010x}" for user in number.tolist()],
        "event_time": at,
        "sent_at": at,
        "product": [f"p{user % 5_000:04}" for user in number.tolist()],
        "cents": 10_000 + number % 90_000,
        "user_id": number,
    }


@cache
def _messages(count: int) -> Batch:
    return Stream(duplicates=0.0, late=0.0, malformed=0.0).batch(0, count)


def _table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """Columns in a schema's order and types; those that are not given are null."""
    length = max(len(column) for column in columns.values())
    missing = set(columns) - set(schema.names)
    made = [
        _array(columns[field.name], field.type) if field.name in columns else pa.nulls(length, field.type)
        for field in schema
        if field.name not in missing
    ]
    return pa.Table.from_arrays(made, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array.cast(kind)
