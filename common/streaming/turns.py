"""Who may write the tables of a query now: its micro-batch, or maintenance and commands between two of them.

A table has one writer process, which holds its lease. Within the process a micro-batch and a compaction of
the same table would still conflict. Both take the query's turn, in the order in which they come, so neither
waits for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager


class Turns:
    """One turn per query of a process; a thread that has a turn must not take the same one again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[object]] = {}

    @contextmanager
    def take(self, query: str) -> Iterator[None]:
        """Hold the lock of a query inside the block; waiters are served in the order in which they came."""
        with self._changed:
            line = self._waiting.setdefault(query, deque())
            own = object()
            line.append(own)
        try:
            with self._changed:
                self._changed.wait_for(lambda: line[0] is own)
            yield
        finally:
            with self._changed:
                line.remove(own)
                self._changed.notify_all()

    @contextmanager
    def take_all(self, queries: Sequence[str]) -> Iterator[None]:
        """Have the turns of several queries; all threads take them in the order of their names."""
        with ExitStack() as stack:
            for query in sorted(set(queries)):
                stack.enter_context(self.take(query))
            yield
