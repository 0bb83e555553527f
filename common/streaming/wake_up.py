"""Who wakes whom: a commit to a table ends the wait of the queries in this process that read the table.

A wake is a hint. A query that misses one looks for commits by itself every two seconds, as it does for those
of other processes; one that is woken for nothing has looked once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from common.machine.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK = "2 seconds"
"""How often a query that follows looks by itself."""

_CLOCK = "triggerClock"
"""Spark's field of the clock by which a query waits; by its type alone there would be others."""


class Waking:
    """The queries of one process that follow tables."""

    def __init__(self) -> None:
        self._followers: dict[str, tuple[frozenset[str], Callable[[], None]]] = {}

    def follow(self, query: str, tables: Iterable[str], wake: Callable[[], None]) -> None:
        """Have a query woken by commits to tables; one that is started again is woken as it is now."""
        self._followers[query] = (frozenset(tables), wake)

    def committed(self, tables: Iterable[str]) -> None:
        """Wake each query that reads one of these, once."""
        written = frozenset(tables)
        for reads, wake in list(self._followers.values()):  # a query may start meanwhile
            if not written.isdisjoint(reads):
                wake()


@contextmanager
def wakeable(spark: SparkSession, query: str) -> Iterator[Callable[[], None]]:
    """Hands out what ends the wait of the query of this name, which is to be started in here.

    It may be called at any time and from any thread; while a micro-batch runs, the next one begins right
    after it. Where this Spark does not allow it, it does nothing, and that is said.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # the clock is a class of the JVM
    queries: Any = spark.streams._jsqm  # noqa: SLF001  # a listener of the JVM's own
    try:
        clock = jvm.medallion.streaming.WakingClock()
        giver = jvm.medallion.streaming.ClockGiver(queries, query, _CLOCK, clock)
    except TypeError:  # a class that is not there is a package to py4j
        _tell(query, "the engine's own jar is not on Spark's class path")
        yield lambda: None
        return
    queries.addListener(giver)
    try:
        yield clock.wake
    finally:
        queries.removeListener(giver)
    if problem := giver.problem():
        _tell(query, problem)


def _tell(query: str, problem: str) -> None:
    text = f"{query}: cannot be woken, and looks for new commits every {LOOK} instead: {problem}"
    say(Console(stderr=True), text)
