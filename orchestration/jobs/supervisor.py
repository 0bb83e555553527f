"""Starts queries, watches them, and ends them at a micro-batch boundary.

All queries of a process end together: by SIGINT or SIGTERM, or because one of them died. One that died
of something that passes (a schema registry that does not answer) is started again instead, after a pause
that grows, while the others go on.

A stop first closes the gate, so that no query begins another micro-batch, and stops each as soon as it is
idle. A second signal, or the deadline, stops them where they are: what was running is replayed next time.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from common.errors import MedallionError, SourceChangedError
from common.machine.console import say
from common.streaming.query import Gate, RunningQuery, Stream, start
from common.streaming.wake_up import Waking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_GIVE_UP_SECONDS = 120.0


class StopSignal:
    """SIGINT and SIGTERM, as a fact that can be asked for; counts how often it was said."""

    def __init__(self) -> None:
        self.count = 0
        self._said = threading.Event()

    def say(self) -> None:
        """As if a signal had come."""
        self.count += 1
        self._said.set()

    def is_said(self) -> bool:
        """Whether a stop was asked for."""
        return self._said.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait until it is said, or the time is over; whether it is said."""
        return self._said.wait(seconds)

    @contextmanager
    def installed(self) -> Iterator[StopSignal]:
        """Take both signals while inside; to be entered after Spark, which takes SIGINT for itself."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.say()

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def term_interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does, so that a job stopped while it starts still gives up what it opened."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class _Trouble:
    """A query that died of something that passes.

    Attributes:
        began: When that was first seen, as all times here by ``time.monotonic``.
        pause: Seconds until it is started again; twice as many each time.
        due: When that is; ``None`` while it runs again and has not finished a micro-batch yet.
    """

    began: float
    pause: float
    due: float | None

    def again(self, now: float) -> None:
        """It died of it once more."""
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)
        self.due = now + self.pause


class Supervisor:
    """The queries of one process.

    With ``available_now`` a query that keeps dying of something that passes is given up after
    ``give_up_seconds``; a job without an end tries for ever.
    """

    def __init__(
        self,
        spark: SparkSession,
        stop: StopSignal,
        *,
        stop_timeout_seconds: float,
        give_up_seconds: float = _GIVE_UP_SECONDS,
    ) -> None:
        self._spark, self._stop = spark, stop
        self._give_up = give_up_seconds
        self._bounded: set[str] = set()
        self._troubles: dict[str, _Trouble] = {}
        self._timeout = stop_timeout_seconds
        self.gate = Gate()
        self.waking = Waking()
        self.queries: list[RunningQuery] = []
        self._waiting: list[tuple[Stream, Callable[[], bool]]] = []

    def start(
        self,
        streams: Sequence[Stream] | Iterator[Stream],
        *,
        available_now: bool = False,
        when: Callable[[Stream], bool] | None = None,
    ) -> None:
        """Start streams, in order; with ``when``, each as soon as that is true of it.

        With ``available_now`` a stream starts once the queries that feed what it reads have ended. ``run``
        and ``poll`` look again at those that wait.
        """
        when = self._is_fed if available_now else when
        try:
            self._start(streams, available_now=available_now, when=when)
        except BaseException:
            self.end()  # what one table is refused for ends the others at their boundaries
            raise

    def _start(
        self,
        streams: Sequence[Stream] | Iterator[Stream],
        *,
        available_now: bool,
        when: Callable[[Stream], bool] | None,
    ) -> None:
        for stream in streams:
            if self._stop.is_said():
                return
            if available_now:
                self._bounded.add(stream.name)
            if when is not None and not when(stream):
                self._waiting.append((stream, functools.partial(when, stream)))
                continue
            self.queries.append(self._begin(stream, available_now=available_now))

    def _begin(self, stream: Stream, *, available_now: bool) -> RunningQuery:
        return start(self._spark, stream, self.gate, self.waking, available_now=available_now)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables of its streams; first those that run, then those that wait for something to read."""
        return (*(query.name for query in self.queries), *(stream.name for stream, _ in self._waiting))

    def poll(self) -> MedallionError | None:
        """Start what need not wait any longer; what the first query to die died of, if one has."""
        for waiting in list(self._waiting):
            stream, is_ready = waiting
            if is_ready() and not self._stop.is_said():
                self._waiting.remove(waiting)
                is_bounded = stream.name in self._bounded
                self.queries.append(self._begin(stream, available_now=is_bounded))
        for place, query in enumerate(self.queries):
            self._mend(place, query)
        return self._first_failure()

    def _is_fed(self, stream: Stream) -> bool:
        """Whether no query here still feeds, or has yet to feed, a table that a stream reads."""
        waiting = {other.name for other, _ in self._waiting}
        active = {query.name for query in self.queries if query.is_active or self._is_to_renew(query)}
        return (waiting | active | self._troubles.keys()).isdisjoint(stream.reads)

    def _mend(self, place: int, query: RunningQuery) -> None:
        """Start a query again that died of something that passes, once its pause is over; say so once."""
        failure, trouble = query.failure(), self._troubles.get(query.name)
        now = time.monotonic()
        if failure is None:
            if trouble is not None and (not query.is_active or any(True for _ in query.progress())):
                del self._troubles[query.name]
                say(f"{query.name}: works again, after {now - trouble.began:.0f} s")
        elif isinstance(failure, SourceChangedError):
            self._renew(place, query)
        elif failure.retryable:
            if trouble is None:
                self._troubles[query.name] = _Trouble(now, _SHORTEST_PAUSE, now + _SHORTEST_PAUSE)
                say(f"{failure} {query.name} waits and tries again; the other queries go on")
            elif trouble.due is None:
                trouble.again(now)
            elif now >= trouble.due and not self._stop.is_said() and not self._is_hopeless(query.name):
                trouble.due = None
                is_bounded = query.name in self._bounded
                self.queries[place] = self._begin(query.stream, available_now=is_bounded)

    def _renew(self, place: int, query: RunningQuery) -> None:
        """Make a query anew whose source has got other columns: it goes on where it ended."""
        if query.stream.again is not None and not self._stop.is_said():
            say(f"{query.name}: the table it reads has new columns; it goes on with them")
            stream, is_bounded = query.stream.again(), query.name in self._bounded
            self.queries[place] = self._begin(stream, available_now=is_bounded)

    def _is_hopeless(self, name: str) -> bool:
        trouble = self._troubles.get(name)
        return name in self._bounded and (trouble is None or time.monotonic() - trouble.began > self._give_up)

    def run(self, each_poll: Callable[[], None] = lambda: None, *, keep_open: bool = False) -> None:
        """Watch until all have ended, one has died, or a stop was asked for; then end the rest cleanly.

        With ``keep_open`` more streams may be started after all have ended by themselves.

        Raises:
            MedallionError: What the first query to die died of.
        """
        failure: MedallionError | None = None
        try:
            while not self._stop.is_said():
                failure = self.poll()
                if failure is not None or not (self._waiting or self._troubles or self._is_any_active()):
                    break
                each_poll()
                self._stop.wait(_POLL_SECONDS)
        finally:
            if not keep_open or self._stop.is_said() or self._is_any_active():
                self.end()
        failure = failure or self._first_failure()
        if failure is not None:
            raise failure

    def end(self) -> list[str]:
        """End every query at its boundary; names those that had to be stopped within a micro-batch."""
        self.gate.close()
        deadline = time.monotonic() + self._timeout
        said = self._stop.count
        active = [query for query in self.queries if query.is_active]
        while active and time.monotonic() < deadline and self._stop.count <= max(said, 1):
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
        return any(query.is_active or self._is_to_renew(query) for query in self.queries)

    def _is_to_renew(self, query: RunningQuery) -> bool:
        """Whether it died between two looks of what the next one mends."""
        is_changed = isinstance(query.failure(), SourceChangedError)
        return is_changed and query.stream.again is not None and not self._stop.is_said()

    def _first_failure(self) -> MedallionError | None:
        """What the first query died of that is not started again."""
        for query in self.queries:
            failure = query.failure()
            if failure is None or self._is_to_renew(query):
                continue
            if not failure.retryable or (self._is_hopeless(query.name) and not self._stop.is_said()):
                return failure
        return None
