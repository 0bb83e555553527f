"""New rows of a table sent on: to a topic, to files, to a function or an object of the user, to the terminal.

A micro-batch that is replayed is sent again: a row comes at least once, in files once, and a function gets a
token by which it can tell. No table is written. The changes of a key are sent in the order of the table's
versions, and of one version first what it takes away.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, VariantType

from common.config.kafka_login import java_options
from common.config.object_store import require_jars
from common.declare import BatchSink, ConsoleSink, FileSink, ForeachSink, KafkaSink, MemorySink, Publish
from common.declare.declared import source_of
from common.declare.field_types import named
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint, delta_position
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import Fault, PipelineError, Problem
from common.machine.storage_folder import StorageFolder
from common.machine.terminal import visible
from common.rows.spark_rows import BytesRead, SparkRows
from common.spark.types import contains_type
from common.sql.expression import analyze
from common.streaming.query import Stream
from gold.publish.encoded import encoded, framing
from gold.publish.file_sink import write_files
from gold.source.foreign_appends import refuse_foreign_appends
from gold.source.stream import CHANGE, FEED_COLUMNS, REMOVED, VERSION, keeps_feed
from gold.source.stream import stream as table_stream
from gold.table.context import Context
from gold.table.identity import identity
from gold.table.own_code import send_to_workers
from gold.table.sql_columns import columns, each, misfit

_PLACE = "__place"
"""Beside what is sent of a feed: where the change stands among the others of its row."""

_HEADER = "header "
"""What begins the names of the columns with the values of headers."""

_NESTED = (StructType, ArrayType, MapType, BinaryType, VariantType)
"""Types of values that no CSV file can hold."""

_TOKENS = "medallion_tokens"
"""Name of the file in a publication's checkpoint with the number of the first token that names positions."""

_DIGITS = 16
_WIDTH = 60
"""Characters of a value on the terminal."""


def build_query(context: Context, publish: Publish, kafka: Mapping[str, str]) -> Stream:
    """The query of one publication.

    Args:
        kafka: Kafka client options of a KafkaSink, the address among them.

    Raises:
        ForeignChangeError: Another program has appended rows to the table, or brought some back.
        PipelineError: An expression does not fit the table's columns.
        TableShapeError: The table keeps no change data feed, and it is to be read.
    """
    rows = shaped(_changes(context, publish), publish, identity(context.pipeline, publish.reads))
    send: Callable[[DataFrame, MicroBatch], None]
    match publish.to:
        case FileSink() as files:
            require_jars(f"{publish.table} writes", files.path, context.settings)
            _require_flat(rows, publish, files)
            send = _to_files(context, files, context.checkpoint(publish))
        case BatchSink() as sink:
            send = _to_function(sink, context.checkpoint(publish))
        case MemorySink() as sink:
            send = _to_memory(sink)
        case KafkaSink() as sink:
            rows = messages(rows, publish, sink)
            send = _to_kafka(sink, kafka, framing(publish, sink, context.settings))
        case ForeachSink() as sink:
            send = _to_each(sink, context.checkpoint(publish))
        case ConsoleSink() as sink:
            send = _to_console(publish, sink)

    def write(sent: SparkRows, batch: MicroBatch) -> None:
        # The first state of a table has each row once.
        changes = sent.frame.drop(_PLACE) if batch.in_first_state() else in_order(sent.frame, publish)
        send(changes, batch)

    return refuse_foreign_appends(context, publish, context.query(publish, rows, write))


