"""Records what a job's queries do, beside the row path: the job's state every second, its history in batches.

One thread of the job looks at the queries once a second: whether each is alive and inside a micro-batch,
which Python knows without asking Spark. It does nothing that can take long, because readers take a job whose
state is older than five seconds for dead. A second thread keeps the books: it fetches Spark's progress
reports of queries that have finished micro-batches, and writes, compacts and bounds the history. Nothing here
can fail a query: a disk that is full costs the history, not a row.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from common.config.durations import seconds_of
from common.config.paths import HISTORY, Layout
from common.config.settings import Settings
from common.declare import Bronze, Pipeline
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.errors import MedallionError, TablesFailedError
from common.machine import event_log
from common.machine.console import say
from common.machine.processes import start_mark
from common.streaming.error_lines import one_line
from common.streaming.query import RunningQuery, told
from orchestration.access.history import micro_batches
from orchestration.access.history.job_state import (
    BatchFacts,
    JobQuery,
    JobState,
    Killed,
    killed_before,
    write_state,
)
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.access.history.takeovers import takeover_text
from orchestration.access.progress.rows_read import rows_between
from orchestration.observe.lineage.reporter import Reporter
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import Status, TableStatus
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.run.hooks import Hooks, QueryFailure
from orchestration.run.supervisor import Supervisor

_EVERY_SECONDS = 1.0
_FETCH_AFTER, _KEPT_REPORTS = 5, 20
"""Finished micro-batches after which a query's reports are fetched, and reports that Spark keeps."""

_TIDY_EVERY = 100
"""Writes of the history between two deletions of its old rows."""

_END_SECONDS = 5.0
"""How long the end of a job waits for a write of the history that is running."""

_COUNTS = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late")

_log = logging.getLogger("medallion.recorder")


@dataclass
class _Seen:
    """What the thread that looks has seen of one query."""

    state: JobQuery  # its state and since when
    runs: int = 0  # starts of the query
    query: RunningQuery | None = None  # the started query; a restarted one is another


@dataclass
class _Book:
    """What the thread that keeps the books knows of one query."""

    # The started query; a restarted one is another, whose numbers may begin again at 0.
    query: RunningQuery | None = None
    finished: int = 0  # finished micro-batches of ``query`` when its reports were fetched last
    newest: int = -1  # the newest micro-batch of ``query`` whose report was fetched
    version: int | None = None  # the newest version of its table that was searched for commits
    rows: list[MicroBatchRow] = field(default_factory=list)  # rows that are to be written to the history
    last: BatchFacts | None = None  # facts of the newest micro-batch


