"""Starts queries, supervises them, and stops them at a micro-batch boundary.

A query that fails for a transient cause (broker, registry or object store away, a conflict of commits) is
restarted, with growing pauses (``orchestration.run.failures.restart_schedule``). A query that cannot be
built, or that fails by its data, or by something that a person has to change, stays stopped. The others go on
in both cases; in a run with an end those that read its table wait. The run ends at SIGINT, SIGTERM or SIGHUP,
or when no query is left; with ``fail_fast`` at the first failure; in a run with an end at one that is no
table's own (``table_failures.is_of_job``).

A stop first closes the gate, so that no query starts another micro-batch, and then stops each query as soon
as it is idle. A second signal or the deadline stops queries inside a micro-batch; the next start replays it.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from common.errors import (
    BrokerAwayError,
    MedallionError,
    RegistryError,
    RowFailedError,
    SourceChangedError,
    SourceReplacedError,
)
from common.machine.console import awaited, say
from common.machine.service_manager import ServiceManager
from common.machine.stop_signals import handled, interrupt
from common.streaming.query import Gate, RunningQuery, Stream, Unbuilt, failure_of, start
from common.streaming.turns import Turns
from common.streaming.wake_up import CommitNotifier
from orchestration.run.failures.healing import Healing
from orchestration.run.failures.restart_notices import RestartNotices
from orchestration.run.failures.restart_schedule import RestartPolicy, Restarts
from orchestration.run.failures.table_failures import TableFailures, is_of_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
Condition = Callable[[Stream], bool]

_POLL_SECONDS, _BOUNDARY_SECONDS = 0.2, 0.05
_BROKER_SECONDS = 1.0
_GONE_SECONDS = 10.0
_ASIDE_SECONDS = 0.5
"""How often queries are looked at that wait for a table."""
_MOST_REBUILDS = 3
"""How often a query whose source has new columns is built again before it has read anything."""


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
    with handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


class Supervisor:
    """Starts and supervises the queries of one process."""

    def __init__(  # noqa: PLR0913  # what the queries of a process share
        self,
        spark: SparkSession,
        stop: StopSignal,
        *,
        stop_timeout_seconds: float,
        policy: RestartPolicy | None = None,
        states: Path | None = None,
        broker_failure: Callable[[], MedallionError | None] = lambda: None,
        failures: TableFailures | None = None,
    ) -> None:
        """Create a supervisor without queries.

        Args:
            stop_timeout_seconds: How long a stop waits for a micro-batch boundary.
            policy: How queries are restarted; unset: the defaults.
            states: Folder for the failures and restarts of the queries; unset: they are not written.
            broker_failure: Called once a second: the error for a broker that has ended, which ends the run.
            failures: What has failed, and what waits; shared with what builds the queries.
        """
        self._broker_failure, self._broker_checked = broker_failure, time.monotonic()
        self._spark, self._stop = spark, stop
        self._policy = policy or RestartPolicy()
        self._notices = RestartNotices(states)
        self._bounded: set[str] = set()
        self._restarts: dict[str, Restarts] = {}
        self.failures = failures or TableFailures()
        self._aside: dict[str, tuple[Unbuilt, Condition | None]] = {}
        self._aside_looked = 0.0
        self._healing = Healing(self._policy)
        self._rebuilt: Counter[str] = Counter()
        self._changing = threading.RLock()
        self._pausing = 0
        self._is_cut = False
        self.beside: list[threading.Thread] = []
        self._timeout = stop_timeout_seconds
        self.gate = Gate()
        self.notifier = CommitNotifier()
        self.turns = Turns()
        self._service = ServiceManager()
        self.watch: Callable[[], MedallionError | None] = lambda: None
        """Looked at in every poll of ``run``: a reason to stop all queries; None while there is none."""
        self.queries: list[RunningQuery] = []
        self._waiting: list[tuple[Stream, Callable[[], bool]]] = []

    def start(
        self,
        streams: Iterable[Stream | Unbuilt],
        *,
        available_now: bool = False,
        when: Condition | None = None,
    ) -> None:
        """Start queries in the given order.

        ``run`` and ``poll`` start the queries that have to wait. One that cannot be built, or that Spark does
        not start, has failed; it is built again when it is resumed.

        Args:
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
        self, streams: Iterable[Stream | Unbuilt], *, available_now: bool, when: Condition | None
    ) -> None:
        for stream in streams:
            if self._stop.is_requested():
                return
            if available_now:
                self._bounded.add(stream.name)
            self._notices.clear(stream.name)
            if isinstance(stream, Unbuilt):
                self._set_aside(stream, when)
            elif when is not None and not when(stream):
                self._waiting.append((stream, functools.partial(when, stream)))
            else:
                self._begin_first(stream, when)

    def _begin_first(self, stream: Stream, when: Condition | None, *, is_late: bool = False) -> None:
        """Start a query; one that Spark does not start is set aside.

        Args:
            is_late: Whether it has waited: what it waited for may be there since it was built.

        Raises:
            MedallionError: The failure is none of the query's own, or the query is one of bronze.
        """
        try:
            if is_late and stream.is_awaited and stream.again is not None:
                stream = stream.again()
            self.queries.append(self._begin(stream, available_now=stream.name in self._bounded))
        except MedallionError as error:
            if is_of_job(error) or stream.name.startswith("bronze."):
                raise
            self._set_aside(Unbuilt(stream.name, stream.reads, error, stream.again or (lambda: stream)), when)

    def _set_aside(self, unbuilt: Unbuilt, when: Condition | None) -> None:
        """Keep a query that cannot be built, or that waits for a table or for a query that has failed."""
        name = unbuilt.name
        self._aside[name] = unbuilt, when
        if unbuilt.awaits and name not in self._bounded:
            self._notices.await_table(name, unbuilt.awaits)
        elif unbuilt.error is not None:
            self._fail(name, unbuilt.error)
        elif (failed := self.failures.behind(unbuilt.reads)) is not None:
            self._wait([name], failed)

    def _awaiting(self) -> Iterator[Unbuilt]:
        """The queries that are built once what they wait for is there."""
        for unbuilt, _ in list(self._aside.values()):
            if unbuilt.name not in self.failures.errors and self.failures.behind(unbuilt.reads) is None:
                yield unbuilt

    def _look_at_aside(self) -> None:
        if time.monotonic() - self._aside_looked > _ASIDE_SECONDS:
            self._aside_looked = time.monotonic()
            for unbuilt in self._awaiting():
                if unbuilt.is_there():
                    self._build(unbuilt.name)

    def _wait(self, names: Sequence[str], failed: str) -> None:
        """Note that queries wait for one that has failed, and say so."""
        self.failures.waits |= dict.fromkeys(names, failed)
        self._notices.wait_for(names, failed)

    def _build(self, name: str) -> None:
        """Build a query again that was set aside, and start it."""
        unbuilt, when = self._aside.pop(name)
        self.failures.forget(name)
        try:
            stream = unbuilt.build()
        except MedallionError as error:
            self._set_aside(replace(unbuilt, error=error, awaits=""), when)
        else:
            self._start([stream], available_now=name in self._bounded, when=when)

    def _begin(self, stream: Stream, *, available_now: bool) -> RunningQuery:
        return start(
            self._spark, stream, self.gate, self.notifier, available_now=available_now, turns=self.turns
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The tables of the queries: first those of running queries, then those of waiting ones."""
        waiting = (*(stream.name for stream, _ in self._waiting), *(one.name for one in self._awaiting()))
        return (*(query.name for query in self.queries), *waiting)

    def has_end(self, name: str) -> bool:
        """Whether a query processes the available data and ends."""
        return name in self._bounded

    def is_retried(self, name: str) -> bool:
        """Whether a query has failed for a temporary reason and is restarted."""
        restarts = self._restarts.get(name)
        return restarts is not None and restarts.began is not None and name not in self.failures.errors

    def poll(self) -> MedallionError | None:
        """Start waiting queries whose condition is met, and restart failed ones that are due.

        Returns:
            The error that ends the run: one that is no table's own in a run with an end; with ``fail_fast``
            any.
        """
        # While another thread has the queries to itself, for minutes at times, the loop goes on and is alive.
        if self._changing.acquire(blocking=False):
            try:
                self._look_at_all()
            finally:
                self._changing.release()
        if self._stop.is_requested():
            return None
        return next((e for name, e in self.failures.errors.items() if self._ends_run(name, e)), None)

    def _look_at_all(self) -> None:
        self._stop_closed()
        for waiting in list(self._waiting):
            stream, is_ready = waiting
            if stream.name in self._bounded and (failed := self.failures.behind(stream.reads)) is not None:
                self._waiting.remove(waiting)
                self._wait([stream.name], failed)
            elif is_ready() and not self._stop.is_requested():
                self._waiting.remove(waiting)
                self._begin_first(stream, None, is_late=True)
        for place, query in enumerate(self.queries):
            self._supervise(place, query)
        self._look_at_aside()

    @contextmanager
    def between_batches(self, queries: Sequence[str]) -> Iterator[None]:
        """Have the tables of some queries to oneself inside the block, between two of their micro-batches."""
        with self.turns.take_all(queries):
            yield
            for query in self.queries:
                if query.name in queries:
                    query.stream.refresh()

    def begin_again(self, name: str, between: Callable[[], Result]) -> Result:
        """Stop a query at a micro-batch boundary, do something, and start the query, built again.

        Called by another thread than the one that supervises.

        Returns:
            The result of ``between``.
        """
        self._pausing += 1
        try:
            for query in [one for one in self.queries if one.name == name]:
                query.leave()
                while query.is_active:
                    if query.is_idle:
                        query.stop()
                    else:
                        time.sleep(_BOUNDARY_SECONDS)
            with self._changing:
                result = between()
                for place, query in enumerate(self.queries):
                    if query.name == name and not self._stop.is_requested():
                        self.failures.forget(name)
                        self._restart(place, query)
                if name in self._aside and not self._stop.is_requested():
                    self._build(name)
            return result
        finally:
            self._pausing -= 1

    def _ends_run(self, name: str, failure: MedallionError) -> bool:
        return self._policy.fail_fast or (name in self._bounded and is_of_job(failure))

    def stop_query(self, name: str) -> None:
        """Stop one query at a micro-batch boundary, for the rest of the run; the others go on.

        May be called from any thread. ``poll`` stops the query.
        """
        self.gate.closed_for.add(name)

    def hold(self, name: str) -> None:
        """Stop one query at a micro-batch boundary, until ``resume``; returns once it has stopped.

        Called by another thread than the one that supervises. The job goes on, also without any other query.
        """
        self.gate.held.add(name)
        while any(query.name == name and query.is_active for query in self.queries):
            time.sleep(_BOUNDARY_SECONDS)

    def resume(self, name: str, streams: Iterable[Stream | Unbuilt], when: Condition) -> None:
        """Start a query again that was held, or that has failed for good, built again.

        What has waited for it is started by the next poll. One that fails again is in ``failures``.

        Called by another thread than the one that supervises.

        Args:
            when: Condition under which it may start, as for ``start``.

        Raises:
            MedallionError: It is refused, or cannot be built.
        """
        self._pausing += 1
        try:
            with self._changing:
                built = tuple(streams)
                for one in built:
                    if isinstance(one, Unbuilt) and one.error is not None:
                        raise one.error  # a query that is refused stays held
                self.failures.forget(name)
                self._aside.pop(name, None)
                self._restarts.pop(name, None)
                self._healing.forget(name)
                self._waiting = [waiting for waiting in self._waiting if waiting[0].name != name]
                self.queries = [query for query in self.queries if query.name != name]
                self.gate.held.discard(name)
                self._start(built, available_now=False, when=when)
        finally:
            self._pausing -= 1

    def is_running(self, name: str) -> bool:
        """Whether a query is active, waits for its first rows, or is about to be restarted."""
        if self.gate.keeps_out(name) or name in self.failures.errors:
            return False
        return any(query.name == name and query.is_active for query in self.queries) or (
            self.is_retried(name) or name in self.names[len(self.queries) :]
        )

    def _stop_closed(self) -> None:
        """Stop queries that may start no micro-batch, and forget those that wait for their start."""
        keeps_out = self.gate.keeps_out
        if not self.gate.closed_for and not self.gate.held:
            return
        self._waiting = [waiting for waiting in self._waiting if not keeps_out(waiting[0].name)]
        for query in self.queries:
            if keeps_out(query.name):
                self._restarts.pop(query.name, None)
                if query.is_active and query.is_idle:
                    query.stop()

    def _is_fed(self, stream: Stream) -> bool:
        """Whether no query of this process still has to write a table that ``stream`` reads."""
        waiting = {other.name for other, _ in self._waiting}
        active = {query.name for query in self.queries if query.is_active or self._is_undecided(query)}
        failing = {name for name, restarts in self._restarts.items() if restarts.began is not None}
        return (waiting | active | failing).isdisjoint(stream.reads)

    def _supervise(self, place: int, query: RunningQuery) -> None:
        """Restart a query that failed for a transient cause, once its pause is over; report each change."""
        if self.gate.keeps_out(query.name):
            return
        failure = query.failure()
        if failure is None:
            self._note_that_it_works(query)
            self._limit(place, query)
        elif query.name in self.failures.errors:
            self._heal(place, query)
        elif isinstance(failure, SourceChangedError):
            self._rebuild(place, query)
        elif self._is_retried(failure):
            self._retry(place, query, failure)
        elif isinstance(failure, RowFailedError) and self._is_read_further(query.stream):
            self._restart(place, query)
        else:
            self._fail(query.name, failure)

    def _is_read_further(self, stream: Stream) -> bool:
        """Whether the next attempt at a micro-batch that has failed at a row reads newer commits."""
        return self._healing.failed(stream) and self._healing.has_newer(stream)

    def _heal(self, place: int, query: RunningQuery) -> None:
        """Try a query again that has failed at a row, once its sources have newer commits."""
        name = query.name
        if name in self._bounded or not self._healing.is_watched(name) or self._stop.is_requested():
            return
        if self._healing.is_due(query.stream):
            self.failures.forget(name)
            self._restart(place, query)

    def _retry(self, place: int, query: RunningQuery, failure: MedallionError) -> None:
        if query.name not in self._restarts:
            self._restarts[query.name] = Restarts(self._policy, query.name in self._bounded)
        restarts = self._restarts[query.name]
        if restarts.due is None:
            restarts.failed()
            self._notices.waits(query.name, failure, restarts)
        elif restarts.is_due() and not self._stop.is_requested():
            if restarts.is_given_up():
                self._fail(query.name, failure)
                return
            restarts.restarted()
            self._notices.restarted(query.name, failure, restarts)
            self._restart(place, query)

    def _restart(self, place: int, query: RunningQuery) -> None:
        """Build a query again from its tables and start it; a failure counts as one more of the query."""
        stream, is_bounded = query.stream, query.name in self._bounded
        try:
            stream = stream if stream.again is None else stream.again()
            self.queries[place] = self._begin(stream, available_now=is_bounded)
        except (MedallionError, PySparkException, Py4JJavaError, OSError) as error:
            failure = failure_of(query.name, error)
            # A query that failed before is found failed by the next poll, which schedules its next restart.
            if query.failure() is None or not self._is_retried(failure):
                self._fail(query.name, failure)

    def _note_that_it_works(self, query: RunningQuery) -> None:
        if self._healing.is_watched(query.name) and any(True for _ in query.progress()):
            self._healing.forget(query.name)
            self._notices.works(query.name)
        if query.name in self._rebuilt and any(True for _ in query.progress()):
            del self._rebuilt[query.name]
        restarts = self._restarts.get(query.name)
        if restarts is None or restarts.began is None:
            return
        # Spark reports progress of a finished micro-batch, and of a look for data that succeeded.
        if not query.is_active or any(True for _ in query.progress()):
            self._notices.works(query.name, restarts.works())

    def _limit(self, place: int, query: RunningQuery) -> None:
        """Build a query again whose first micro-batch had no limit, so that the next ones have theirs."""
        if query.name in self._bounded or self._stop.is_requested():
            return  # it ends with what is there now
        if query.is_active and query.lacks_limit and query.is_idle:
            query.stop()
            self._restart(place, query)

    def _fail(self, name: str, failure: MedallionError) -> None:
        self.failures.failed(name, failure)
        may_heal = self._healing.is_watched(name) and name not in self._bounded
        is_told = self._ends_run(name, failure) or self._healing.is_again(name)
        self._notices.failed(name, failure, is_told=is_told, may_heal=may_heal)
        running = {query.name for query in self.queries}
        if waiting := [query for query in self.failures.hang_on(name) if query in running]:
            self._wait(waiting, name)

    def _is_retried(self, failure: MedallionError) -> bool:
        is_always = isinstance(failure, (RegistryError, BrokerAwayError, SourceChangedError))
        return failure.retryable and (is_always or not self._policy.fail_fast)

    def _rebuild(self, place: int, query: RunningQuery) -> None:
        """Rebuild a query whose source has new columns; it goes on from its checkpoint.

        One that fails so time after time, and reads nothing in between, has lost its source: columns were
        removed, renamed or got another type.
        """
        if self._rebuilt[query.name] >= _MOST_REBUILDS:
            source = ", ".join(query.stream.reads) or query.stream.source
            self._fail(query.name, SourceReplacedError(query.name, source, query.stream.checkpoint))
        elif query.stream.again is not None and not self._stop.is_requested():
            self._rebuilt[query.name] += 1
            say(f"{query.name}: the table that it reads has new columns; the query is restarted with them")
            try:
                stream = query.stream.again()
            except MedallionError as error:  # a column of another type, say: the other queries go on
                self._fail(query.name, error)
                return
            self.queries[place] = self._begin(stream, available_now=query.name in self._bounded)

    def run(self, each_poll: Callable[[], None] = lambda: None, *, keep_open: bool = False) -> None:
        """Supervise until no query is left, a failure ends the run, or a stop is requested; stop the rest.

        With ``keep_open``, more queries may be started after all have ended by themselves; what has failed is
        told by ``outcome``.

        Raises:
            MedallionError: What ended the run; else what tells of all queries that have failed for good.
        """
        failure: MedallionError | None = None
        timeout = self._timeout
        try:
            while not self._stop.is_requested():
                self._service.alive()
                if (failure := self._lost_broker()) is not None:
                    # A query that waits for what is gone reaches no boundary.
                    timeout = min(timeout, _GONE_SECONDS)
                    break
                failure = self.gate.lost_lease() or self.poll() or self.watch()
                if failure is not None or not self._is_any_left():
                    break
                each_poll()
                self._stop.wait(_POLL_SECONDS)
        finally:
            if not keep_open or self._stop.is_requested() or self._is_any_active():
                self.end(timeout)
        failure = failure or (None if keep_open else self.outcome())
        if failure is not None:
            raise failure

    def _lost_broker(self) -> MedallionError | None:
        if time.monotonic() - self._broker_checked < _BROKER_SECONDS:
            return None
        self._broker_checked = time.monotonic()
        return self._broker_failure()

    @awaited("the micro-batches that run")
    def end(self, timeout_seconds: float | None = None) -> list[str]:
        """Stop every query at a micro-batch boundary, or after the timeout inside of a micro-batch.

        Returns:
            The tables of the queries that were stopped inside a micro-batch.
        """
        self._service.stopping()
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
        self._is_cut |= bool(active)
        return [query.name for query in active]

    @property
    def is_at_rest(self) -> bool:
        """Whether no query runs, none has failed or was stopped inside a micro-batch, and no thread writes.

        After a query that was stopped inside one, its commit may still be under way in this process; after
        one that has failed, tasks of Spark that are being cancelled.
        """
        if self._is_cut or self._is_any_active() or any(thread.is_alive() for thread in self.beside):
            return False
        return all(query.failure() is None for query in self.queries)

    def _is_any_left(self) -> bool:
        """Whether a query runs, or may run again."""
        if self._pausing or self.gate.held or self._is_any_active():
            return True
        errors = self.failures.errors
        is_failing = any(name not in errors and one.began is not None for name, one in self._restarts.items())
        # A waiting query waits for the rows of another one, or for its end.
        is_awaited = any(not errors or stream.name in self._bounded for stream, _ in self._waiting)
        may_heal = any(self._healing.is_watched(name) for name in errors if name not in self._bounded)
        return is_failing or is_awaited or may_heal or any(True for _ in self._awaiting())

    def _is_any_active(self) -> bool:
        return any(query.is_active or self._is_undecided(query) for query in self.queries)

    def _is_undecided(self, query: RunningQuery) -> bool:
        """Whether the query failed and the next poll decides what follows; until then it is not at its end.

        A query may fail between a poll and the look whether any query is left.
        """
        name, failure = query.name, query.failure()
        if failure is None or name in self.failures.errors or self.gate.keeps_out(name):
            return False
        is_repairable = not isinstance(failure, SourceChangedError) or query.stream.again is not None
        return is_repairable and not self._stop.is_requested()

    def outcome(self) -> MedallionError | None:
        """What tells of all queries that have failed, and of those that wait; None where none has failed."""
        for query in self.queries:
            failure = query.failure()
            if failure is not None and not self._is_undecided(query) and not self._is_retried(failure):
                self.failures.failed(query.name, failure)
        return self.failures.error()
