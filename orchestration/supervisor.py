"""Starts queries, watches them, and ends them at a micro-batch boundary.

All queries of a process end together: by SIGINT or SIGTERM, or because one of them died. A stop first
closes the gate, so that no query begins another micro-batch, and stops each as soon as it is idle.
A second signal, or the deadline, stops them where they are: what was running is replayed next time.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from common.errors import MedallionError
from common.streaming import Gate, RunningQuery, Stream, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2


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


class Supervisor:
    """The queries of one process."""

    def __init__(self, spark: SparkSession, stop: StopSignal, *, stop_timeout_seconds: float) -> None:
        self._spark, self._stop = spark, stop
        self._timeout = stop_timeout_seconds
        self.gate = Gate()
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

        ``run`` and ``poll`` look again at those that wait.
        """
        for stream in streams:
            if self._stop.is_said():
                return
            if when is not None and not when(stream):
                self._waiting.append((stream, functools.partial(when, stream)))
                continue
            self.queries.append(start(self._spark, stream, self.gate, available_now=available_now))

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
                self.queries.append(start(self._spark, stream, self.gate))
        return self._first_failure()

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
                if failure is not None or not (self._waiting or any(q.is_active for q in self.queries)):
                    break
                each_poll()
                self._stop.wait(_POLL_SECONDS)
        finally:
            if not keep_open or self._stop.is_said() or any(query.is_active for query in self.queries):
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

    def _first_failure(self) -> MedallionError | None:
        return next((failure for query in self.queries if (failure := query.failure()) is not None), None)