class Recorder:
    """Records one job; ``recording`` runs it in two threads.

    Args:
        killed: The process of another host that it goes on after, if that one was killed.

    Attributes:
        lineage: Sends OpenLineage events of what is recorded; None: nothing does. Set before recording.
    """

    def __init__(  # noqa: PLR0913  # a job, and what was before it
        self,
        pipeline: Pipeline,
        settings: Settings,
        layout: Layout,
        job: str,
        supervisor: Supervisor,
        *,
        is_standby: bool = False,
        killed: Killed | None = None,
    ) -> None:
        self._pipeline, self._layout, self._supervisor = pipeline, layout, supervisor
        self._keep = timedelta(seconds=seconds_of(settings.history.keep))
        self._every = settings.history.interval_seconds
        self._path = layout.table_path(HISTORY)
        self.lineage: Reporter | None = None
        self._hooks = Hooks(pipeline)
        self._collector = Collector(pipeline, layout, BrokerOffsets(pipeline, settings), settings)
        self._logs: dict[str, LogReader] = {}
        self._seen: dict[str, _Seen] = {}
        self._books: dict[str, _Book] = {}
        self._warned = ""
        self._writes, self._tidy_at = 0, 2
        self._stop = threading.Event()
        # Not by the wall clock: one that is set back by an hour would stop the history for an hour.
        self._flushed = time.monotonic()
        now = datetime.now(UTC)
        host, mark = os.uname().nodename, start_mark(os.getpid()) or ""
        self._state = JobState(
            job,
            event_log.RUN_ID,
            os.getpid(),
            host,
            now,
            now,
            mark=mark,
            killed=killed or killed_before(layout.jobs, job),
            is_standby=is_standby,
        )

    def tell_of_kill(self) -> None:
        """Say that the process before this one was killed, if it was, also to the pipeline's functions."""
        if (text := takeover_text(self._state)) and self._state.killed is not None:
            say(text, level="warning", job=self._state.job)
            self._hooks.failed(self._failure("", text, is_restarted=True, restarts=0))

    def run(self) -> None:
        """Look at the queries and write the job's state, until ``end``."""
        while not self._stop.wait(_EVERY_SECONDS):
            self._guarded(self._look)

    def keep_books(self) -> None:
        """Fetch reports and write the history, until ``end``."""
        while not self._stop.wait(_EVERY_SECONDS):
            self._guarded(self._follow)
            if self._every and time.monotonic() - self._flushed >= self._every:
                self._guarded(self._flush)
                self._guarded(self._tidy)

    def stop(self) -> None:
        """Let both threads end."""
        self._stop.set()

    def end(self, error: BaseException | None) -> None:
        """Record the end of the job, and what was not written yet; both threads have ended.

        Args:
            error: What ended the job; None after a requested stop or when all was processed.
        """
        self._guarded(self._look)
        self._guarded(self._follow)
        if self._every:
            self._guarded(self._flush)
        is_failure = error is not None and not isinstance(error, KeyboardInterrupt)
        cause = told(error) if error is not None and is_failure else ""
        failures = self._supervisor.failures
        self._state = replace(
            self._state,
            ended="failed" if is_failure else "stopped",
            error=cause,
            is_of_tables=isinstance(error, TablesFailedError) or error in failures.errors.values(),
        )
        self._guarded(self._write_state)
        if self.lineage is not None:
            self._guarded(lambda: self._end_lineage(error if is_failure else None))
        if is_failure:
            self._hooks.failed(self._failure("", cause, is_restarted=False, restarts=0))
        self._hooks.end()

    def _failure(self, query: str, error: str, *, is_restarted: bool, restarts: int) -> QueryFailure:
        now, job = datetime.now(UTC), self._state.job
        return QueryFailure(now, job, self._state.run_id, query, error, is_restarted, restarts)

    def _end_lineage(self, cause: BaseException | None) -> None:
        """Report the last micro-batches and the end of all runs."""
        assert self.lineage is not None  # noqa: S101  # the caller looked
        self._fetch_unread()
        self.lineage.end({name: seen.state.state for name, seen in self._seen.items()}, cause)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; what fails here must not end a job whose rows are right."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  # any library's
            # An error of each second would fill the log with the same lines.
            if type(error).__name__ != self._warned:
                self._warned = type(error).__name__
                _log.warning("the state of the job cannot be recorded", exc_info=error)

    def _look(self) -> None:
        for query in tuple(self._supervisor.queries):
            self._look_at(query, is_retried=self._supervisor.is_retried(query.name))
        failures = self._supervisor.failures
        for name in (*self._supervisor.names, *failures.waits):
            self._seen.setdefault(name, _Seen(self._first_state(name)))
        for name, error in tuple(failures.errors.items()):
            self._look_at_unbuilt(name, error)
        for name, seen in self._seen.items():
            seen.state = replace(seen.state, waits_for=failures.waits.get(name, ""))
        self._write_state()

    def _look_at_unbuilt(self, name: str, error: MedallionError) -> None:
        """A query that has failed: one that cannot be built was never started."""
        seen = self._seen.setdefault(name, _Seen(self._first_state(name)))
        if seen.query is None and seen.state.state != "failed":
            text = one_line(str(error))
            seen.state = replace(seen.state, state="failed", since=datetime.now(UTC), error=text)
            self._hooks.failed(self._failure(name, text, is_restarted=False, restarts=0))

    def _write_state(self) -> None:
        nothing = _Book()
        queries = {
            name: replace(
                seen.state, restarts=max(0, seen.runs - 1), last_batch=self._books.get(name, nothing).last
            )
            for name, seen in self._seen.items()
        }
        self._state = replace(self._state, at=datetime.now(UTC), queries=queries)
        write_state(self._layout.jobs, self._state)

    def _look_at(self, query: RunningQuery, *, is_retried: bool) -> None:
        now = datetime.now(UTC)
        seen = self._seen.setdefault(query.name, _Seen(self._first_state(query.name)))
        if seen.query is not query:
            seen.query, seen.runs = query, seen.runs + 1
        state, failure = _state(query, is_retried=is_retried)
        error = "" if failure is None else one_line(str(failure))
        if state == "restarting" and failure is None:
            error = seen.state.error
        if (state, error) != (seen.state.state, seen.state.error):
            seen.state = replace(seen.state, state=state, since=now, error=error)
            if failure is not None:
                is_restarted, restarts = state == "restarting", max(0, seen.runs - 1)
                self._hooks.failed(
                    self._failure(query.name, error, is_restarted=is_restarted, restarts=restarts)
                )

    def _first_state(self, name: str) -> JobQuery:
        return JobQuery("starting", datetime.now(UTC), has_end=self._supervisor.has_end(name))

    def _follow(self) -> None:
        """Fetch the reports of queries that have finished some micro-batches or have ended."""
        for query in tuple(self._supervisor.queries):
            self._guarded(lambda query=query: self._follow_one(query))  # type: ignore[misc]

    def _follow_one(self, query: RunningQuery) -> None:
        book = self._books.setdefault(query.name, _Book())
        if book.query is not query:
            book.query, book.finished, book.newest = query, 0, -1
            if self.lineage is not None:
                self.lineage.begin(query.name)
        state, failure = _state(query, is_retried=self._supervisor.is_retried(query.name))
        unread = query.state.finished - book.finished
        if unread >= (1 if self._hooks.wants_batches else _FETCH_AFTER) or (
            unread > 0 and state in {"ended", "failed", "restarting"}
        ):
            self._fetch(query, book)
        if self.lineage is not None:
            has_failed = state != "restarting" or failure is not None
            self.lineage.look(query.name, state if has_failed else "waiting", failure)

    def _fetch_unread(self) -> None:
        """Fetch the reports of all queries that have finished a micro-batch since the last fetch."""
        for book in self._books.values():
            if book.query is not None and book.query.state.finished > book.finished:
                self._fetch(book.query, book)

    def _fetch(self, query: RunningQuery, book: _Book) -> None:
        """Fetch the reports of finished micro-batches that were not fetched yet."""
        reports = [
            report
            for report in query.progress()
            if _is_of_batch(report) and int(report["batchId"]) > book.newest
        ]
        if reports:
            commits = self._new_commits(query.name, book)
            rows = [self._row(query.name, report, commits) for report in reports]
            if event_log.is_json():
                _log_batches(rows)
            book.rows += rows
            book.newest, book.last = int(reports[-1]["batchId"]), _facts(reports[-1])
        # Spark publishes a report a moment after the function of the micro-batch has returned.
        book.finished = (
            query.state.finished if len(reports) >= _KEPT_REPORTS else book.finished + len(reports)
        )

    def _row(
        self, name: str, report: Mapping[str, Any], commits: Mapping[int, Mapping[str, Any]]
    ) -> MicroBatchRow:
        batch_id, took = int(report["batchId"]), report.get("durationMs") or {}
        commit = dict(commits.get(batch_id, {}))
        written, rules = commit.pop("rows", None), commit.pop("rules", {})
        facts = _facts(report)
        watermark = (report.get("eventTime") or {}).get("watermark")
        watermark_at = None if watermark is None else datetime.fromisoformat(watermark)
        row = MicroBatchRow(
            ended_at=facts.ended_at,
            job=self._state.job,
            run_id=self._state.run_id,
            query=name,
            batch_id=batch_id,
            rows=self._rows(name, batch_id, written),
            duration_ms=facts.duration_ms,
            latest_offset_ms=took.get("latestOffset"),
            planning_ms=took.get("queryPlanning"),
            add_batch_ms=took.get("addBatch"),
            wal_commit_ms=took.get("walCommit"),
            commit_offsets_ms=took.get("commitOffsets"),
            state_rows=facts.state_rows,
            state_bytes=facts.state_bytes,
            watermark_at=watermark_at if watermark_at and watermark_at.timestamp() > 0 else None,
            **commit,
        )
        if self.lineage is not None:
            self.lineage.finished(row, written, rules)
        self._hooks.finished(row)
        return row

    def _rows(self, name: str, batch_id: int, written: int | None) -> int | None:
        """Rows that a micro-batch read; of a topic's first one, whose begin is not known, those written."""
        checkpoint, declared = Checkpoint(self._layout.checkpoint_path(name)), self._pipeline.query(name)
        try:
            end, start = checkpoint.planned_batch(batch_id), checkpoint.planned_batch(batch_id - 1)
            if end is None or (start is None and batch_id):
                return None
            rows = rows_between(declared, start, end, self._table_log)
        except MedallionError:
            return None
        return written if rows is None and isinstance(declared, Bronze) else rows

    def _new_commits(self, name: str, book: _Book) -> dict[int, dict[str, Any]]:
        """Version, files, bytes and counts by micro-batch, from the commits since the last call."""
        log = self._table_log(name)
        latest = log.latest_version()
        found: dict[int, dict[str, Any]] = {}
        if latest is None:
            return found
        begin = max(0, latest - 50) if book.version is None else book.version + 1
        for version in range(begin, latest + 1):
            commit = log.commit(version)
            metadata = {} if commit is None else commit.metadata
            if (
                commit is None
                or metadata.get("query") != name
                or not isinstance(metadata.get("batch_id"), int)
            ):
                continue
            facts = found.setdefault(metadata["batch_id"], {"files": 0, "bytes": 0, "rows": 0})
            facts |= {
                "version": version,
                "files": facts["files"] + commit.files,
                "bytes": facts["bytes"] + commit.bytes,
                "rows": facts["rows"] + (commit.rows or 0),
            }
            counts = metadata.get("counts")
            if isinstance(counts, dict):
                facts |= {each: counts[each] for each in _COUNTS if isinstance(counts.get(each), int)}
                facts |= {"rules": counts["rules"]} if isinstance(counts.get("rules"), dict) else {}
        book.version = latest
        log.forget_before(latest - 50)
        return found

    def _table_log(self, table: str) -> LogReader:
        return self._logs.setdefault(table, LogReader(self._layout.table_path(table)))

    def _flush(self) -> None:
        """Write the rows since the last flush to the history, with the model's lag and freshness now."""
        self._flushed = time.monotonic()
        self._guarded(self._fetch_unread)
        if not self._books:
            return
        # Taken first: rows that cannot be written are lost, and never pile up in a job of a year.
        taken = {name: book.rows for name, book in self._books.items()}
        for name in taken:
            self._books[name].rows = []
        status = self._model()
        tables = {} if status is None else {table.table: table for table in status.tables}
        at = datetime.now(UTC) if status is None else status.at
        rows = [
            row for name, own in taken.items() for row in self._with_model(name, own, tables.get(name), at)
        ]
        for log in self._logs.values():
            if (latest := log.latest_version()) is not None:
                log.forget_before(latest - 50)
        if rows:
            micro_batches.append(self._path, rows)
            self._writes += 1

    def _model(self) -> Status | None:
        """The model now; None if it cannot be computed, which costs the history only the model's numbers."""
        found: list[Status] = []
        self._guarded(lambda: found.append(self._collector.collect()))
        return found[0] if found else None

    def _tidy(self) -> None:
        """Tidy the history now and then, the first time soon: some jobs restart often."""
        if self._writes >= self._tidy_at:
            self._tidy_at = self._writes + _TIDY_EVERY
            micro_batches.tidy(self._path, self._keep)

    def _with_model(
        self, name: str, taken: Sequence[MicroBatchRow], table: TableStatus | None, at: datetime
    ) -> Sequence[MicroBatchRow]:
        """A query's rows; the newest has the model's numbers, which are those of the table now."""
        if table is None:
            return taken
        rows = list(taken)
        if not rows:
            if not table.lag.count:
                return ()
            rows = [MicroBatchRow(at, self._state.job, self._state.run_id, name)]
        fresh = table.freshness
        rows[-1] = replace(
            rows[-1],
            newest_kafka_at=None if fresh is None else fresh.newest_at,
            waiting_kafka_at=None if fresh is None else fresh.waiting_since,
            waiting_seconds=None if fresh is None else fresh.waiting_seconds(at),
            lag_rows=table.lag.count,
            lag_bytes=table.lag.bytes,
            lag_files=table.lag.files,
            lag_seconds=table.lag.seconds,
        )
        return rows


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Run a recorder in two threads inside the block; it records how the block ends."""
    recorder.tell_of_kill()
    threads = (
        threading.Thread(target=recorder.run, name="medallion-recorder", daemon=True),
        threading.Thread(target=recorder.keep_books, name="medallion-history", daemon=True),
    )
    for thread in threads:
        thread.start()
    error: BaseException | None = None
    try:
        yield recorder
    except BaseException as caught:
        error = caught
        raise
    finally:
        recorder.stop()
        for thread in threads:
            thread.join(_END_SECONDS)
        recorder.end(error)


def _log_batches(rows: Sequence[MicroBatchRow]) -> None:
    """One event per micro-batch."""
    for row in rows:
        facts = {"job": row.job, "query": row.query, "batch_id": row.batch_id, "rows": row.rows}
        _log.info(
            "micro-batch", extra={**facts, "duration_ms": row.duration_ms, "quarantined": row.quarantined}
        )


def _state(query: RunningQuery, *, is_retried: bool) -> tuple[Any, Exception | None]:
    """The state of a query, of those in ``job_state.JobQueryState``, and what it failed with.

    A query that was restarted and has yet to finish a look for data is ``restarting``, without a new failure.
    """
    failure = query.failure()
    if is_retried:
        return "restarting", failure
    if query.is_active:
        return ("working" if query.state.in_batch else "waiting"), None
    return ("ended" if failure is None else "failed"), failure


def _is_of_batch(report: Mapping[str, Any]) -> bool:
    """Whether a report is of a micro-batch: an idle query reports too, with the id of its next batch."""
    return "batchId" in report and "addBatch" in (report.get("durationMs") or {})


def _facts(report: Mapping[str, Any]) -> BatchFacts:
    """Facts of a micro-batch from Spark's progress report."""
    took = {name: int(ms) for name, ms in (report.get("durationMs") or {}).items()}
    operators = report.get("stateOperators") or ()
    began = datetime.fromisoformat(str(report["timestamp"]))
    duration = took.pop("triggerExecution", int(report.get("batchDuration") or 0))
    return BatchFacts(
        batch_id=int(report["batchId"]),
        ended_at=began.astimezone(UTC) + timedelta(milliseconds=duration),
        duration_ms=duration,
        phases_ms=took,
        state_rows=sum(int(one["numRowsTotal"]) for one in operators) if operators else None,
        state_bytes=sum(int(one["memoryUsedBytes"]) for one in operators) if operators else None,
    )
