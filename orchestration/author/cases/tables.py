"""The tables of a case: those it may expect, those that read a record, and their typed columns. Pure."""

from __future__ import annotations

import re

from common.declare import Bronze, Columns, Json, Pipeline, Silver, Table
from common.declare.declared import copy_with, placed_like, source_of
from common.errors import PipelineError, Problem, nearest
from orchestration.author.cases.read.case import Record


def table_names(pipeline: Pipeline) -> tuple[str, ...]:
    """The tables of a pipeline with their side tables, in data order."""
    return tuple(name for table in pipeline.tables for name in (table.table, *table.side_tables))


def query_of(pipeline: Pipeline, name: str) -> Table | None:
    """The declaration of the query that writes a table; None for a table that no query writes."""
    tables = pipeline.tables
    return next((table for table in tables if name in (table.table, *table.side_tables)), None)


def unknown_table(pipeline: Pipeline, name: str) -> str:
    """The message for a table that the pipeline does not declare."""
    return f"the pipeline has no table {name!r}; {nearest(name, table_names(pipeline))}"


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


def with_json_values(pipeline: Pipeline) -> Pipeline:
    """The pipeline whose silver tables read JSON where they read typed columns; else the pipeline itself.

    A case gives typed columns as a JSON value, which is read as strictly as ``Json`` reads it.

    Raises:
        PipelineError: The types of the columns are not declared.
    """
    if not any(isinstance(silver.value, Columns) for silver in pipeline.silver):
        return pipeline
    tables, unknown = list[Silver](), list[Problem]()
    for silver in pipeline.silver:
        value = silver.value
        if not isinstance(value, Columns):
            tables.append(silver)
        elif value.schema is None:
            text = (
                "medallion test gives each column as JSON, and needs its type: name the columns, such as "
                'value=Columns("id bigint, at timestamp")'
            )
            unknown.append(Problem(f"{silver.table}, value", text, source_of(silver)))
        else:
            tables.append(copy_with(silver, value=placed_like(Json(value.schema), value)))
    if unknown:
        raise PipelineError(unknown)
    return copy_with(pipeline, silver=tables)
