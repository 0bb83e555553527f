"""From a declared gold table to its query, and what a start has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from common.declare import Aggregate, ChangeFeed, Custom, Gold, History, Join, Stateful, Upsert, View
from common.declare.gold_statement import why_undefined
from common.delta import table as delta_table
from common.delta.match.batch_match import SideStep
from common.streaming.query import Stream
from gold import custom, processor
from gold.aggregate import recompute, stateful
from gold.history import query as history
from gold.join import query as join
from gold.source.carried_on import carried_on
from gold.source.failing_row import explain_failing_row
from gold.source.foreign_appends import refuse_foreign_appends
from gold.source.missing_history import explain_missing_history
from gold.source.stream import lacks_feed, reads_feed
from gold.table.compact_every import compacting
from gold.table.context import Context
from gold.table.declaration_marks import keeps_deleted_keys, meaning
from gold.table.defined import Defined
from gold.upsert import query as upsert
from gold.view import query as view


def build_query(context: Context, gold: Gold) -> Stream:
    """The query of one gold table; creates its tables where there are none, and compacts them now and then.

    Its micro-batches raise ``HistoryGoneError`` where rows of the source that they need were cleaned up, and
    ``RowFailedError`` where a row makes a text of the declaration fail.

    Raises:
        ForeignChangeError: Another program has appended rows to a table that it reads.
        HistoryGoneError: It needs the source's first commits, and they are gone.
        PipelineError: An expression does not fit the source's columns.
        TableMissingError: It joins a table that does not exist.
        TableShapeError: A table exists with other columns.
    """
    stream = replace(_build(context, gold), heals=_heals(context, gold))
    stream = carried_on(context, gold, stream)
    stream = refuse_foreign_appends(context, gold, stream)
    stream = explain_missing_history(stream, gold, context.path(gold.reads))
    stream = explain_failing_row(context, gold, stream)
    return replace(compacting(context, gold, stream), declared=meaning(gold))


def defined(context: Context, gold: Gold, versions: Sequence[int | None]) -> Sequence[Defined]:
    """The rows that the tables of a gold query must have at versions of its sources.

    Args:
        versions: A version of each source, in the order of the query; None where nothing was read of it.
    """
    if why_undefined(gold):
        return ()
    match gold:
        case Upsert() | ChangeFeed():
            return tuple(upsert.defined(context, gold, versions[0]))
        case History():
            return (history.defined(context, gold, versions[0]),)
        case View() | Aggregate() | Join():
            return (view.defined(context, gold, versions),)
    return ()


def side_steps(gold: Gold, path: Callable[[str], str]) -> tuple[SideStep, ...]:
    """The steps that not every micro-batch of a gold table has; ``path`` gives the path of a table."""
    if not isinstance(gold, Upsert | ChangeFeed):
        return ()
    return tuple(SideStep(upsert.DELETED_STEP, table, path(table)) for table in gold.side_tables)


def former_side_tables(gold: Gold, marks: Mapping[str, str] | None) -> tuple[str, ...]:
    """The side tables that a query had under the declaration with these marks, of those that it has now.

    Args:
        marks: The marks in the newest commit of its table; None where there are none: then all of them.
    """
    if marks is None or not isinstance(gold, Upsert | ChangeFeed) or keeps_deleted_keys(marks):
        return gold.side_tables
    return ()


def missing_feed_warning(context: Context, gold: Gold) -> str | None:
    """The warning for a gold table whose source keeps no change data feed; ``None`` if it needs no feed."""
    if not lacks_feed(context, gold):
        return None
    statement = delta_table.enable_feed_statement(context.path(gold.reads))
    return (
        f"{gold.table}: {gold.reads} keeps no change data feed, so rows that are deleted or "
        f"replaced in {gold.reads} stay in {gold.table}. To change that from now on: {statement}"
    )


def _heals(context: Context, gold: Gold) -> bool:
    """Whether a micro-batch that has failed at a row is read to newer versions of its sources."""
    return isinstance(gold, View) or (
        isinstance(gold, Aggregate) and gold.mode == "recompute" and reads_feed(context, gold)
    )


def _build(context: Context, gold: Gold) -> Stream:  # noqa: PLR0911  # one return per kind
    match gold:
        case Aggregate(mode="recompute"):
            return recompute.build_query(context, gold)
        case Aggregate():
            return stateful.build_query(context, gold)
        case Upsert() | ChangeFeed():
            return upsert.build_query(context, gold)
        case History():
            return history.build_query(context, gold)
        case Join():
            return join.build_query(context, gold)
        case View():
            return view.build_query(context, gold)
        case Stateful():
            return processor.build_query(context, gold)
        case Custom():
            return custom.build_query(context, gold)
    raise NotImplementedError(gold.table)
