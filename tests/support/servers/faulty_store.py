"""An object store on loopback that answers each request with one fault."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_BODY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message>'
    "<RequestId>4442587FB7D0A2F9</RequestId></Error>"
)

FAULTS: Final = {
    "internal error": (500, "InternalError", "We encountered an internal error. Please try again."),
    "slow down": (503, "SlowDown", "Please reduce your request rate."),
    "unavailable": (503, "ServiceUnavailable", "Service is unable to handle request."),
    "too many": (429, "TooManyRequests", "Too many requests"),
    "bad gateway": (502, "BadGateway", "a proxy before the store"),
    "expired": (400, "ExpiredToken", "The provided token has expired."),
    "denied": (403, "AccessDenied", "Access Denied"),
}
"""Status, code and message by name. Besides, ``reset`` closes the connection; ``timeout`` answers nothing."""


class FaultyStore(ThreadingHTTPServer):
    """The server; ``fault`` may be changed while it runs, ``requests`` counts."""

    daemon_threads = True

    def __init__(self, fault: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.fault, self.requests = fault, 0
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what is tested."""


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyStore

    def log_message(self, *told: object) -> None:
        """Nothing."""

    def _fail(self) -> None:
        self.server.requests += 1
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.server.fault == "timeout":
            self.server.ended.wait(10)
            self.close_connection = True
        elif self.server.fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        else:
            status, code, message = FAULTS[self.server.fault]
            body = _BODY.format(code=code, message=message).encode()
            self.send_response(status)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _fail  # noqa: N815  # names of http.server


@contextmanager
def faulty_store(fault: str) -> Iterator[FaultyStore]:
    """Run a store inside the block."""
    store = FaultyStore(fault)
    threading.Thread(target=store.serve_forever, daemon=True).start()
    try:
        yield store
    finally:
        store.ended.set()
        store.shutdown()
        store.server_close()
