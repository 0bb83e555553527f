"""Which bronze table reads a record of a case. Pure."""

from __future__ import annotations

import re

from common.declare import Bronze, Pipeline
from common.errors import Problem, nearest
from orchestration.author.cases.read.case import Record


def topic_of(record: Record, pipeline: Pipeline) -> tuple[Bronze, str] | None:
    """The bronze table that reads a record, and the record's topic; None if no table does."""
    if record.topic is None:
        only = pipeline.bronze[0]
        return (only, only.topic_names[0]) if len(pipeline.bronze) == 1 and only.topic_names else None
    for topic in pipeline.bronze:
        if record.topic in topic.topic_names:
            return topic, record.topic
        if topic.pattern is not None and re.fullmatch(topic.pattern, record.topic):
            return topic, record.topic
        if record.topic == topic.table and topic.topic_names:
            return topic, topic.topic_names[0]
    return None


def topic_problem(record: Record, pipeline: Pipeline, case: str) -> Problem | None:
    """What is wrong with the topic of a record."""
    if topic_of(record, pipeline) is not None:
        return None
    known = [name for topic in pipeline.bronze for name in (*topic.topic_names, topic.table)]
    text = (
        f"needs a topic: the pipeline reads {', '.join(topic.table for topic in pipeline.bronze)}"
        if record.topic is None
        else f"no bronze table reads topic {record.topic!r}; {nearest(record.topic, known)}"
    )
    return Problem(case, text, str(record.place or ""))
