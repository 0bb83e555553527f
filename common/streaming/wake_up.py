"""Wakes the queries of this process that read a table as soon as another query has committed to it.

A wake-up is only a hint. A query that misses one finds new commits by its own poll every two seconds, as it
finds those of other processes. A query that is woken in vain polls once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from common.machine.terminal import say

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
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # the clock is a class of the JVM
    queries: Any = spark.streams._jsqm  # noqa: SLF001  # a listener of the JVM's own
    try:
        clock = jvm.medallion.streaming.WakingClock()
        giver = jvm.medallion.streaming.ClockGiver(queries, query, _CLOCK, clock)
    except TypeError:  # py4j takes a class that does not exist for a package
        _warn(query, "the engine's own jar is not on Spark's class path")
        yield lambda: None
        return
    queries.addListener(giver)
    try:
        yield clock.wake
    finally:
        queries.removeListener(giver)
    if problem := giver.problem():
        _warn(query, problem)


def _warn(query: str, problem: str) -> None:
    text = f"{query}: cannot be woken, and looks for new commits every {POLL_INTERVAL} instead: {problem}"
    say(Console(stderr=True), text)
