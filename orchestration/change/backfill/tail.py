"""What a run that has read everything leaves in the state of its queries, and how ``--flush`` closes it.

Two kinds of gold tables hold rows back: ``Aggregate(mode="append")`` writes a window when the watermark has
passed its end, and a left ``Join(mode="stream")`` writes a row without a match when none can come any more.
Every other query has written all that it has read; its state only recognises duplicates, or updates groups.

A flush plans one more micro-batch in the checkpoint of an append aggregate: it reads nothing, and its
watermark is the end of the last window that an event may be in. The next start runs this micro-batch like any
that was cut off: Spark closes the windows and the query writes them, once. A later event of these windows is
late, and is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from common.config.paths import Layout
from common.declare import Aggregate, Gold, Join, Pipeline, Session, Silver, Stateful
from common.declare.intervals import length_of
from common.delta.checkpoint import Checkpoint
from common.machine.storage_folder import StorageFolder
from common.machine.terminal import count_of
from common.streaming.query import RunningQuery


@dataclass(frozen=True, slots=True)
class Tail:
    """What a query has in its state at the end of a run."""

    table: str  # the table that it writes
    rows: int  # rows of its state: keys, groups, windows, or rows that wait
    watermark: datetime | None  # its watermark; None for a query without one
    holds_back: str = ""  # what is not written yet, in words; empty where everything is

    @property
    def text(self) -> str:
        """One sentence."""
        until = "" if self.watermark is None else f" (watermark {self.watermark:%Y-%m-%d %H:%M:%SZ})"
        if self.holds_back:
            return f"{self.table}: {self.rows:,} {self.holds_back}{until}"
        has = count_of(self.rows, "keys or groups")
        return f"{self.table}: everything is written; its state has {has}{until}"


def tails(pipeline: Pipeline, queries: Sequence[RunningQuery]) -> Iterator[Tail]:
    """What the queries of a run have left in their states; queries without state or rows are left out."""
    for query in {one.name: one for one in queries}.values():
        reports = list(query.progress())
        report: dict[str, Any] = reports[-1] if reports else {}
        states = report.get("stateOperators") or []
        rows = sum(int(one["numRowsTotal"]) for one in states)
        declared = pipeline.query(query.name)
        if not rows or not isinstance(declared, Silver | Aggregate | Join | Stateful):
            continue
        at = (report.get("eventTime") or {}).get("watermark")
        watermark = None if at is None else datetime.fromisoformat(str(at))
        if watermark is not None and not watermark.timestamp():
            watermark = None  # no event has moved it yet
        held = "" if isinstance(declared, Silver) else held_back(declared)
        yield Tail(query.name, rows, watermark, held)


def held_back(gold: Gold) -> str:
    """What a gold table writes only when its watermark has passed, in words; empty where nothing."""
    if isinstance(gold, Aggregate) and gold.mode == "append":
        return "open windows wait for the watermark; if no more events come: medallion backfill --flush"
    if isinstance(gold, Join) and gold.mode == "stream" and gold.how == "left":
        return "rows in state; those without a match are written when the watermark has passed them"
    if isinstance(gold, Stateful) and gold.timers == "event_time":
        return "keys and timers in state; a timer expires when the watermark has passed it"
    return ""


def flush(layout: Layout, gold: Gold) -> bool:
    """Plan the micro-batch that closes the open windows of a gold table; the next start runs it.

    Call it while no query runs with the checkpoint, and only after a run that has read everything.

    Returns:
        Whether a micro-batch is planned: false for a table that holds nothing back, that has read nothing, or
        whose windows are closed already.
    """
    if not isinstance(gold, Aggregate) or gold.mode != "append" or not gold.watermark or not gold.window:
        return False
    path = layout.checkpoint_path(gold.table)
    checkpoint = Checkpoint(path)
    last = checkpoint.last_committed()
    if last is None or checkpoint.last_planned() != last:
        return False
    reached, entry = _next_watermark(path, last), checkpoint.planned_batch(last)
    if entry is None or not reached or _flushed_batch(path) == last:
        return False
    length = gold.window.gap if isinstance(gold.window, Session) else gold.window.size
    # The watermark follows the newest event at this distance, or a flush has brought it further.
    newest = reached + gold.watermark_ms
    until = newest + length_of(length).milliseconds + 1
    offsets = StorageFolder(path) / "offsets"
    lines = (offsets.read(str(last)) or b"").decode("utf-8").splitlines()
    now = round(datetime.now(UTC).timestamp() * 1000)
    head = json.loads(lines[1]) | {"batchWatermarkMs": until, "batchTimestampMs": now}
    StorageFolder(path).write(_FLUSHED, json.dumps({"batch_id": last + 1}).encode())
    offsets.write(str(last + 1), "\n".join([lines[0], json.dumps(head), *lines[2:]]).encode())
    return True


_FLUSHED = "medallion_flushed.json"
"""The file in a checkpoint that names the micro-batch of the newest flush."""


def _flushed_batch(path: str) -> int:
    """The micro-batch of the newest flush; -1 where there was none."""
    content = StorageFolder(path).read(_FLUSHED)
    return int(json.loads(content)["batch_id"]) if content else -1


def _next_watermark(path: str, batch_id: int) -> int:
    """The watermark after a committed micro-batch, milliseconds since the epoch; 0 where there is none."""
    content = (StorageFolder(path) / "commits").read(str(batch_id)) or b""
    lines = content.decode("utf-8").splitlines()
    return int(json.loads(lines[1]).get("nextBatchWatermarkMs", 0)) if len(lines) > 1 else 0
