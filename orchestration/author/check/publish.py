"""Faults of publications, and of tables that a function writes, that are known before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from common.declare import (
    Aggregate,
    Avro,
    Custom,
    FileSink,
    Gold,
    Join,
    KafkaSink,
    Pipeline,
    Protobuf,
    Publish,
    Silver,
)
from common.declare.declared import source_of
from common.declare.field_types import named
from common.errors import Fault, PipelineError, Problem, SqlError
from common.schema.ddl import DdlError, Field, parse
from common.schema.sent import CHANGE, column_faults, sent_fields
from common.sql.expression import Path, analyze
from orchestration.author.check.expression import result, row_faults
from orchestration.author.check.names import each, name_faults, references
from orchestration.author.check.visible_columns import Scope


def publish_problems(pipeline: Pipeline, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    """Problems of publications whose tables exist (``orchestration.access.declaration.lineage``)."""
    for publish in pipeline.publish:
        source = source_of(publish)
        yield from _feed_problems(pipeline, publish)
        yield from unused_order(publish)
        if isinstance(publish.to, KafkaSink) and not publish.to.kafka:
            topics = {name for topic in pipeline.bronze for name in topic.topic_names}
            if publish.to.topic in topics:
                loop = Fault(
                    "MED-1302",
                    f"sends to topic {publish.to.topic!r}, which the pipeline itself reads: the rows would "
                    "come in again, without end; send to another topic",
                )
                yield Problem(publish.table, loop, source)
        seen = scopes.get(publish.reads, Scope(publish.reads, None))
        if publish.where is not None:
            yield from each(f"{publish.table}, where", _where_faults(publish.where, seen), source)
        columns = named(publish.columns) if publish.columns is not None else None
        for name, sql in (columns or {}).items():
            yield from each(f"{publish.table}, column {name!r}", row_faults(sql, seen), source)
        if columns is not None:
            sent = Scope("the published row", tuple(result(sql, name, seen) for name, sql in columns.items()))
        else:
            sent = seen
        if isinstance(publish.to, KafkaSink):
            for argument, text in message_texts(publish.to):
                yield from each(f"{publish.table}, {argument}", row_faults(text, sent), source)
            yield from _format_problems(publish, publish.to, sent)
        if isinstance(publish.to, FileSink):
            yield from each(publish.table, _file_faults(publish, seen, pipeline), source)
    yield from _folder_problems(pipeline)


def _where_faults(where: str, seen: Scope) -> Iterator[str]:
    """Faults of the condition that decides which rows are sent."""
    faults = tuple(row_faults(where, seen))
    yield from faults
    kind = result(where, "where", seen).type
    if not faults and kind not in {"", "boolean"}:
        yield Fault("MED-1207", f"is of type {kind}, not boolean; write a condition such as amount > 0")


_COMPOUND = {"array", "map", "struct", "variant"}


def _file_faults(publish: Publish, seen: Scope, pipeline: Pipeline) -> Iterator[str]:
    """Faults of files that rows are written to."""
    assert isinstance(publish.to, FileSink)  # noqa: S101  # for the type checker
    columns = named(publish.columns) if publish.columns is not None else {}
    fields = [result(sql, name, seen) for name, sql in columns.items()] or seen.fields or ()
    if publish.to.format == "csv":
        for field in fields:
            if field.kind in _COMPOUND:
                yield Fault(
                    "MED-1207",
                    f"column {field.name!r} is of type {field.kind}, which no field of CSV has: send "
                    f"to_json({field.name}) or fields of it in columns, or write another format",
                )
    for files in pipeline.files:
        path = PurePosixPath(publish.to.folder)
        if files.only is None and (path == PurePosixPath(files.folder) or path.is_relative_to(files.folder)):
            yield Fault(
                "MED-1302",
                f"writes to {publish.to.path}, and {files.table} reads all files below {files.path}: the "
                "rows would come in again, without end; write to another folder",
            )


def message_texts(sink: KafkaSink) -> Iterator[tuple[str, str]]:
    """The expressions of a message, each with its argument."""
    for argument in ("key", "value", "partition"):
        if isinstance(text := getattr(sink, argument), str):
            yield argument, text
    for name, text in (named(sink.headers) if sink.headers is not None else {}).items():
        yield f"header {name!r}", text


def _format_problems(publish: Publish, sink: KafkaSink, sent: Scope) -> Iterator[Problem]:
    """Problems of schemas by which messages are written."""
    formats = {
        part: one for part in ("key", "value") if isinstance(one := getattr(sink, part), Avro | Protobuf)
    }
    fields: dict[str, tuple[Field, ...]] = {}
    for part, one in formats.items():
        try:
            fields[part] = sent_fields(one)
        except PipelineError as error:
            place = f"{publish.table}, {part}"
            yield from (replace(found, place=place) for found in error.problems)
    names = {field.name for field in fields.get("value", ())}
    if names and CHANGE not in names and publish.deletes and sink.key is None:
        text = (
            "deletes=True sends a deleted row as a message without a value, whose key tells the row: give "
            f"key=…, or the schema a field {CHANGE!r}"
        )
        yield Problem(publish.table, Fault("MED-1105", text), source_of(publish))
    if sent.fields is None or fields.keys() != formats.keys():
        return
    columns = [*(field.name for field in sent.fields), *([CHANGE] if publish.deletes else [])]
    elsewhere = [path[0] for _, text in message_texts(sink) for path in _columns(text)]
    yield from each(publish.table, column_faults(columns, fields, elsewhere), source_of(publish))


def _columns(text: str) -> Sequence[Path]:
    try:
        return analyze(text).columns
    except SqlError:
        return ()  # told by row_faults


def _folder_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Problems of folders to which two publications write."""
    writers: dict[str, str] = {}
    for publish in pipeline.publish:
        if isinstance(publish.to, FileSink):
            other = writers.setdefault(publish.to.folder, publish.table)
            if other != publish.table:
                text = f"writes to {publish.to.path}, as {other} does; name a folder for each publication"
                yield Problem(publish.table, Fault("MED-1105", text), source_of(publish))


