"""``medallion backfill``: each layer processes the available data and ends; bronze, then silver, then gold.

It uses the queries and checkpoints of the long-running jobs, so each can continue where the other stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
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

from bronze.beginning import beginning_of
from common.declare import Files, Topic
from common.declare import Stream as StreamSource
from common.delta.checkpoint import Checkpoint, delta_position, kafka_position
from common.delta.log import LogReader
from common.errors import MedallionError
from common.machine.console import awaited, err, say
from common.streaming.query import RunningQuery, Stream, Unbuilt
from orchestration.access.kafka import client as kafka
from orchestration.access.progress.rows_read import Offsets, RowsRead, begins_later, streamed_sources
from orchestration.observe.status.words.state import Ran, layer_ran, rate_words, table_ran
from orchestration.run.field_notices import FieldNotices
from orchestration.run.job import Job
from orchestration.run.wiring import Layer

_PLAIN_SECONDS = 30.0
_WIDE = 100
_TIME, _SPEED, _SHORTEST_BAR = 9, 15, 10

Count = Callable[[], int | None]


@dataclass
class LayerResult:
    """The result of one layer.

    ``rows`` are those that it has read, ``changed`` the tables that have new commits of its queries, and
    ``written`` the rows of these commits' files; ``is_whole``: the layer has read everything.
    """

    layer: Layer
    rows: int
    seconds: float
    is_whole: bool
    changed: int = 0
    written: int = 0

    @property
    def text(self) -> str:
        """What the layer has done, in a line."""
        ran = Ran(self.rows, "rows", self.seconds, self.changed, self.written)
        return layer_ran(self.layer, ran)


def catch_up(
    job: Job,
    each: Callable[[Stream], Stream | None] = lambda stream: stream,
    done: Callable[[LayerResult], None] = lambda result: None,
) -> list[LayerResult]:
    """Run the job's layers one after the other; a requested stop ends the run at a micro-batch boundary.

    A table that fails does not end the run: the supervisor's ``outcome`` tells of all that have failed.

    Args:
        each: Gives the query that runs for one that is declared, such as a slower one; None: none.

    Raises:
        MedallionError: A query failed, and the failure is none of its table's own.
    """
    results: list[LayerResult] = []
    publishes = job.only is None and "gold" in job.layers
    job.wiring.judge(job.layers, only=job.only, with_publications=publishes)
    for layer in job.layers:
        if job.stop.is_requested():
            break
        results.append(_run_layer(job, layer, each))
        done(results[-1])
        if layer == "silver":
            FieldNotices(job.wiring.pipeline, job.wiring.layout).check()
    return results


def _run_layer(job: Job, layer: Layer, each: Callable[[Stream], Stream | None]) -> LayerResult:
    first = len(job.supervisor.queries)
    totals: dict[str, int | None] = {}
    counts: dict[str, Count] = {}
    # From before the streams are made: a first load commits while its stream is made.
    layout = job.wiring.layout
    own = [one for one in job.wiring.pipeline.tables if layer == one.LAYER]
    commits = {one.table: _Commits(layout.table_path(one.table), one.table) for one in own}

    def counted() -> Iterator[Stream | Unbuilt]:
        for stream in job.wiring.streams(layer, only=job.only):
            chosen = stream if isinstance(stream, Unbuilt) else each(stream)
            if isinstance(chosen, Stream):
                begins = _first_offsets(job, stream.name)
                totals[stream.name] = _rows_behind(job, stream.name, begins)
                declared = job.wiring.pipeline.table(stream.name)
                counts[stream.name] = RowsRead(declared, job.wiring.layout, begins).advance
            if chosen is not None:
                yield chosen

    with awaited(f"the start of the queries of {layer}"):
        job.supervisor.start(counted(), available_now=True)
    began = time.monotonic()
    with _Bars(layer, totals, counts, job.stop.is_requested, commits) as bars:
        # The list is read at every poll: a query that was restarted is another object.
        job.supervisor.run(lambda: bars.update(job.supervisor.queries[first:]), keep_open=True)
        bars.update(job.supervisor.queries[first:])
        rows = bars.rows()
        if not job.stop.is_requested():
            failures = job.supervisor.failures
            bars.finish(without={*failures.errors, *failures.waits})
    seconds, is_whole = time.monotonic() - began, not job.stop.is_requested()
    # Asked only where no row was counted: a long run has thousands of commits.
    added = [found for one in commits.values() if not rows and (found := one.added()) is not None]
    return LayerResult(layer, rows, seconds, is_whole, len(added), sum(added))


class _Commits:
    """What one query commits to its table while this object exists."""

    def __init__(self, path: str, query: str) -> None:
        self._path, self._query, self._version = path, query, -1
        with suppress(MedallionError):  # the query's own start reports a table that cannot be read
            self._version = -1 if (latest := LogReader(path).latest_version()) is None else latest

    def added(self) -> int | None:
        """Rows of the files that its new commits have added; None if it has made none, or none is known."""
        log = LogReader(self._path)
        try:
            latest = log.latest_version()
            begin, end = self._version + 1, 0 if latest is None else latest + 1
            found = [one for version in range(begin, end) if (one := log.commit(version)) is not None]
        except MedallionError:
            return None
        rows = [one.rows or 0 for one in found if one.metadata.get("query") == self._query and one.files]
        return sum(rows) if rows else None


def _first_offsets(job: Job, table: str) -> Offsets:
    """The oldest offsets of a topic's partitions; empty for a table, and for topics chosen by a pattern."""
    declared = job.wiring.pipeline.table(table)
    if isinstance(declared, Files):
        return {declared.coordinate: {0: 0}}
    if not isinstance(declared, Topic) or not declared.topic_names:
        return {}
    path = job.wiring.layout.table_path(table)
    if LogReader(path).latest_version() is not None and (known := beginning_of(path)) is not None:
        return known.offsets
    options = kafka.client_options(job.wiring.settings, job.wiring.pipeline, declared)
    return kafka.first_offsets(job.wiring.bootstrap_servers, declared.topic_names, options)


