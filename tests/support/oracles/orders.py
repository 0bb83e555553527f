"""The small shop whose orders the broker's tests send: one topic, one silver table, and what a test adds."""

from __future__ import annotations

from typing import Any

from common.declare import Json, Pipeline, Silver, Topic


def orders_pipeline(topic: str, *, gold: tuple[Any, ...] = (), publish: Any = (), **silver: Any) -> Pipeline:
    """Bronze and silver of a topic of ``{"id": int, "ms": milliseconds since 1970}``.

    Args:
        topic: The topic.
        gold: Gold tables.
        publish: Gold tables that are sent on.
        silver: Attributes of the silver table that differ; the watermark is 7 days.
    """
    given = {
        "value": Json("id int, ms bigint"),
        "columns": {"id": "id", "ordered_at": "timestamp_millis(ms)"},
        "key": ["id"],
        "event_time": "ordered_at",
        "watermark": "7 days",
    }
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[Silver("orders", reads="bronze.orders", **given | silver)],
        gold=gold,
        publish=publish,
    )