def shaped(rows: DataFrame, publish: Publish, key: Sequence[str]) -> DataFrame:
    """The changes of a table that are sent: new rows, and with ``deletes`` those that are there no more.

    Args:
        rows: The changes, with their kind; out of a feed also with their version.
        key: Columns that identify a row of the table, if they are known.

    Raises:
        PipelineError: An expression does not fit the table's columns.
    """
    kept = ["insert", "update_postimage"]
    if publish.deletes:
        # With a condition: also what a row was before an update, after which it may meet it no more.
        kept += ["delete"] if publish.where is None else [*REMOVED]
    sent = rows.where(F.col(CHANGE).isin(*kept))
    chosen = named(publish.columns) if publish.columns is not None else None
    own = [name for name in rows.columns if name not in FEED_COLUMNS]
    kind = F.when(F.col(CHANGE) == "update_preimage", "delete").otherwise(F.col(CHANGE))
    change = [kind.alias(CHANGE)] if publish.deletes else []
    place = [_place(rows, key)] if VERSION in rows.columns else []
    try:
        if publish.where is not None:
            sent = sent.where(F.expr(f"({publish.where})"))
        return sent.select(*(columns(chosen) if chosen is not None else own), *change, *place)
    except PySparkException as error:
        trials = each(chosen or {}, "column", rows.select)
        if publish.where is not None:
            trials.append(("where", lambda: rows.where(F.expr(f"({publish.where})"))))
        raise misfit(error, trials, publish.table, source_of(publish)) from error


def messages(rows: DataFrame, publish: Publish, sink: KafkaSink) -> DataFrame:
    """A row as key, value, headers and partition of a message; without a ``value`` it is a JSON object.

    Raises:
        PipelineError: An expression or a schema does not fit the columns that are sent.
    """
    own = [name for name in rows.columns if name != _PLACE]
    texts = {"key": sink.key, "value": sink.value, "partition": sink.partition}
    given = {name: sql for name, sql in texts.items() if isinstance(sql, str)}
    headers = named(sink.headers) if sink.headers is not None else {}
    elsewhere = [path[0] for sql in (*given.values(), *headers.values()) for path in analyze(sql).columns]
    parts = {"key": F.lit(None).cast("binary"), **_row_as_json(own, sink)}
    parts |= encoded(rows, own, publish, sink, elsewhere)
    parts |= {name: F.expr(f"({sql})") for name, sql in given.items()}
    parts |= {f"{_HEADER}{name}": F.expr(f"({sql})") for name, sql in headers.items()}
    place = [F.col(_PLACE)] if _PLACE in rows.columns else []
    try:
        message = rows.select(*(part.alias(name) for name, part in parts.items()), *place)
    except PySparkException as error:
        trials = [*each(given, "message", rows.select), *each(headers, "header", rows.select)]
        raise misfit(error, trials, publish.table, source_of(publish)) from error
    sent = [_bytes_or_text(message, name) for name in ("key", "value")]
    if headers:
        sent.append(F.array(*(_header(message, name) for name in headers)).alias("headers"))
    if sink.partition is not None:
        sent.append(F.col("partition").cast("int"))
    return message.select(*sent, *place)


def _row_as_json(columns: Sequence[str], sink: KafkaSink) -> Mapping[str, Column]:
    """The value of a message for which nothing is declared."""
    if sink.value is not None:
        return {}
    whole = F.struct(*(F.col(f"`{name}`") for name in columns))
    return {"value": F.to_json(whole, {"ignoreNullFields": "false"})}


def _header(message: DataFrame, name: str) -> Column:
    content = _bytes_or_text(message, f"{_HEADER}{name}").cast("binary")
    return F.struct(F.lit(name).alias("key"), content.alias("value"))


def _place(rows: DataFrame, key: Sequence[str]) -> Column:
    """Where a change stands among the others of its row: what ``in_order`` needs."""
    kinds = {field.name: field.dataType for field in rows.schema}
    known = all(name in kinds and not contains_type(kinds[name], MapType, VariantType) for name in key)
    return F.struct(
        *([F.struct(*(F.col(f"`{name}`") for name in key)).alias("row")] if key and known else []),
        F.col(VERSION).alias("version"),
        (~F.col(CHANGE).isin(*REMOVED)).alias("is_there"),
        (F.col(CHANGE) == "update_preimage").alias("is_before"),
    ).alias(_PLACE)