def storage_problems(declared: Silver | Gold, scopes: Mapping[str, Scope]) -> Iterator[Problem]:
    """Problems of ``storage`` that names columns which the table does not have."""
    custom = declared.tables if isinstance(declared, Custom) else ()
    for table in [f"gold.{name}" for name in custom] or (declared.table,):
        scope = scopes.get(table, Scope(table, None))
        for argument in ("cluster_by", "partition_by"):
            wanted = getattr(declared.storage, argument) or ()
            faults = references(f"storage, {argument}", wanted, scope)
            yield from each(table, faults, source_of(declared))


def custom_problems(gold: Custom) -> Iterator[Problem]:
    """Problems of the columns that a ``Custom`` declares for its tables."""
    for name, text in gold.tables.items():
        yield from ddl_problems(f"{gold.table}, tables {name!r}", text, source_of(gold))


def ddl_problems(place: str, text: str, source: str) -> Iterator[Problem]:
    """Problems of the columns of a table that a declaration gives as DDL text."""
    try:
        fields = parse(text)
    except DdlError as error:
        yield from each(place, (Fault("MED-1401", fault) for fault in error.faults), source)
        return
    yield from each(place, name_faults(field.name for field in fields), source)


def custom_scopes(gold: Custom) -> Mapping[str, Scope]:
    """The columns of the tables of a ``Custom``."""
    return {f"gold.{name}": Scope(f"gold.{name}", ddl_fields(text)) for name, text in gold.tables.items()}


def ddl_fields(text: str) -> tuple[Field, ...] | None:
    """The columns of a DDL text; None where it is not one."""
    try:
        return parse(text)
    except DdlError:
        return None


def _feed_problems(pipeline: Pipeline, publish: Publish) -> Iterator[Problem]:
    gold = next((one for one in pipeline.gold if publish.reads in {one.table, *one.side_tables}), None)
    silver = next((one for one in pipeline.silver if one.table == publish.reads), None)
    replaced = silver is not None and silver.keep == "newest"
    if publish.reading.changes == "appends" and (replaced or (gold is not None and changes_rows(gold))):
        text = Fault(
            "MED-1305",
            f"reads appends of {publish.reads}, whose rows are replaced: micro-batches that replace a row "
            "would not be sent at all. Leave reading out",
        )
        yield Problem(publish.table, text, source_of(publish))
    elif gold is not None and not gold.storage.change_feed and changes_rows(gold):
        text = Fault(
            "MED-1305",
            f"reads {publish.reads}, whose rows change, and which keeps no change data feed: give it "
            "storage=Storage(change_feed=True)",
        )
        yield Problem(publish.table, text, source_of(publish))


def unused_order(reader: Gold | Publish) -> Iterator[Problem]:
    """An order by event time for a query that no order of its rows makes another."""
    if reader.reading.event_time_order and (isinstance(reader, Publish) or not reader.reads_in_order):
        text = "reading has event_time_order, which is for tables with a watermark; leave it out"
        yield Problem(reader.table, Fault("MED-1105", text), source_of(reader))


def changes_rows(gold: Gold) -> bool:
    """Whether rows of the table are updated or deleted in normal operation."""
    if isinstance(gold, Aggregate):
        return gold.mode != "append"
    if isinstance(gold, Join):
        return gold.mode == "recompute"
    return True
