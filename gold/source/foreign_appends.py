"""Refuses rows that another program has appended to a table that a gold query or a publication reads.

Changes of rows by others are not refused: a query that reads the change data feed follows them, and the
others leave them out, as they leave out the engine's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from common.declare import Custom, Gold, Publish
from common.declare.declared import is_outside
from common.delta.foreign_commits import CommitWatch, reads_appends
from common.delta.micro_batch import MicroBatch
from common.streaming.query import Stream
from gold.source.start import starting_version
from gold.table.context import Context

_MOST_PAST = 10_000
"""Commits of a source that a first start checks; an audit of silver has found what is wrong in older ones."""


def refuse_foreign_appends(context: Context, gold: Gold | Publish, stream: Stream) -> Stream:
    """The query; its sources' commits are checked now, and those of each micro-batch before it is written.

    Raises:
        ForeignChangeError: Another program has appended rows to a source, and they are not accepted.
    """
    watches = check_appends(context, gold)

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        for watch in watches:
            watch.look_at(batch)
        stream.write(rows, batch)

    return replace(stream, write=write)


def check_appends(context: Context, gold: Gold | Publish) -> tuple[CommitWatch, ...]:
    """Check the commits of the tables that a query reads as streams; the watches that have done so.

    Raises:
        ForeignChangeError: Another program has appended rows to one, and they are not accepted.
    """
    watches = tuple(_watches(context, gold))
    for watch in watches:
        watch.look()
    return watches


def _watches(context: Context, gold: Gold | Publish) -> Iterator[CommitWatch]:
    """A watch per table of the pipeline that the query reads as a stream."""
    read = (gold.reads,) if isinstance(gold, Publish) else gold.streamed
    for source, table in enumerate(table for table in read if not is_outside(table)):
        path = context.path(table)
        written = (one for one in context.pipeline.tables if table in {one.table, *one.side_tables})
        declared = next(written, None)
        yield CommitWatch(
            reader=gold.table,
            table=table,
            path=path,
            writer=table if declared is None else declared.table,
            checkpoint=context.checkpoint(gold),
            setting="gold.accept_commits",
            accepted=context.settings.gold.accept_commits,
            source=source,
            begins=starting_version(context, gold, path, gold.reading) if source == 0 else 0,
            follows_changes=True,
            most_past=_MOST_PAST,
            reads_appends=partial(
                reads_appends, gold.reading.changes, path, takes_rows_back=_takes_rows_back(gold)
            ),
            takes_appends=declared is not None
            and declared.table == table
            and declared.storage.foreign is not None,
            begins_with_state=not gold.reading.has_start,
            outlives_rebuilds=isinstance(gold, Gold)
            and not (isinstance(gold, Custom) or gold.reads_in_order),
            refill=context.checkpoint(declared)
            if isinstance(declared, Gold) and not isinstance(declared, Custom)
            else "",
        )


def _takes_rows_back(declared: Gold | Publish) -> bool:
    """Whether a query follows removed rows: a publication does, if it sends them as deleted."""
    return declared.deletes if isinstance(declared, Publish) else declared.takes_rows_back
