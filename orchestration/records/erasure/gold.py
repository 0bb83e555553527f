"""Which gold tables follow an erasure by themselves, and what to do about the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from common.config.paths import Layout
from common.declare import Aggregate, Custom, Gold, Join, Pipeline, Publish
from common.delta import table as delta_table
from common.delta.log import LogReader
from orchestration.access.declaration.lineage import in_data_order, sources, written_by

_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class Follower:
    """A gold table or publication that reads, directly or not, tables from which records are erased.

    Attributes:
        table: The name of the table or publication.
        follows: Whether its next micro-batches take the erased rows back by themselves.
        advice: What to do if it does not follow; empty if it does.
    """

    table: str
    follows: bool
    advice: str = ""


def followers(pipeline: Pipeline, layout: Layout, erased: Collection[str]) -> tuple[Follower, ...]:
    """All gold tables and publications that read erased rows, each after those that it reads.

    Args:
        pipeline: The pipeline.
        layout: Paths of the tables.
        erased: The tables from which records are erased.
    """
    return tuple(_followers(pipeline, layout, set(erased)))


def _followers(pipeline: Pipeline, layout: Layout, changed: set[str]) -> Iterator[Follower]:
    for gold in in_data_order(pipeline.gold):
        if changed.intersection(sources(gold)):
            changed.update(written_by(gold))
            advice = _advice(gold, layout)
            yield Follower(gold.table, not advice, advice)
    for publish in pipeline.publish:
        if publish.reads in changed:
            yield Follower(publish.table, follows=False, advice=_advice_for_publication(publish))


def _advice(gold: Gold, layout: Layout) -> str:
    """What to do about a gold table that does not follow; empty if it follows."""
    if isinstance(gold, Custom):
        if gold.takes_rows_back:
            return "its function gets the deleted rows; whether it erases them is up to that function"
        return "its function gets no deleted rows: erase them in its tables yourself"
    if not gold.takes_rows_back and _reads_in_order(gold):
        return (
            "it has a watermark and keeps what it has; it cannot be filled again in the order of arrival. "
            'Declare it under a new name with mode="recompute", and delete the old table'
        )
    if not gold.takes_rows_back or gold.reading.changes == "appends":
        return f"it takes no row back. Fill it again: medallion rebuild {gold.table}"
    for source in sources(gold):
        path = layout.table_path(source)
        if delta_table.exists(path) and LogReader(path).properties().get(_FEED) != "true":
            return f"{source} keeps no change data feed. Fill it again: medallion rebuild {gold.table}"
    return ""


def _reads_in_order(gold: Gold) -> bool:
    """Whether a query needs all commits of its source in the order of arrival."""
    if isinstance(gold, Aggregate):
        return gold.watermark is not None
    return isinstance(gold, Join) and gold.mode == "stream"


def _advice_for_publication(publish: Publish) -> str:
    if publish.deletes:
        return f"deletions of {publish.reads} are sent; what was sent before is with its receivers"
    return "what was sent is with its receivers: erase it there"