def _rows_behind(job: Job, table: str, first: Offsets) -> int | None:
    """Number of rows that a query has yet to read; None if the log has no statistics."""
    wiring = job.wiring
    checkpoint = Checkpoint(wiring.layout.checkpoint_path(table))
    last = checkpoint.last_committed()
    entry = checkpoint.planned_batch(last) if last is not None else None
    declared = wiring.pipeline.table(table)
    if isinstance(declared, Files | StreamSource):
        return None  # how many records files have is not known before they are read
    if entry is None and begins_later(declared):
        return None
    if isinstance(declared, Topic):
        return _offsets_behind(job, declared, kafka_position(entry) if entry else {}, first)
    total = 0
    for place, source in enumerate(streamed_sources(declared)):
        position = delta_position(entry, place) if entry else None
        rows = LogReader(wiring.layout.table_path(source)).backlog(position).rows
        if rows is None:
            return None
        total += rows
    return total


def _offsets_behind(
    job: Job, topic: Topic, position: dict[str, dict[int, int]], first: Offsets
) -> int | None:
    names = topic.topic_names
    if not names:
        return None
    options = kafka.client_options(job.wiring.settings, job.wiring.pipeline, topic)
    return sum(
        max(0, end - position.get(name, {}).get(partition, first[name][partition]))
        for name, partitions in kafka.end_offsets(job.wiring.bootstrap_servers, names, options).items()
        for partition, end in partitions.items()
    )


def _bar_columns(width: int, totals: dict[str, int | None]) -> list[ProgressColumn]:
    """Name, bar, counts, speed and times; narrow terminals show no elapsed time, and long names no speed."""
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        TextColumn("{task.fields[shown]}", justify="right"),
        TimeRemainingColumn(compact=True),
    ]
    counts = max((2 * len(f"{total or 0:,}") + 1 for total in totals.values()), default=0)
    rest = width - max(map(len, totals), default=0) - counts - _TIME - _SPEED
    if rest >= _SHORTEST_BAR:
        columns.insert(3, TextColumn("{task.fields[rate]:,.0f} rows/s", justify="right"))
    return [*columns, TimeElapsedColumn()] if width >= _WIDE else columns


