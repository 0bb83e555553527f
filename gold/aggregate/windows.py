"""Windows of event time as part of a group: tumbling, sliding and sessions. Pure.

``keyed`` gives the groups that rows belong to, ``grouping`` the columns that a frame is grouped by, and
``unpacked`` the table's columns of the result. All of them work on batch and streaming frames.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, TimestampType

from common.declare import Aggregate, Session, Window
from common.declare.declared import source_of
from common.declare.field_types import named
from common.errors import PipelineError, Problem, nearest
from common.sql.expression import with_names
from common.sql.quoting import backquoted
from gold.table.identity import WINDOW_START
from gold.table.sql_columns import columns

START, END = WINDOW_START, "window_end"

WINDOW, _ALL = "__window", "__all"


def timed(rows: DataFrame, gold: Aggregate) -> DataFrame:
    """The rows that are in a window, under the watermark if there is one; without a window, all of them.

    Raises:
        PipelineError: The window's column is not there, or is no timestamp.
    """
    if gold.window is None:
        return rows
    on = gold.window.on
    kinds = {field.name.lower(): field.dataType for field in rows.schema.fields}
    kind = kinds.get(on.lower())
    if not isinstance(kind, TimestampType):
        text = (
            f"on {on!r} is no column of {gold.reads}; {nearest(on, kinds)}"
            if kind is None
            else f"on {on!r} is of type {kind.simpleString()}; a window is over a timestamp"
        )
        raise PipelineError([Problem(f"{gold.table}, window", text, source_of(gold))])
    rows = rows.where(_column(on).isNotNull())
    return rows if gold.watermark is None else rows.withWatermark(on, f"{gold.watermark_ms} milliseconds")


def refuse_floats(rows: DataFrame, gold: Aggregate) -> None:
    """Refuse sessions of floats: Spark sorts -0.0 and NaN otherwise than it groups them, and dies of it.

    An expression that does not fit the rows is left to ``grouped``, which names it.

    Raises:
        PipelineError: A session is grouped by a float.
    """
    if not isinstance(gold.window, Session):
        return
    try:
        by = rows.select(*columns(named(gold.by or ()))).schema
    except PySparkException:
        return
    for field in by:
        if isinstance(field.dataType, FloatType | DoubleType):
            text = (
                f"is of type {field.dataType.simpleString()}, of which Spark makes no sessions; cast it, "
                "as in cast(… as decimal(20, 6)) or cast(… as string)"
            )
            raise PipelineError([Problem(f"{gold.table}, by {field.name!r}", text, source_of(gold))])


def grouping(gold: Aggregate) -> list[Column]:
    """The columns that rows are grouped by; ``unpacked`` makes the table's columns of them."""
    window = [] if gold.window is None else [_window(gold.window).alias(WINDOW)]
    return [*_by(gold), *window]


def measures(rows: DataFrame, gold: Aggregate) -> tuple[DataFrame, list[Column], list[Column]]:
    """The rows, the columns that they are grouped by, and the measures.

    A measure may name the bounds of its group's window, unless the rows have a column of that name.
    """
    given = named(gold.measures)
    if gold.window is None:
        return rows, grouping(gold), columns(given)
    found = bounded(given, rows)
    if found == given:
        return rows, grouping(gold), columns(given)
    rows = rows.withColumn(WINDOW, _window(gold.window))
    return rows, [*_by(gold), _column(WINDOW)], columns(found)


def bounded(given: Mapping[str, str], rows: DataFrame) -> Mapping[str, str]:
    """Measures over rows with their ``WINDOW``, which the names of its bounds stand for."""
    taken = {name.lower() for name in rows.columns}
    texts = {START: f"`{WINDOW}`.`start`", END: f"`{WINDOW}`.`end`"}
    free = {name: text for name, text in texts.items() if name not in taken}
    return {name: with_names(sql, free) for name, sql in given.items()}


def unpacked(result: DataFrame, gold: Aggregate) -> DataFrame:
    """A frame that was grouped by ``grouping``, with the table's columns in the table's order."""
    if gold.window is None:
        return result
    ends = [F.col(f"{WINDOW}.start").alias(START), F.col(f"{WINDOW}.end").alias(END)]
    return result.select(*map(_column, named(gold.by or ())), *ends, *map(_column, named(gold.measures)))


def keyed(rows: DataFrame, gold: Aggregate) -> DataFrame:
    """The groups that rows belong to: the columns of ``by``, and the window's ``START`` and ``END``.

    Grain: one row per row and window that contains it. A single row's session lasts from the row to the end
    of the gap; rows whose sessions touch belong to one session.
    """
    rows, by = timed(rows, gold), columns(named(gold.by or ()))
    if isinstance(gold.window, Session):
        on = _column(gold.window.on)
        gap = F.expr(f"interval '{gold.window.gap}'")
        return rows.select(*by, on.alias(START), (on + gap).alias(END))
    if gold.window is None:
        return rows.select(*by)
    found = rows.select(*by, _window(gold.window).alias(WINDOW))
    ends = [F.col(f"{WINDOW}.start").alias(START), F.col(f"{WINDOW}.end").alias(END)]
    return found.select(*map(_column, named(gold.by or ())), *ends)


def marked(rows: DataFrame, window: Window) -> DataFrame:
    """The rows, once per window that they are in, which is their ``WINDOW``."""
    return rows.select("*", _window(window).alias(WINDOW))


def _by(gold: Aggregate) -> list[Column]:
    by: Mapping[str, str] = named(gold.by or ())
    if not by and isinstance(gold.window, Session):
        # Spark's streams have sessions of groups only: one group of all, which no optimizer sees through.
        return [F.expr(f"pmod(unix_micros({backquoted(gold.window.on)}), 1)").alias(_ALL)]
    return columns(by)


def _window(window: Window | Session) -> Column:
    """A window as Spark's own struct, which carries the watermark from the rows to the groups."""
    on = _column(window.on)
    if isinstance(window, Session):
        return F.session_window(on, window.gap)
    return F.window(on, window.size, window.slide or window.size, window.offset or "0 seconds")


def _column(name: str) -> Column:
    return F.col(backquoted(name))
