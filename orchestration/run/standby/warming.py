"""Keeps a standby warm: a thread that runs rehearsals, some at first and then about one a minute."""

from __future__ import annotations

import logging
import threading
import time

from orchestration.run.standby.rehearsal import Rehearsal

_AT_FIRST = 3
"""Runs at once: the second and third run code that the first has had compiled."""

_PAUSE_SECONDS, _PAUSE_PER_SECOND = 60.0, 20.0
"""The pause after that: at least so long, and so long per second that the last rehearsal took."""

_MOST_SECONDS = 60.0
"""A standby is ready after this time, however far its rehearsals are."""

_END_SECONDS = 1.0
"""A rehearsal has a session and a folder of its own: one that ends later disturbs nobody."""

_log = logging.getLogger("medallion.standby")


class Warming:
    """Runs a rehearsal again and again, until ``end``."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._ended, self._is_warm = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rehearsals", daemon=True)
        self._began = 0.0

    def begin(self) -> None:
        """Begin, unless that was called before."""
        if not self._began:
            self._began = time.monotonic()
            self._thread.start()

    @property
    def is_warm(self) -> bool:
        """Whether the first rehearsals are over, or have lasted too long."""
        return self._is_warm.is_set() or time.monotonic() - self._began > _MOST_SECONDS

    def end(self) -> None:
        """Break off a rehearsal that is running, and wait a moment for its end."""
        self._ended.set()
        self._rehearsal.end()
        if self._began:
            self._thread.join(_END_SECONDS)

    def _loop(self) -> None:
        runs = 0
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._rehearsal.run()
            except Exception as error:  # noqa: BLE001  # a standby that is cold is one all the same
                _log.warning("the rehearsal has failed: %s", error)
            runs += 1
            if runs >= _AT_FIRST:
                self._is_warm.set()
                took = time.monotonic() - began
                self._ended.wait(max(_PAUSE_SECONDS, _PAUSE_PER_SECOND * took))