class _Bars:
    """Progress of a layer's queries: a bar per table on a terminal.

    Elsewhere, such as in a file of a log: a line when a table is up to date, and one line for the whole layer
    every half a minute, however many tables it has.

    A total is shown only while it is right: it is an estimate, because a table that was just loaded has no
    rows left to read, and a query whose declaration says where to begin reads a part of its source.
    """

    def __init__(
        self,
        layer: Layer,
        totals: dict[str, int | None],
        counts: Mapping[str, Count] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        commits: Mapping[str, _Commits] | None = None,
    ) -> None:
        """Create the bars.

        Args:
            totals: Rows that each query has yet to read; None if they are not known.
            counts: Rows that each query has read since the last call; without one, or where it is None,
                Spark's number is shown.
            is_stopping: Whether the run ends before the tables are up to date.
        """
        self._commits = dict(commits or {})
        self._is_stopping, self._whole = is_stopping, set[str]()
        self._layer, self._totals = layer, dict(totals)
        self._counts = dict(counts or {})
        self._counted: dict[str, int] = {}
        self._seen: dict[str, dict[int, int]] = {name: {} for name in totals}
        self._began = self._reported = time.monotonic()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if sys.stderr.isatty():
            self._bars = Progress(*_bar_columns(err.width, totals), console=err, expand=True)

    def __enter__(self) -> Self:
        for name, total in self._totals.items():
            if self._bars is not None:
                self._tasks[name] = self._bars.add_task(name, total=total, shown=_shown(0, total), rate=0.0)
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def rows(self) -> int:
        """Number of rows that all queries of the layer have read in this run."""
        for name in self._totals:
            self._count(name)  # also a micro-batch whose report has not come yet
        return sum(map(self._done, self._totals))

    def update(self, queries: list[RunningQuery]) -> None:
        """Show the progress that the queries report."""
        for query in queries:
            seen = self._seen[query.name]
            finished = len(seen)
            for report in query.progress():
                seen[int(report["batchId"])] = int(report["numInputRows"])
            if len(seen) > finished:
                self._count(query.name)
        seconds = max(time.monotonic() - self._began, 0.001)
        if self._bars is not None:
            for name, task in self._tasks.items():
                done = self._done(name)
                total = self._totals[name]
                shown = _shown(done, total)
                self._bars.update(task, completed=done, total=total, shown=shown, rate=done / seconds)
            return
        for query in queries:
            if not (query.is_active or query.failure() or self._is_stopping()):
                self._say_whole(query.name, seconds)
        if time.monotonic() - self._reported > _PLAIN_SECONDS:
            self._reported = time.monotonic()
            self._say_progress(seconds)

    def finish(self, *, without: Collection[str] = ()) -> None:
        """Show the end of the layer: every table is up to date, but those that have failed or wait."""
        seconds = max(time.monotonic() - self._began, 0.001)
        for name in self._totals:
            if name in without:
                continue
            if self._bars is None:
                self._say_whole(name, seconds)
                continue
            self._count(name)
            done = self._done(name)
            shown = _shown(done, done) if done else "up to date"
            self._bars.update(self._tasks[name], completed=done or 1, total=done or 1, shown=shown)

    @property
    def _unit(self) -> str:
        return "offsets" if self._layer == "bronze" else "rows"

    def _done(self, name: str) -> int:
        # Rows that were updated or deleted in the source are not counted by positions, only by Spark.
        return self._counted.get(name) or sum(self._seen[name].values())

    def _count(self, name: str) -> None:
        count = self._counts[name]() if name in self._counts else None
        if count is None:
            self._counts.pop(name, None)  # from now on Spark's number: a part of the rows is no answer
            self._counted.pop(name, None)
        else:
            self._counted[name] = self._counted.get(name, 0) + count
        total = self._totals[name]
        if total is not None and self._done(name) > total:
            self._totals[name] = None

    def _say_whole(self, name: str, seconds: float) -> None:
        """Say once that a table is up to date."""
        if name in self._whole:
            return
        self._whole.add(name)
        self._count(name)
        say(f"{name}: up to date, {table_ran(self._ran(name, seconds))}")

    def _ran(self, name: str, seconds: float) -> Ran:
        done, commits = self._done(name), self._commits.get(name)
        added = None if commits is None or done else commits.added()
        return Ran(done, self._unit, seconds, int(added is not None), added or 0)

    def _say_progress(self, seconds: float) -> None:
        """Say in one line how far the tables are that are not up to date."""
        open_ = [name for name in self._totals if name not in self._whole]
        if not open_:
            return
        done = sum(map(self._done, open_))
        totals = [self._totals[name] for name in open_]
        total = None if None in totals else sum(one or 0 for one in totals)
        left = f", {max(0, total - done) / (done / seconds):.0f} s left" if total and done else ""
        of = f" of {total:,}" if total else ""
        what = open_[0] if len(open_) == 1 else f"{len(open_)} tables of {self._layer}"
        say(f"{what}: {done:,}{of} {self._unit}, {rate_words(done / seconds)}{left}")


def _shown(done: int, total: int | None) -> str:
    return f"{done:,}/{'?' if total is None else f'{total:,}'}"
