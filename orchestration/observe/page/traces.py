"""The way of a record for the page: found by its key or its offset, in the words of ``medallion trace``."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from common.declare import Pipeline
from common.errors import TableError, UsageError
from orchestration.access.query.record_place import Place
from orchestration.access.query.shown_values import plain
from orchestration.observe.page.live import Live
from orchestration.records.trace.trace import Trace
from orchestration.records.trace.words import in_words

MOST = 5
"""Records of one search."""

_WAIT_SECONDS = 5.0
_ONE_AT_A_TIME = threading.Lock()


def keys(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """The tables whose rows are found by a key, with its columns."""
    declared = (*pipeline.silver, *pipeline.gold)
    found = {one.table: tuple(getattr(one, "key", None) or ()) for one in declared}
    return {table: key for table, key in found.items() if key}


def traced(live: Live, table: str | None, key: Sequence[str], offset: str | None) -> dict[str, Any]:
    """The records of the rows with a key, or of one offset: at most ``MOST``, each in words and whole.

    Args:
        table: A silver or gold table; unset: ``offset`` names the record.
        key: The values of the table's key, in its order.
        offset: ``topic/partition/offset``.

    Raises:
        UsageError: The request names no record, or a value that is none of its column's type.
        TableError: A table cannot be read, or another search runs for too long.
    """
    if (table is None) == (offset is None):
        raise UsageError("name a table and the values of its key, or an offset")
    if not _ONE_AT_A_TIME.acquire(timeout=_WAIT_SECONDS):
        raise TableError("another search is running; try again")
    try:
        trace = Trace(live.pipeline, live.layout, has_values=True)
        places = trace.by_key(table, key, MOST) if table is not None else [Place.parse(offset or "")]
        found = trace.records(places[:MOST])
    finally:
        _ONE_AT_A_TIME.release()
    return {
        "records": plain(found),
        "lines": [asdict(in_words(one)) for one in found],
        "has_more": len(places) > MOST,
    }
