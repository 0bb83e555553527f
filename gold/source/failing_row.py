"""Names what makes a micro-batch of a gold query fail: the part of its text, and a record by its coordinates.

The record is looked for once a micro-batch has failed: the part is computed again over the rows of each table
that has coordinates of records, so that an error concerns one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Aggregate, Custom, Gold, Stateful, View
from common.declare.author_texts import group_of, texts_of
from common.declare.declared import source_of
from common.declare.field_types import named
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import MedallionError, RowFailedError, SourceChangedError
from common.spark.jvm import try_eval
from common.streaming.query import Stream
from common.streaming.spark_errors import FailedQuery
from common.streaming.sql_failures import SqlFailure, explain_sql, sql_failure
from gold.source.stream import at_version
from gold.table.context import Context
from gold.table.identity import RECORD
from gold.table.sql_columns import meeting

_MOST_BYTES = 2 * 2**30
"""Tables with more bytes are not looked through: the search would take longer than a person waits."""

_CALL = re.compile(r"(\w+)\s*\((?:distinct\s+)?(.*)\)", re.IGNORECASE | re.DOTALL)
_TARGET = re.compile(r'cannot be (?:cast|converted) to "([^"]+)"')
_QUALIFIER = re.compile(r"(?<![\w.`'])([A-Za-z_]\w*)\.(?=[\w`])")
_SUMS = {"sum": "try_sum", "avg": "try_avg", "mean": "try_avg"}


def explain_failing_row(context: Context, gold: Gold, stream: Stream) -> Stream:
    """The stream, whose micro-batches raise RowFailedError where a row makes a text of the declaration fail.

    What Spark refuses in a micro-batch it has not refused of the tables as they were when the query was
    built: they may have other columns by now (SourceChangedError).

    Args:
        gold: The declaration; errors of a user's own code are left as they are.
    """
    if isinstance(gold, Custom | Stateful):
        return stream
    tables = gold.sources
    query = FailedQuery(gold.table, tables, (), stream.checkpoint, "", texts_of(gold), source_of(gold))
    query = replace(query, heals=stream.heals)
    built = _columns(context, tables)

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        try:
            stream.write(rows, batch)
        except (PySparkException, Py4JJavaError) as error:
            failure = sql_failure(error)
            if failure is None:
                raise
            if failure.is_refused:
                if _columns(context, tables) != built:
                    # Built again, it goes on, or is refused for what its table or its text lacks by now.
                    raise SourceChangedError(gold.table, failure.shown) from error
                raise explain_sql(query, failure) from error
            failed = explain_sql(query, failure)
            part = failed.part if isinstance(failed, RowFailedError) else ""
            raise explain_sql(query, failure, _record(context, gold, part, failure, batch)) from error

    return replace(stream, write=write)


def _columns(context: Context, tables: tuple[str, ...]) -> list[Mapping[str, str]]:
    return [delta_table.logged_types(context.path(table)) for table in tables]


def _record(context: Context, gold: Gold, part: str, failure: SqlFailure, batch: MicroBatch) -> str:
    """``topic/partition/offset`` of a record for which a part fails, and its table; empty if none is found.

    The search must not hide the failure.
    """
    try:
        for place, table in enumerate(gold.sources if part else ()):
            version = None if batch.failed_at_row else batch.source_version(place)
            rows = _rows(context, table, version)
            rows = rows if rows is None or isinstance(gold, View) else meeting(rows, gold.where)
            for found in () if rows is None else _failing(rows, part, failure, _keys(gold)):
                if (first := found.first()) is not None:
                    return f"{'/'.join(str(first[name]) for name in RECORD)} of {table}"
    except (PySparkException, Py4JJavaError, MedallionError, OSError):
        return ""
    return ""


def _rows(context: Context, table: str, version: int | None) -> DataFrame | None:
    """The rows of a table, if they have coordinates and are not too many."""
    path = context.path(table)
    known = LogReader(path).snapshot()
    if known is None or known.bytes > _MOST_BYTES:
        return None
    newest = context.spark.read.format("delta").load(path)
    rows = newest if version is None else at_version(context.spark, path, version)
    return rows if set(RECORD) <= set(rows.columns) else None


def _keys(gold: Gold) -> tuple[str, ...]:
    if isinstance(gold, View):
        return group_of(gold.statement)
    return tuple(named(gold.by or ()).values()) if isinstance(gold, Aggregate) else ()


def _failing(rows: DataFrame, part: str, failure: SqlFailure, keys: tuple[str, ...]) -> Iterator[DataFrame]:
    """The coordinates of rows for which a part fails, by each reading of the part that fits the table."""
    call = _CALL.fullmatch(part.strip())
    for alias in (*dict.fromkeys(_QUALIFIER.findall(part)), ""):
        frame = rows.alias(alias) if alias else rows
        try:
            if call is not None and call[1].lower() in _SUMS and failure.condition == "ARITHMETIC_OVERFLOW":
                yield _too_large(frame, call[1].lower(), call[2], keys)
            else:
                yield _throwing(frame, F.expr(f"({part})"))
        except PySparkException:
            if call is not None and (target := _TARGET.search(failure.message)) is not None:
                yield from _readable(frame, f"cast({call[2]} as {target[1]})")


def _readable(frame: DataFrame, text: str) -> Iterator[DataFrame]:
    try:
        yield _throwing(frame, F.expr(text))
    except PySparkException:
        return


def _throwing(rows: DataFrame, value: Column) -> DataFrame:
    return rows.where(try_eval(F.struct(value)).isNull()).select(*RECORD)


def _too_large(rows: DataFrame, name: str, summed: str, keys: tuple[str, ...]) -> DataFrame:
    """A record of a group whose sum is too large."""
    measures: Mapping[str, Column] = {
        "__sum": F.expr(f"{_SUMS[name]}({summed})"),
        "__count": F.expr(f"count({summed})"),
        "__record": F.max(F.struct(*RECORD)),
    }
    groups = rows.groupBy(*(F.expr(f"({key})").alias(f"__key{n}") for n, key in enumerate(keys)))
    found = groups.agg(*(each.alias(own) for own, each in measures.items()))
    too_large = reduce(and_, (F.col("__sum").isNull(), F.col("__count") > 0))
    return found.where(too_large).select("__record.*")
