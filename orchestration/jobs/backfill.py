"""``medallion backfill``: each layer processes the available data and ends; bronze, then silver, then gold.

It uses the queries and checkpoints of the long-running jobs, so each can continue where the other stopped.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from common.config.paths import Layout
from common.declare import Pipeline, Topic
from common.delta.checkpoint import Checkpoint, delta_position, kafka_position
from common.delta.log import LogReader
from common.machine.console import err, say
from common.streaming.query import RunningQuery
from orchestration.jobs.job import Job
from orchestration.jobs.wiring import Layer
from orchestration.kafka import client as kafka

_PLAIN_SECONDS = 5.0
_WIDE = 100
_TIME, _SPEED, _SHORTEST_BAR = 9, 15, 10


@dataclass
class LayerResult:
    """The result of one layer: rows read, seconds, and whether the layer has read everything."""

    layer: Layer
    rows: int
    seconds: float
    is_whole: bool


def catch_up(job: Job) -> list[LayerResult]:
    """Run the job's layers one after the other; a requested stop ends the run at a micro-batch boundary.

    Raises:
        MedallionError: A query failed.
    """
    results: list[LayerResult] = []
    for layer in job.layers:
        if job.stop.is_requested():
            break
        results.append(_run_layer(job, layer))
    return results


def _run_layer(job: Job, layer: Layer) -> LayerResult:
    first = len(job.supervisor.queries)
    for table in job.wiring.await_sources([layer], wait=False, stopping=job.stop.is_requested):
        say(f"waiting for {table}")
    streams = list(job.wiring.streams(layer))
    totals = {stream.name: _rows_behind(job, stream.name) for stream in streams}
    began = time.monotonic()
    with _Bars(layer, totals) as bars:
        job.supervisor.start(streams, available_now=True)
        # The list is read at every poll: a query that was restarted is another object.
        job.supervisor.run(lambda: bars.update(job.supervisor.queries[first:]), keep_open=True)
        bars.update(job.supervisor.queries[first:])
        rows = bars.rows()
        if not job.stop.is_requested():
            bars.finish()
    return LayerResult(layer, rows, time.monotonic() - began, not job.stop.is_requested())


def _rows_behind(job: Job, table: str) -> int | None:
    """Number of rows that a query has yet to read; None if the log has no statistics."""
    wiring = job.wiring
    checkpoint = Checkpoint(wiring.layout.checkpoint_path(table))
    last = checkpoint.last_committed()
    entry = checkpoint.planned_batch(last) if last is not None else None
    declared = wiring.pipeline.table(table)
    if isinstance(declared, Topic):
        return _offsets_behind(
            wiring.pipeline, wiring.bootstrap_servers, declared, kafka_position(entry) if entry else {}, job
        )
    path = Layout.table_path(wiring.layout, declared.reads)
    return LogReader(path).backlog(delta_position(entry) if entry else None).rows


def _offsets_behind(
    pipeline: Pipeline, address: str, topic: Topic, position: dict[str, dict[int, int]], job: Job
) -> int | None:
    names = topic.topic_names
    if not names:
        return None
    options = kafka.client_options(job.wiring.settings, pipeline, topic)
    ends = kafka.end_offsets(address, names, options)
    firsts = kafka.first_offsets(address, names, options)
    return sum(
        max(0, end - position.get(name, {}).get(partition, firsts[name][partition]))
        for name, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _bar_columns(width: int, totals: dict[str, int | None]) -> list[ProgressColumn]:
    """Name, bar, counts, speed and times; narrow terminals show no elapsed time, and long names no speed."""
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        TextColumn("{task.completed:,.0f}/{task.fields[of]}", justify="right"),
        TimeRemainingColumn(compact=True),
    ]
    counts = max((2 * len(f"{total or 0:,}") + 1 for total in totals.values()), default=0)
    rest = width - max(map(len, totals), default=0) - counts - _TIME - _SPEED
    if rest >= _SHORTEST_BAR:
        columns.insert(3, TextColumn("{task.fields[rate]:,.0f} rows/s", justify="right"))
    return [*columns, TimeElapsedColumn()] if width >= _WIDE else columns


class _Bars:
    """Progress of a layer's queries: a bar per table on a terminal, a line every few seconds elsewhere."""

    def __init__(self, layer: Layer, totals: dict[str, int | None]) -> None:
        self._layer, self._totals = layer, totals
        self._seen: dict[str, dict[int, int]] = {name: {} for name in totals}
        self._began = self._reported = time.monotonic()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if sys.stderr.isatty():
            self._bars = Progress(*_bar_columns(err.width, totals), console=err, expand=True)

    def __enter__(self) -> Self:
        for name, total in self._totals.items():
            if self._bars is not None:
                of = f"{total:,}" if total is not None else "?"
                self._tasks[name] = self._bars.add_task(name, total=total, of=of, rate=0.0)
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def rows(self) -> int:
        """Number of rows that all queries of the layer have read in this run."""
        return sum(sum(batches.values()) for batches in self._seen.values())

    def update(self, queries: list[RunningQuery]) -> None:
        """Show the progress that the queries report."""
        for query in queries:
            for report in query.progress():
                self._seen[query.name][int(report["batchId"])] = int(report["numInputRows"])
        seconds = max(time.monotonic() - self._began, 0.001)
        if self._bars is not None:
            for name, task in self._tasks.items():
                done = sum(self._seen[name].values())
                self._bars.update(task, completed=done, rate=done / seconds)
        elif time.monotonic() - self._reported > _PLAIN_SECONDS:
            self._print_lines(seconds)

    def finish(self) -> None:
        """Show the end of the layer."""
        if self._bars is not None:
            for name, task in self._tasks.items():
                self._bars.update(task, completed=self._totals[name] or sum(self._seen[name].values()))
        else:
            self._print_lines(max(time.monotonic() - self._began, 0.001))

    def _print_lines(self, seconds: float) -> None:
        self._reported = time.monotonic()
        for name, batches in self._seen.items():
            total, done = self._totals[name], sum(batches.values())
            left = f", {max(0, total - done) / (done / seconds):.0f} s left" if total and done else ""
            of = f" of {total:,}" if total is not None else ""
            say(f"{name}: {done:,}{of} offsets, {done / seconds:,.0f} rows/s{left}")
