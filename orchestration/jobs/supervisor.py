"""Starts queries, supervises them, and stops them at a micro-batch boundary.

All queries of a process end together: at SIGINT, SIGTERM or SIGHUP, or when one query fails. A query that
fails for a temporary reason (a schema registry that does not answer) is restarted instead, with growing
pauses, while the other queries go on.

A stop first closes the gate, so that no query starts another micro-batch, and then stops each query as soon
as it is idle. A second signal or the deadline stops queries inside a micro-batch; the next start replays it.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.errors import MedallionError, SourceChangedError
from common.machine.console import say
from common.machine.stop_signals import handled
from common.streaming.query import Gate, RunningQuery, Stream, start
from common.streaming.wake_up import CommitNotifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2
_BROKER_SECONDS = 1.0
_GONE_SECONDS = 10.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_GIVE_UP_SECONDS = 120.0


class StopSignal:
    """The request to stop, by SIGINT, SIGTERM, SIGHUP or ``request``; ``count`` is the number of requests."""

    def __init__(self) -> None:
        self.count = 0
        self._requested = threading.Event()

    def request(self) -> None:
        """Request a stop, as a signal does."""
        self.count += 1
        self._requested.set()

    def is_requested(self) -> bool:
        """Whether a stop was requested."""
        return self._requested.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a request, at most this long; returns whether a stop was requested."""
        return self._requested.wait(seconds)

    @contextmanager
    def installed(self) -> Iterator[StopSignal]:
        """Handle the signals inside the block. Enter it after Spark's start, which sets a SIGINT handler."""
        with handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), lambda number: self.request()):
            yield self


