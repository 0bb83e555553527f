"""Notes on correct declarations: what a gold table cannot do, and which readers cannot read it."""

from __future__ import annotations

from collections.abc import Iterator

from common.declare import Aggregate, Gold, Join, Pipeline


def notes(pipeline: Pipeline) -> tuple[str, ...]:
    """One or two sentences per note, in the order of the pipeline's gold tables."""
    return (*(note for gold in pipeline.gold for note in _of(gold)), *_published(pipeline))


def _of(gold: Gold) -> Iterator[str]:
    table, source = gold.table, gold.reads
    if not gold.takes_rows_back or gold.reading.changes == "appends":
        yield f"{table} takes no row back: rows that {source} deletes or replaces stay in it. {_remedy(gold)}"
    if (watermark := _watermark(gold)) is not None:
        counted = "counted as late in its commits and " if isinstance(gold, Aggregate) else ""
        yield (
            f"{table} leaves out rows that come later than its watermark of {watermark}: they are {counted}"
            f'missing from it. mode="recompute" includes them.'
        )
    if gold.storage.deletion_vectors:
        yield (
            f"{table} keeps deletion vectors, so it has Delta reader version 3: delta-rs's pyarrow and pandas"
            " readers refuse it, and so do older readers of every kind."
        )
    if gold.storage.newer_types:
        yield (
            f"{table} may have columns of newer types; with such a column it has Delta reader version 3, and "
            "readers that are older than these types refuse it."
        )


def _published(pipeline: Pipeline) -> Iterator[str]:
    whole = {one.table for one in pipeline.gold if isinstance(one, Aggregate) and one.mode == "complete"}
    for publish in pipeline.publish:
        if publish.reads in whole:
            yield (
                f"{publish.table} sends every row of {publish.reads} after each of its micro-batches: "
                'mode="complete" rewrites all rows. mode="recompute" writes only rows that differ.'
            )


def _remedy(gold: Gold) -> str:
    if gold.takes_rows_back:
        return 'The declaration says so: reading=Reading(changes="appends").'
    if isinstance(gold, Aggregate | Join):
        return f'It has mode="{gold.mode}"; mode="recompute" takes rows back.'
    return 'Its function can, if it reads the feed: reading=Reading(changes="feed").'


def _watermark(gold: Gold) -> str | None:
    if isinstance(gold, Aggregate):
        return gold.watermark
    if isinstance(gold, Join) and gold.within is not None:
        return " or ".join(dict.fromkeys((gold.within.watermark, gold.within.joins_watermark)))
    return None
