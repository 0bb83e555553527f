"""A pipeline whose silver table computes a value of any size: a record can be larger than the heap."""

from __future__ import annotations

HEAVY = """
from common.declare import Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="numbers",
    bronze=[Topic("numbers", topics=[{topic!r}])],
    silver=[
        Silver("numbers", reads="bronze.numbers", value=Json("id int"),
            columns={{"id": "id", "size": "size(sequence(1, id))", "sent_at": "_kafka.timestamp"}},
            key=["id"], event_time="sent_at", watermark="1 day")
    ],
)
"""
"""Source of the pipeline, with a place for the topic."""
