"""Gold tables of rows that a processor of the user's own emits, which keeps state per key.

Spark's ``transformWithState`` runs the processor in Python workers and keeps its state in RocksDB, with the
micro-batch: after a replay state and rows are those of a run without one. ``append`` adds the rows that were
emitted; ``update`` keeps the last one of each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from common.declare import Stateful
from common.declare.declared import source_of
from common.declare.row_order import total_order
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import commits_metadata
from common.delta.micro_batch import MicroBatch
from common.errors import Fault, PipelineError, Problem, TableMissingError
from common.machine import extras
from common.rows.spark_rows import SparkRows
from common.streaming.query import Stream
from gold.source.stream import at_version, new_rows
from gold.table import create
from gold.table.context import Context
from gold.table.identity import ELEMENT
from gold.table.own_code import send_to_workers
from gold.table.results import write_results
from gold.table.sql_columns import each, meeting, misfit

_TURN = "__turn"
"""In update mode: the place of a row among those that its Python worker emits."""

_INITIAL = "initial_version"
"""In the counts of the first commit: the version of the table with the initial state."""

_TIME_MODES = {None: "None", "event_time": "EventTime", "processing_time": "ProcessingTime"}


def build_query(context: Context, gold: Stateful) -> Stream:
    """The query of one processor; creates the table where there is none.

    Raises:
        HistoryGoneError: The source's first commits are gone.
        MissingExtraError: The package that Spark's workers talk to the state with is not installed.
        TableMissingError: There is no table with the initial state.
        PipelineError: A column that is named does not exist, or the output has no column of the key.
        TableShapeError: The table exists with other columns.
    """
    extras.require("state", "gold tables with a processor of your own")
    rows = new_rows(context, gold, in_order=True)
    output = cast("StructType", StructType.fromDDL(gold.output))
    version = _initial_version(context, gold)
    initial = None if version is None else at_version(context.spark, context.path(str(gold.initial)), version)
    _require_columns(gold, rows, output, initial)
    path, key = context.path(gold.table), gold.key if gold.mode == "update" else None
    create.ensure(context, gold.table, output, gold.storage)

    def write(result: SparkRows, batch: MicroBatch) -> None:
        if key is not None:
            result = result.derive(_last(result.frame, key))
        with result.kept(whole=True, before_retry=batch.forget_dropped) as rows:
            counts = {"rows": rows.count, **batch.late_counts()}
            if batch.batch_id == 0 and version is not None:
                counts[_INITIAL] = version
            write_results(rows, path, batch, counts, step=gold.mode, key=key)

    frame, without_rows = emitted(rows, gold, output, initial), gold.timers is not None
    found = context.query(gold, frame, write, output_mode=gold.mode, without_rows=without_rows)
    return replace(found, needs_rocksdb=True, by_clock=gold.timers == "processing_time")


def _initial_version(context: Context, gold: Stateful) -> int | None:
    """The version of the table with the initial state that the next micro-batch gives; None after the first.

    If that one is replayed, the version that its commit names: its rows may be there, its state is not.
    """
    checkpoint = Checkpoint(context.checkpoint(gold))
    if gold.initial is None or checkpoint.last_committed() is not None:
        return None
    path = context.path(gold.initial)
    latest = LogReader(path).latest_version()
    if latest is None:
        advice = f"{gold.table} begins with it (initial): create it first, or name another one."
        raise TableMissingError(gold.initial, path, advice)
    query_id = checkpoint.query_id()
    written = commits_metadata(context.path(gold.table), gold.table) if query_id is not None else ()
    found = (each["counts"].get(_INITIAL) for each in written if each["query_id"] == query_id)
    return next((int(version) for version in found if version is not None), latest)


def emitted(
    rows: DataFrame, gold: Stateful, output: StructType, initial: DataFrame | None = None
) -> DataFrame:
    """What the processor emits for the rows of a source, and of the table with its initial state."""
    rows = meeting(rows, gold.where)
    if gold.event_time is not None and gold.watermark is not None:
        rows = rows.withWatermark(gold.event_time, gold.watermark)
    order = total_order(() if gold.event_time is None else (gold.event_time,))
    order = tuple(name for name in (*order, ELEMENT) if name in rows.columns)
    is_update = gold.mode == "update"
    shape = StructType([*output, StructField(_TURN, LongType())]) if is_update else output
    send_to_workers(__name__, gold.processor.__module__)
    return rows.groupBy(*gold.key).transformWithState(
        InOrder(gold.processor(), order, numbers=is_update),
        shape,
        gold.mode,
        _TIME_MODES[gold.timers],
        None if initial is None else initial.groupBy(*gold.key),
    )


class InOrder(StatefulProcessor):
    """A processor that gets the rows of a key in order, and may number what it emits.

    Spark gives the rows of a key and micro-batch in any order, another one in a replay.
    """

    def __init__(self, own: StatefulProcessor, order: tuple[str, ...], *, numbers: bool) -> None:
        self._own, self._order, self._turns = own, order, count() if numbers else None

    def init(self, handle: Any) -> None:
        """Begin, with the handle of the state."""
        self._own.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The rows of a key in one micro-batch, by event time and coordinates; nulls first."""
        ordered = sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in self._order])
        return self._numbered(self._own.handleInputRows(key, iter(ordered), timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """A timer of a key that has passed."""
        return self._numbered(self._own.handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """A row of the table with the initial state."""
        self._own.handleInitialState(key, initialState, timerValues)

    def close(self) -> None:
        """The end of a partition."""
        self._own.close()

    def _numbered(self, rows: Iterator[Row] | None) -> Iterator[Row]:
        for row in rows or ():
            yield row if self._turns is None else Row(**row.asDict(), **{_TURN: next(self._turns)})


def _last(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The row that was emitted last for each key."""
    columns = [name for name in rows.columns if name != _TURN]
    newest = F.max_by(F.struct(*(F.col(f"`{name}`") for name in columns)), _TURN)
    return rows.groupBy(*(F.col(f"`{name}`") for name in key)).agg(newest.alias("__row")).select("__row.*")


def _require_columns(gold: Stateful, rows: DataFrame, output: StructType, initial: DataFrame | None) -> None:
    """Raise PipelineError for what does not fit the source, or a key of another type than the source's."""
    trials = each({name: f"`{name}`" for name in gold.key}, "key", rows.select)
    if gold.event_time is not None:
        trials += each({gold.event_time: f"`{gold.event_time}`"}, "event_time", rows.select)
    trials.append(("where", lambda: meeting(rows, gold.where)))
    try:
        for _, resolve in trials:
            resolve()
    except PySparkException as error:
        raise misfit(error, trials, gold.table, source_of(gold)) from error
    others = {"output": output} if gold.mode == "update" else {}
    others |= {f"initial, {gold.initial},": initial.schema} if initial is not None else {}
    for what, schema in others.items():
        types = {field.name.lower(): field.dataType.simpleString() for field in schema}
        for name in gold.key:
            wanted, given = (
                rows.select(f"`{name}`").schema[0].dataType.simpleString(),
                types.get(name.lower(), "no column"),
            )
            if given != wanted:
                text = (
                    f"{what} has the key {name} as {given}, and {gold.reads} as {wanted}: give it that type"
                )
                raise PipelineError([Problem(gold.table, Fault("MED-1401", text), source_of(gold))])
