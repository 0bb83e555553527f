"""Wakes the queries of this process that read a table as soon as another query has committed to it.

A wake-up is only a hint. A query that misses one finds new commits by its own poll every two seconds, as it
finds those of other processes. A query that is woken in vain polls once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from common.machine.terminal import say
from common.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_INTERVAL = "2 seconds"
"""How often a query with ``trigger: follow`` polls for new commits without a wake-up."""

_CLOCK = "triggerClock"
"""Name of the field of Spark's query that holds the clock; its type alone would match other fields too."""


class CommitNotifier:
    """Knows which query of this process reads which tables, and wakes the readers of a table."""

    def __init__(self) -> None:
        self._followers: dict[str, tuple[frozenset[str], Callable[[], None]]] = {}

    def follow(self, query: str, tables: Iterable[str], wake: Callable[[], None]) -> None:
        """Call ``wake`` at each commit to one of these tables; replaces an earlier call for the query."""
        self._followers[query] = (frozenset(tables), wake)

    def notify(self, tables: Iterable[str]) -> None:
        """Wake, once, each query that reads one of these tables."""
        written = frozenset(tables)
        for reads, wake in list(self._followers.values()):  # a query may start meanwhile
            if not written.isdisjoint(reads):
                wake()


@contextmanager
def wakeable(spark: SparkSession, query: str) -> Iterator[Callable[[], None]]:
    """Make the query of this name wakeable; the query must be started inside the block.

    Yields a function that wakes the query. It may be called at any time and from any thread; during a
    micro-batch it lets the next one start right after. If this Spark cannot be woken, the function does
    nothing and a warning is printed.
    """
    queries, classes = jvm.streaming_listeners(spark), jvm.packages().medallion.streaming
    try:
        clock = classes.WakingClock()
        replacer = classes.ClockReplacer(queries, query, _CLOCK, clock)
    except TypeError:  # py4j takes a class that does not exist for a package
        _warn(query, "the engine's own jar is not on Spark's class path")
        yield lambda: None
        return
    queries.addListener(replacer)
    try:
        yield clock.wake
    finally:
        queries.removeListener(replacer)
    if problem := replacer.problem():
        _warn(query, problem)


def _warn(query: str, problem: str) -> None:
    text = f"{query}: cannot be woken, and looks for new commits every {POLL_INTERVAL} instead: {problem}"
    say(Console(stderr=True), text)