def in_order(changes: DataFrame, publish: Publish) -> DataFrame:
    """What is sent of a micro-batch, each key in the order in which the table has changed.

    A row that meets the condition before an update and after it is sent once, as it is after it. Where
    nothing is known to identify a row, its deletion is sent before.
    """
    if _PLACE not in changes.columns:
        return changes
    row, version, is_there = (f"{_PLACE}.{name}" for name in ("row", "version", "is_there"))
    is_known = "row" in changes.select(f"{_PLACE}.*").columns
    if is_known and publish.deletes and publish.where is not None:
        stays = F.bool_or(is_there).over(Window.partitionBy(row, version))
        changes = changes.withColumn("__stays", stays)
        changes = changes.where(f"NOT ({_PLACE}.is_before AND __stays)").drop("__stays")
    if isinstance(publish.to, KafkaSink) and publish.to.key is not None:
        parts = changes.repartition(F.col("key"))
    else:
        parts = changes.repartition(F.col(row)) if is_known else changes.repartition(1)
    return parts.sortWithinPartitions(version, is_there).drop(_PLACE)


def _bytes_or_text(rows: DataFrame, name: str) -> Column:
    plain = isinstance(rows.schema[name].dataType, (StringType, BinaryType))
    found = F.col(f"`{name}`")
    return found if plain else found.cast("string").alias(name)


def _changes(context: Context, publish: Publish) -> DataFrame:
    path = context.path(publish.reads)
    wanted = publish.reading.changes
    keeps = keeps_feed(context, path)
    if wanted == "feed" and not keeps:
        raise delta_table.change_feed_missing(publish.table, publish.reads, path)
    if wanted == "feed" or (keeps and wanted is None and is_feed_whole(path, context.checkpoint(publish))):
        return table_stream(context, publish, path, publish.reading, feed=True)
    return table_stream(context, publish, path, publish.reading).withColumn(CHANGE, F.lit("insert"))


def is_feed_whole(path: str, checkpoint: str) -> bool:
    """Whether a table's feed has all that a publication has yet to send: a start may just have turned it on.

    Until its rows are sent, the publication goes on reading what is added, as it did before.
    """
    done = Checkpoint(checkpoint)
    entry = done.planned_batch(done.last_committed())
    position = None if entry is None else delta_position(entry)
    if position is None:
        return True
    log = LogReader(path)
    unread = (log.commit(version) for version in range(position.version, (log.latest_version() or 0) + 1))
    return not any(one is not None and one.metadata.get(delta_table.BEGINS_FEED) for one in unread)


def _to_kafka(
    sink: KafkaSink, kafka: Mapping[str, str], framed: Callable[[DataFrame], DataFrame]
) -> Callable[[DataFrame, MicroBatch], None]:
    options = {f"kafka.{name}": value for name, value in java_options(kafka).items()}

    def send(rows: DataFrame, batch: MicroBatch) -> None:
        framed(rows).write.format("kafka").options(**options).option("topic", sink.topic).save()

    return send


def _to_files(context: Context, sink: FileSink, checkpoint: str) -> Callable[[DataFrame, MicroBatch], None]:
    def send(rows: DataFrame, batch: MicroBatch) -> None:
        limits = batch.limits(context.limits)
        write_files(SparkRows(rows, None, limits, BytesRead(rows)), batch, sink, checkpoint)

    return send


def _to_function(sink: BatchSink, checkpoint: str) -> Callable[[DataFrame, MicroBatch], None]:
    first = first_named(checkpoint)

    def send(rows: DataFrame, batch: MicroBatch) -> None:
        sink.write(rows, batch.batch_id, token(batch, is_named=batch.batch_id >= first))

    return send


def token(batch: MicroBatch, *, is_named: bool = True) -> str:
    """A text that a micro-batch has in each of its attempts, and no other rows have.

    It names the positions between which the micro-batch reads, and the last commits that it reads: with an
    older copy of a checkpoint or of the table, the same number comes again with other rows.

    Args:
        is_named: Whether it does; not so for one that an earlier version of the engine may have sent.
    """
    number = f"{batch.pipeline}/{batch.query}/{batch.query_id}/{batch.batch_id}"
    if not is_named:
        return number
    return f"{number}/{_digest(batch)[:_DIGITS]}"