@contextmanager
def term_interrupts() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, so that a job stopped during its start cleans up."""

    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    with handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@dataclass
class _Retry:
    """A query that failed for a temporary reason and is restarted. Times are those of ``time.monotonic``.

    Attributes:
        began: Time of the first failure.
        pause: Seconds until the next restart; doubles with each failure.
        due: Time of the next restart; None after a restart, until the first finished micro-batch.
    """

    began: float
    pause: float
    due: float | None

    def postpone(self, now: float) -> None:
        """Schedule the next restart after another failure."""
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)
        self.due = now + self.pause


class Supervisor:
    """Starts and supervises the queries of one process.

    A query with ``available_now`` that keeps failing for a temporary reason fails for good after
    ``give_up_seconds``; a query that runs forever is restarted without limit.
    """

    def __init__(
        self,
        spark: SparkSession,
        stop: StopSignal,
        *,
        stop_timeout_seconds: float,
        give_up_seconds: float = _GIVE_UP_SECONDS,
        broker_failure: Callable[[], MedallionError | None] = lambda: None,
    ) -> None:
        """Create the supervisor.

        Args:
            spark: The session.
            stop: The request to stop.
            stop_timeout_seconds: How long a stop waits for a micro-batch boundary.
            give_up_seconds: How long a bounded query is restarted.
            broker_failure: Called once a second: the error for a broker that has ended, which ends the run.
        """
        self._broker_failure, self._broker_checked = broker_failure, time.monotonic()
        self._spark, self._stop = spark, stop
        self._give_up = give_up_seconds
        self._bounded: set[str] = set()
        self._retries: dict[str, _Retry] = {}
        self._timeout = stop_timeout_seconds
        self.gate = Gate()
        self.notifier = CommitNotifier()
        self.watch: Callable[[], MedallionError | None] = lambda: None
        """Looked at in every poll of ``run``: a reason to stop all queries; None while there is none."""
        self.queries: list[RunningQuery] = []
        self._waiting: list[tuple[Stream, Callable[[], bool]]] = []

    def start(
        self,
        streams: Sequence[Stream] | Iterator[Stream],
        *,
        available_now: bool = False,
        when: Callable[[Stream], bool] | None = None,
    ) -> None:
        """Start queries in the given order.

        ``run`` and ``poll`` start the queries that have to wait.

        Args:
            streams: The queries.
            available_now: Process the available data, then end. A query then waits until the queries that
                write the tables that it reads have ended.
            when: Condition under which a query may start; unset: at once.
        """
        when = self._is_fed if available_now else when
        with ExitStack() as on_failure:
            # The queries that run already stop at a micro-batch boundary.
            on_failure.callback(self.end)
            self._start(streams, available_now=available_now, when=when)
            on_failure.pop_all()

    def _start(
        self,
        streams: Sequence[Stream] | Iterator[Stream],
        *,
        available_now: bool,
        when: Callable[[Stream], bool] | None,
    ) -> None:
        for stream in streams:
            if self._stop.is_requested():
                return
            if available_now:
                self._bounded.add(stream.name)
            if when is not None and not when(stream):
                self._waiting.append((stream, functools.partial(when, stream)))
                continue
            self.queries.append(self._begin(stream, available_now=available_now))

    def _begin(self, stream: Stream, *, available_now: bool) -> RunningQuery:
        return start(self._spark, stream, self.gate, self.notifier, available_now=available_now)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables of the queries: first those of running queries, then those of waiting ones."""
        return (*(query.name for query in self.queries), *(stream.name for stream, _ in self._waiting))

    def is_retried(self, name: str) -> bool:
        """Whether a query has failed for a temporary reason and is restarted."""
        return name in self._retries

    def poll(self) -> MedallionError | None:
        """Start waiting queries whose condition is met; the error of the first failed query, if any."""
        self._stop_closed()
        for waiting in list(self._waiting):
            stream, is_ready = waiting
            if is_ready() and not self._stop.is_requested():
                self._waiting.remove(waiting)
                is_bounded = stream.name in self._bounded
                self.queries.append(self._begin(stream, available_now=is_bounded))
        for place, query in enumerate(self.queries):
            self._restart_after_failure(place, query)
        return self._first_failure()

    def stop_query(self, name: str) -> None:
        """Stop one query at a micro-batch boundary, for the rest of the run; the others go on.

        May be called from any thread. ``poll`` stops the query.
        """
        self.gate.closed_for.add(name)

    def _stop_closed(self) -> None:
        """Stop queries that may start no micro-batch, and forget those that wait for their start."""
        closed = self.gate.closed_for
        if not closed:
            return
        self._waiting = [waiting for waiting in self._waiting if waiting[0].name not in closed]
        for query in self.queries:
            if query.name in closed:
                self._retries.pop(query.name, None)
                if query.is_active and query.is_idle:
                    query.stop()

    def _is_fed(self, stream: Stream) -> bool:
        """Whether no query of this process still has to write a table that ``stream`` reads."""
        waiting = {other.name for other, _ in self._waiting}
        active = {query.name for query in self.queries if query.is_active or self._needs_rebuild(query)}
        return (waiting | active | self._retries.keys()).isdisjoint(stream.reads)

    def _restart_after_failure(self, place: int, query: RunningQuery) -> None:
        """Restart a query that failed for a temporary reason, once its pause is over; report it once."""
        if query.name in self.gate.closed_for:
            return
        failure, retry = query.failure(), self._retries.get(query.name)
        now = time.monotonic()
        if failure is None:
            if retry is not None and (not query.is_active or any(True for _ in query.progress())):
                del self._retries[query.name]
                say(f"{query.name}: works again, after {now - retry.began:.0f} s")
        elif isinstance(failure, SourceChangedError):
            self._rebuild(place, query)
        elif failure.retryable:
            if retry is None:
                self._retries[query.name] = _Retry(now, _SHORTEST_PAUSE, now + _SHORTEST_PAUSE)
                say(f"{failure} {query.name} waits and is restarted; the other queries go on")
            elif retry.due is None:
                retry.postpone(now)
            elif now >= retry.due and not self._stop.is_requested() and not self._is_given_up(query.name):
                retry.due = None
                is_bounded = query.name in self._bounded
                self.queries[place] = self._begin(query.stream, available_now=is_bounded)

    def _rebuild(self, place: int, query: RunningQuery) -> None:
        """Rebuild a query whose source has new columns; it goes on from its checkpoint."""
        if query.stream.again is not None and not self._stop.is_requested():
            say(f"{query.name}: the table that it reads has new columns; the query is restarted with them")
            stream, is_bounded = query.stream.again(), query.name in self._bounded
            self.queries[place] = self._begin(stream, available_now=is_bounded)

    def _is_given_up(self, name: str) -> bool:
        retry = self._retries.get(name)
        return name in self._bounded and (retry is None or time.monotonic() - retry.began > self._give_up)

    def run(self, each_poll: Callable[[], None] = lambda: None, *, keep_open: bool = False) -> None:
        """Supervise until all queries have ended, one has failed, or a stop is requested; then stop the rest.

        With ``keep_open``, more queries may be started after all have ended by themselves.

        Raises:
            MedallionError: The error of the first query that failed.
        """
        failure: MedallionError | None = None
        timeout = self._timeout
        try:
            while not self._stop.is_requested():
                if (failure := self._lost_broker()) is not None:
                    # A query that waits for what is gone reaches no boundary.
                    timeout = min(timeout, _GONE_SECONDS)
                    break
                failure = self.poll() or self.watch()
                if failure is not None or not (self._waiting or self._retries or self._is_any_active()):
                    break
                each_poll()
                self._stop.wait(_POLL_SECONDS)
        finally:
            if not keep_open or self._stop.is_requested() or self._is_any_active():
                self.end(timeout)
        failure = failure or self._first_failure()
        if failure is not None:
            raise failure

    def _lost_broker(self) -> MedallionError | None:
        if time.monotonic() - self._broker_checked < _BROKER_SECONDS:
            return None
        self._broker_checked = time.monotonic()
        return self._broker_failure()

    def end(self, timeout_seconds: float | None = None) -> list[str]:
        """Stop every query at a micro-batch boundary, or after the timeout inside of a micro-batch.

        Returns:
            The tables of the queries that were stopped inside a micro-batch.
        """
        self.gate.close()
        deadline = time.monotonic() + (self._timeout if timeout_seconds is None else timeout_seconds)
        requests = self._stop.count
        active = [query for query in self.queries if query.is_active]
        while active and time.monotonic() < deadline and self._stop.count <= max(requests, 1):
            for query in active:
                if query.is_idle:
                    query.stop()
            active = [query for query in active if query.is_active]
            if active:
                time.sleep(0.05)
        for query in active:
            query.stop()
        return [query.name for query in active]

    def _is_any_active(self) -> bool:
        return any(query.is_active or self._needs_rebuild(query) for query in self.queries)

    def _needs_rebuild(self, query: RunningQuery) -> bool:
        """Whether the query failed because its source has new columns, which the next poll repairs."""
        is_changed = isinstance(query.failure(), SourceChangedError)
        return is_changed and query.stream.again is not None and not self._stop.is_requested()

    def _first_failure(self) -> MedallionError | None:
        """The error of the first failed query that is not restarted."""
        for query in self.queries:
            failure = query.failure()
            if failure is None or self._needs_rebuild(query):
                continue
            if not failure.retryable or (self._is_given_up(query.name) and not self._stop.is_requested()):
                return failure
        return None
