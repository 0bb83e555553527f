"""Tells a service manager that a job is ready and alive: systemd by sd_notify's protocol, others who ask.

The beat comes from the loop that supervises the queries. A process that answers and supervises no more is as
dead as one that does not answer.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

_EVERY_SECONDS = 5.0

_START_SECONDS = 300
"""How long a process that was ready may take to start its queries: ``TimeoutStartSec`` of the units."""

_beats: dict[str, float] = {}
"""The last beat of the loop that supervises this process's queries; empty while there is none."""


def silent_seconds() -> float | None:
    """Seconds since the last beat; None before the first one and after the end of the loop."""
    beat = _beats.get("last")
    return None if beat is None else time.monotonic() - beat


class ServiceManager:
    """The service manager of this process, where the variable ``NOTIFY_SOCKET`` names one."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self._sent: float | None = None

    def alive(self) -> None:
        """Send ``READY=1`` at the first call, and ``WATCHDOG=1``, at most every five seconds."""
        now = _beats["last"] = time.monotonic()
        if not self._address or (self._sent is not None and now - self._sent < _EVERY_SECONDS):
            return
        self._send("WATCHDOG=1" if self._sent is not None else f"READY=1\n{self._own_limit()}WATCHDOG=1")
        self._sent = now

    def starting(self) -> None:
        """After a wait with beats: none are expected until the queries are supervised, for as long as a start
        may take.
        """
        _beats.clear()
        if self._address and self._own_limit():
            self._send(f"WATCHDOG_USEC={_START_SECONDS * 1_000_000}\nWATCHDOG=1")

    def stopping(self) -> None:
        """Send ``STOPPING=1``: queries are ended at a micro-batch boundary."""
        _beats.clear()
        if self._address:
            self._send("STOPPING=1")

    @staticmethod
    def _own_limit() -> str:
        """The watchdog's time that the service manager has set; empty where it has no watchdog."""
        limit = os.environ.get("WATCHDOG_USEC", "")
        return f"WATCHDOG_USEC={limit}\n" if limit.isdecimal() and int(limit) else ""

    def _send(self, text: str) -> None:
        # An address that begins with @ is in the abstract namespace.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(text.encode(), address)
