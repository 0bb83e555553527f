"""How gold follows rows that its sources replace or lose: by what differs, or filled again from silver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from common.config.paths import Layout
from common.declare import Custom, Gold, Pipeline, Publish, Silver
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.published_pointer import SUFFIX, read_published
from orchestration.access.declaration.lineage import in_data_order, sources, written_by
from orchestration.records.rejudge.refill_gold import move_aside


@dataclass(frozen=True, slots=True)
class Follower:
    """A gold table, publication or published version made, directly or not, of tables that lose rows."""

    table: str  # the name of the table, publication or published version
    follows: bool  # whether its next micro-batches take these rows back by themselves
    advice: str = ""  # what to do if it does not follow; empty if it does


def followers(pipeline: Pipeline, layout: Layout, erased: Collection[str]) -> Iterator[Follower]:
    """All gold tables, publications and published versions with erased rows, each after its sources."""
    changed = set(erased)
    for gold in in_data_order(pipeline.gold):
        if changed.intersection(sources(gold)):
            changed.update(written_by(gold))
            advice = _advice(gold, layout)
            yield Follower(gold.table, not advice, advice)
    for publish in pipeline.publish:
        if publish.reads in changed:
            yield Follower(publish.table, follows=False, advice=_advice_for_publication(publish))
    for suite in pipeline.quality:
        published = read_published(layout.table_path(suite.table)) if suite.gate == "publish" else None
        if published is not None and suite.table in changed:
            advice = (
                f"its readers get version {published.version}, which has what was made of the erased rows, "
                f"until a newer one passes its suite; see: medallion quality run {suite.table}"
            )
            yield Follower(f"{suite.table}{SUFFIX}", follows=False, advice=advice)


def written_tables(pipeline: Pipeline, silver: Silver, *, is_same_shape: bool = True) -> tuple[str, ...]:
    """The tables whose leases are needed where rows of a silver table are replaced.

    Args:
        is_same_shape: Whether it keeps its columns; else gold tables that read gold tables are needed too.
    """
    found = _readers(pipeline, silver) if is_same_shape else _all_readers(pipeline, silver)
    return (*written_by(silver), *(name for one in found for name in written_by(one)))


def cannot_follow(
    pipeline: Pipeline, layout: Layout, silver: Silver, *, is_same_shape: bool = True
) -> tuple[Gold, ...]:
    """Gold tables that read appends only, or whose source gets other columns, each after its sources.

    A gold table that is filled again may get other columns itself: then so may those that read it, and are
    filled again if they can be.

    Args:
        is_same_shape: Whether the table keeps its columns.
    """
    has_feed, direct = _keeps_feed(layout, silver.table), _readers(pipeline, silver)
    if is_same_shape:
        return tuple(one for one in direct if not (has_feed and one.reads_removals))
    return tuple(one for one in _all_readers(pipeline, silver) if one in direct or can_be_filled_again(one))


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
    return not (isinstance(gold, Custom) or gold.reads_in_order)


def _readers(pipeline: Pipeline, silver: Silver) -> tuple[Gold, ...]:
    return tuple(one for one in pipeline.gold if silver.table in sources(one))


def _all_readers(pipeline: Pipeline, silver: Silver) -> tuple[Gold, ...]:
    """The gold tables that read a silver table, directly or through others, each after its sources."""
    changed, found = {silver.table}, list[Gold]()
    for one in in_data_order(pipeline.gold):
        if changed.intersection(sources(one)):
            changed.update(written_by(one))
            found.append(one)
    return tuple(found)


def _keeps_feed(layout: Layout, table: str) -> bool:
    return LogReader(layout.table_path(table)).properties().get("delta.enableChangeDataFeed") == "true"


def _advice(gold: Gold, layout: Layout) -> str:
    """What to do about a gold table that does not follow; empty if it follows."""
    if isinstance(gold, Custom):
        if gold.takes_rows_back:
            return "its function gets the deleted rows; whether it erases them is up to that function"
        return "its function gets no deleted rows: erase them in its tables yourself"
    if not can_be_filled_again(gold):
        return (
            "it has a watermark and keeps what it has; it cannot be filled again in the order of arrival. "
            'Declare it under a new name with mode="recompute", and delete the old table'
        )
    if not gold.reads_removals:
        return f"it takes no row back. Fill it again: medallion rebuild {gold.table}"
    for source in sources(gold):
        if delta_table.exists(layout.table_path(source)) and not _keeps_feed(layout, source):
            return f"{source} keeps no change data feed. Fill it again: medallion rebuild {gold.table}"
    return ""


def _advice_for_publication(publish: Publish) -> str:
    if publish.deletes:
        return f"deletions of {publish.reads} are sent; what was sent before is with its receivers"
    return "what was sent is with its receivers: erase it there"
