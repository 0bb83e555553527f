"""Sends OpenLineage events from a thread of its own: a receiver that is slow or dead delays nothing.

At most ``_WAITING`` events wait. What cannot be sent is dropped and counted: a message at the first one, and
one with the number at the end of the job.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from common.config.references import resolve
from common.errors import SettingsError
from common.machine.console import say

_WAITING = 1000
_END_SECONDS = 5.0
_TIMEOUT_SECONDS = 5.0

_log = logging.getLogger("medallion.lineage")


class Sender:
    """Sends events in the order of ``put``.

    Args:
        build: Makes an OpenLineage event of what was put; called in the thread.
        emit: Sends one; raises if it cannot.
    """

    def __init__(
        self,
        build: Callable[[Any], Any],
        emit: Callable[[Any], None],
        close: Callable[[float], object] = lambda _: None,
    ) -> None:
        self._build, self._emit, self._close = build, emit, close
        self._queue: queue.Queue[Any] = queue.Queue(_WAITING)
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._failing = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="medallion-lineage", daemon=True)
        self._thread.start()

    def put(self, event: object) -> None:
        """Send an event later; never waits."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._drop("the receiver is too slow")

    def close(self) -> None:
        """Send what waits, for some seconds at most, and say what was dropped.

        Nothing is waited for if the last event could not be sent.
        """
        self._end.set()
        deadline = time.monotonic() + _END_SECONDS
        while self._thread.is_alive() and not self._failing and time.monotonic() < deadline:
            self._thread.join(0.05)
        with self._lock:
            dropped = self.dropped + (self._queue.unfinished_tasks if self._thread.is_alive() else 0)
        if not self._thread.is_alive():
            self._close(1.0)
        if dropped:
            say(f"OpenLineage: {dropped:,} events were not sent", level="warning")

    def _run(self) -> None:
        while not (self._end.is_set() and self._queue.empty()):
            try:
                event = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                self._emit(self._build(event))
                self._failing = False
            except Exception as error:  # noqa: BLE001  # any transport's
                self._failing = True
                self._drop(f"{type(error).__name__}", error)
            finally:
                self._queue.task_done()

    def _drop(self, reason: str, error: BaseException | None = None) -> None:
        with self._lock:
            self.dropped += 1
            is_first = self.dropped == 1
        if is_first:
            _log.warning("an OpenLineage event cannot be sent", exc_info=error)
            say(
                f"OpenLineage: an event cannot be sent ({reason}). Such events are dropped and counted; "
                "the queries go on. Check lineage.openlineage"
            )


def open_client(transport: Mapping[str, Any]) -> Any:
    """OpenLineage's client with this transport.

    Raises:
        SettingsError: The transport does not fit, or lacks a package.
    """
    from openlineage.client import OpenLineageClient

    logging.getLogger("openlineage").setLevel(logging.ERROR)
    given = _resolved(transport)
    if given.get("type") == "http":
        # Retries of the default last half a minute per event; the next event says the same and more.
        given = {"timeout": _TIMEOUT_SECONDS, "retry": {"total": 2, "backoff_factor": 0.2}, **given}
    try:
        return OpenLineageClient(config={"transport": given})
    except Exception as error:
        raise SettingsError(
            f"lineage.openlineage: the transport cannot be opened ({type(error).__name__}: {error}). Its "
            'settings are those of openlineage-python, such as {"type": "http", "url": "http://host:5000"}.'
        ) from error


def _resolved(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a transport with secrets by reference replaced, also in sections."""
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    found: dict[str, Any] = {**given, **resolve(texts, "lineage.openlineage")}
    return {name: _resolved(value) if isinstance(value, Mapping) else value for name, value in found.items()}