def number_of_rows(batch: MicroBatch, *, is_named: bool = True) -> int:
    """As ``token``, a number of at most 63 bits: a later micro-batch has a greater one.

    The upper bits are the micro-batch's number, the lower 32 are of what its token names.
    """
    return (batch.batch_id << 32) | int(_digest(batch)[:8], 16) if is_named else batch.batch_id


def _digest(batch: MicroBatch) -> str:
    content = json.dumps([batch.before, batch.positions, batch.source_commits], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def first_named(checkpoint: str) -> int:
    """The first micro-batch of a publication whose token names its positions; noted in the checkpoint.

    One that is planned already may have been sent by an earlier version of the engine, with the token of its
    number alone.
    """
    folder = StorageFolder(checkpoint)
    content = folder.read(_TOKENS)
    if content is not None:
        # One that was cut off was written by this version all the same.
        return int(content) if content.isdigit() else 0
    planned = Checkpoint(checkpoint).last_planned()
    first = 0 if planned is None else planned + 1
    folder.write(_TOKENS, str(first).encode())
    return first


def _to_memory(sink: MemorySink) -> Callable[[DataFrame, MicroBatch], None]:
    def send(rows: DataFrame, batch: MicroBatch) -> None:
        sink.keep(batch.query_id, batch.batch_id, [row.asDict(recursive=True) for row in rows.collect()])

    return send


def _require_flat(rows: DataFrame, publish: Publish, sink: FileSink) -> None:
    """Refuse columns that no CSV file can hold."""
    nested = [one.name for one in rows.drop(_PLACE).schema if isinstance(one.dataType, _NESTED)]
    if sink.format == "csv" and nested:
        text = (
            f"a CSV file cannot hold {', '.join(nested)}: write to_json(…) or hex(…) in columns, or take "
            "format='jsonl' or 'parquet'"
        )
        raise PipelineError([Problem(publish.table, Fault("MED-1105", text), source_of(publish))])


def _to_each(sink: ForeachSink, checkpoint: str) -> Callable[[DataFrame, MicroBatch], None]:
    writer = sink.writer
    kind = writer if isinstance(writer, type) or not hasattr(writer, "process") else type(writer)
    send_to_workers(__name__, getattr(kind, "__module__", __name__))
    first = first_named(checkpoint)

    def send(rows: DataFrame, batch: MicroBatch) -> None:
        number = number_of_rows(batch, is_named=batch.batch_id >= first)
        rows.rdd.foreachPartition(lambda part: hand_over(writer, part, number))

    return send


def hand_over(writer: Any, rows: Iterable[Any], number: int) -> None:
    """Hand one partition of a micro-batch to a writer, as Spark's ``foreach`` does it.

    Where ``open`` returns ``False``, the partition's rows are left out; ``close`` gets the error, if any.
    """
    process = getattr(writer, "process", writer)
    task = TaskContext.get()
    opening, closing = getattr(writer, "open", None), getattr(writer, "close", None)
    wanted = opening is None or opening(0 if task is None else task.partitionId(), number) is not False
    error: BaseException | None = None
    try:
        if wanted:
            for row in rows:
                process(row)
    except BaseException as failed:
        error = failed
        raise
    finally:
        if closing is not None:
            closing(error)


def _to_console(publish: Publish, sink: ConsoleSink) -> Callable[[DataFrame, MicroBatch], None]:
    def send(rows: DataFrame, batch: MicroBatch) -> None:
        sys.stdout.write(f"{publish.table}, micro-batch {batch.batch_id}\n")
        # What ``show`` prints; a value must not control the terminal.
        sys.stdout.write(visible(cast("Any", rows)._show_string(sink.rows, _WIDTH)) + "\n")  # noqa: SLF001

    return send
