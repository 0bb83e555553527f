"""How gold tables follow rows of silver that are replaced: by what differs, or filled again from silver."""

from __future__ import annotations

from collections.abc import Sequence

from common.config.paths import Layout
from common.declare import Aggregate, Custom, Gold, Join, Pipeline, Silver
from common.delta.log import LogReader
from orchestration.access.declaration.lineage import sources, written_by
from orchestration.records.rejudge.refill_gold import move_aside


def readers(pipeline: Pipeline, silver: Silver) -> tuple[Gold, ...]:
    """The gold tables that read a silver table."""
    return tuple(one for one in pipeline.gold if silver.table in sources(one))


def written_tables(pipeline: Pipeline, silver: Silver) -> tuple[str, ...]:
    """The tables whose leases are needed where rows of a silver table are replaced."""
    gold = [name for one in readers(pipeline, silver) for name in written_by(one)]
    return (silver.table, *silver.side_tables, *gold)


def cannot_follow(
    pipeline: Pipeline, layout: Layout, silver: Silver, *, is_same_shape: bool = True
) -> tuple[Gold, ...]:
    """Gold tables that read appends only, or whose source gets other columns.

    Args:
        pipeline: The pipeline.
        layout: Where its tables are.
        silver: The table whose rows are replaced.
        is_same_shape: Whether the table keeps its columns.
    """
    properties = LogReader(layout.table_path(silver.table)).properties()
    has_feed = properties.get("delta.enableChangeDataFeed") == "true"
    return tuple(
        one
        for one in readers(pipeline, silver)
        if not (is_same_shape and has_feed and one.takes_rows_back and one.reading.changes != "appends")
    )


def fill_again(layout: Layout, gold: Sequence[Gold]) -> None:
    """Move the checkpoints of those gold tables aside that their next start can fill again."""
    for one in gold:
        if can_be_filled_again(one):
            move_aside(layout.checkpoint_path(one.table))


def filled_again(gold: Sequence[Gold]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the tables that their next start fills again, and of those that keep what they have."""
    again = tuple(one.table for one in gold if can_be_filled_again(one))
    return again, tuple(one.table for one in gold if one.table not in again)


def can_be_filled_again(gold: Gold) -> bool:
    """Whether a new checkpoint begins with the rows that silver has, not with its first commits."""
    in_order = isinstance(gold, Aggregate) and gold.watermark is not None
    return not (in_order or isinstance(gold, Custom) or (isinstance(gold, Join) and gold.mode == "stream"))
