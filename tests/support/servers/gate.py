"""A gate before a server: while it is shut, the server refuses connections, as one that is started again."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 65_536


class Gate:
    """Passes on connections to a server, by an address of its own.

    Args:
        port: The server's port on loopback.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock, self._open = threading.Lock(), set[socket.socket]()
        self._listener = self._listens(0)
        self.port: int = self._listener.getsockname()[1]

    def shut(self) -> None:
        """Break off what is connected, and refuse what comes."""
        with self._lock:
            broken, self._open = self._open, set()
            for one in (self._listener, *broken):
                with contextlib.suppress(OSError):  # the other end may have closed it
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def open_again(self) -> None:
        """Take connections again, by the same address."""
        self._listener = self._listens(self.port)

    def _listens(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=256)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open |= {client, server}
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # one of the ends is gone
            while sent := source.recv(_CHUNK):
                target.sendall(sent)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            if source in self._open and target.fileno() >= 0:
                self._open.discard(source)
                source.close()


@contextmanager
def gate(port: int) -> Iterator[Gate]:
    """A gate inside the block."""
    found = Gate(port)
    try:
        yield found
    finally:
        found.shut()
