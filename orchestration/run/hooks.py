"""The user's functions that are told of micro-batches and failures, in a thread of their own.

No query waits for them. What a function raises is a warning; one that hangs delays the records after its own,
and of those more than a thousand the further ones are left out, and counted in a warning.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.declare import Pipeline
from common.errors import first_line
from orchestration.access.history.micro_batches import MicroBatchRow

_log = logging.getLogger("medallion.hooks")

_MOST_WAITING = 1_000
_END_SECONDS = 5.0
"""How long the end of a job waits for functions that have records left."""


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """A failure of a query, or the end of a job by a failure."""

    at: datetime  # when it was found
    job: str  # name of the job
    run_id: str  # the run of the job
    query: str  # the query; empty for the job itself
    error: str  # the cause in one line; has nothing of a record
    is_restarted: bool  # whether the engine restarts the query by itself
    restarts: int = 0  # restarts of the query since its job started


class Hooks:
    """Calls the functions ``on_batch`` and ``on_failure`` of a pipeline; does nothing where it has none."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._on_batch, self._on_failure = pipeline.on_batch, pipeline.on_failure
        self._records: queue.Queue[tuple[Callable[[Any], None], object]] = queue.Queue(_MOST_WAITING)
        self._left_out = 0
        if self._on_batch is not None or self._on_failure is not None:
            threading.Thread(target=self._call_all, name="medallion-hooks", daemon=True).start()

    @property
    def wants_batches(self) -> bool:
        """Whether a function is told of micro-batches."""
        return self._on_batch is not None

    def finished(self, row: MicroBatchRow) -> None:
        """Tell of a micro-batch."""
        self._put(self._on_batch, row)

    def failed(self, failure: QueryFailure) -> None:
        """Tell of a failure."""
        self._put(self._on_failure, failure)

    def end(self) -> None:
        """Wait a moment until the functions have all records."""
        if self._on_batch is None and self._on_failure is None:
            return
        done = threading.Event()
        with contextlib.suppress(queue.Full):
            self._records.put((lambda _: done.set(), None), timeout=_END_SECONDS)
        if not done.wait(_END_SECONDS):
            _log.warning("on_batch or on_failure still has records, and the job ends without it")

    def _put(self, hook: Callable[[Any], None] | None, record: object) -> None:
        if hook is None:
            return
        try:
            self._records.put_nowait((hook, record))
        except queue.Full:
            self._left_out += 1
            if self._left_out in {1, 1_000, 1_000_000}:
                _log.warning("on_batch or on_failure is slow: records left out so far: %d", self._left_out)

    def _call_all(self) -> None:
        while True:
            hook, record = self._records.get()
            try:
                hook(record)
            except Exception as error:  # noqa: BLE001  # whatever the user's function raises
                name = getattr(hook, "__name__", type(hook).__name__)
                _log.warning("the function %s raised %s: %s", name, type(error).__name__, first_line(error))
