"""From a declared gold table to its query."""

from __future__ import annotations

from common.declare import Aggregate, ChangeFeed, Custom, Gold, History, Join, Upsert
from common.streaming.query import Stream
from gold import custom, history
from gold.aggregate import recompute, stateful
from gold.join import query as join
from gold.source.missing_history import telling
from gold.table.context import Context
from gold.upsert import query as upsert


def stream(context: Context, gold: Gold) -> Stream:
    """The query of one gold table; makes its tables where there are none. Its micro-batches raise
    ``HistoryGoneError`` where what they need of the source was cleaned away.

    Raises:
        HistoryGoneError: It needs the source's first commits, and they are gone.
        PipelineError: An expression does not fit the source's columns.
        TableMissingError: It joins a table that is not there.
        TableShapeError: A table exists with other columns.
    """
    return telling(_stream(context, gold), gold, context.path(gold.reads))


def _stream(context: Context, gold: Gold) -> Stream:
    match gold:
        case Aggregate(mode="recompute"):
            return recompute.stream(context, gold)
        case Aggregate():
            return stateful.stream(context, gold)
        case Upsert() | ChangeFeed():
            return upsert.stream(context, gold)
        case History():
            return history.stream(context, gold)
        case Join():
            return join.stream(context, gold)
        case Custom():
            return custom.stream(context, gold)
    raise NotImplementedError(gold.table)
