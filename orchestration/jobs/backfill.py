"""Catch up and end: bronze, then silver, then gold, each with what is there now.

Same queries and checkpoints as the long-running jobs, so either can go on where the other stopped.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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


@dataclass
class Done:
    """What became of one layer: rows read, and the seconds that took."""

    layer: Layer
    rows: int
    seconds: float
    is_whole: bool


def run(job: Job) -> list[Done]:
    """Run the job's layers one after the other; ends early, at a micro-batch boundary, when told to stop.

    Raises:
        MedallionError: What a query died of.
    """
    results: list[Done] = []
    for layer in job.layers:
        if job.stop.is_said():
            break
        results.append(_layer(job, layer))
    return results


def _layer(job: Job, layer: Layer) -> Done:
    first = len(job.supervisor.queries)
    for table in job.wiring.await_sources([layer], wait=False, stopping=job.stop.is_said):
        say(f"waiting for {table}")
    streams = list(job.wiring.streams(layer))
    totals = {stream.name: _behind(job, stream.name) for stream in streams}
    began = time.monotonic()
    with _Bars(layer, totals) as bars:
        job.supervisor.start(streams, available_now=True)
        # Asked anew each time: a query that waited for a registry is another one then.
        job.supervisor.run(lambda: bars.update(job.supervisor.queries[first:]), keep_open=True)
        bars.update(job.supervisor.queries[first:])
        rows = bars.rows()
        if not job.stop.is_said():
            bars.finish()
    return Done(layer, rows, time.monotonic() - began, not job.stop.is_said())


def _behind(job: Job, table: str) -> int | None:
    """Rows a query has yet to read; ``None`` where the log's statistics do not tell."""
    wiring = job.wiring
    checkpoint = Checkpoint(wiring.layout.checkpoint_path(table))
    last = checkpoint.last_committed()
    entry = checkpoint.planned_batch(last) if last is not None else None
    declared = wiring.pipeline.table(table)
    if isinstance(declared, Topic):
        return _kafka_behind(
            wiring.pipeline, wiring.bootstrap_servers, declared, kafka_position(entry) if entry else {}, job
        )
    path = Layout.table_path(wiring.layout, declared.reads)
    return LogReader(path).backlog(delta_position(entry) if entry else None).rows


def _kafka_behind(
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


class _Bars:
    """A bar per table on a terminal, a line every few seconds elsewhere."""

    def __init__(self, layer: Layer, totals: dict[str, int | None]) -> None:
        self._layer, self._totals = layer, totals
        self._seen: dict[str, dict[int, int]] = {name: {} for name in totals}
        self._began = self._said = time.monotonic()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if sys.stderr.isatty():
            self._bars = Progress(
                TextColumn("{task.description:<28}"),
                BarColumn(bar_width=30),
                TextColumn("{task.completed:>12,.0f} / {task.fields[of]} offsets"),
                TextColumn("{task.fields[rate]:>9,.0f} rows/s"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=err,
            )

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
        """Rows all queries of the layer have read in this run."""
        return sum(sum(batches.values()) for batches in self._seen.values())

    def update(self, queries: list[RunningQuery]) -> None:
        """Take in what the queries report."""
        for query in queries:
            for report in query.progress():
                self._seen[query.name][int(report["batchId"])] = int(report["numInputRows"])
        seconds = max(time.monotonic() - self._began, 0.001)
        if self._bars is not None:
            for name, task in self._tasks.items():
                done = sum(self._seen[name].values())
                self._bars.update(task, completed=done, rate=done / seconds)
        elif time.monotonic() - self._said > _PLAIN_SECONDS:
            self._say(seconds)

    def finish(self) -> None:
        """The layer is through."""
        if self._bars is not None:
            for name, task in self._tasks.items():
                self._bars.update(task, completed=self._totals[name] or sum(self._seen[name].values()))
        else:
            self._say(max(time.monotonic() - self._began, 0.001))

    def _say(self, seconds: float) -> None:
        self._said = time.monotonic()
        for name, batches in self._seen.items():
            total, done = self._totals[name], sum(batches.values())
            left = f", {max(0, total - done) / (done / seconds):.0f} s left" if total and done else ""
            of = f" of {total:,}" if total is not None else ""
            say(f"{name}: {done:,}{of} offsets, {done / seconds:,.0f} rows/s{left}")
