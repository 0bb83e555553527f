"""An object store on loopback that answers each request with one fault."""

from __future__ import annotations

import re
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

_IDLE = "Your socket connection to the server was not read from or written to within the timeout period."

FAULTS: Final = {
    "internal error": (500, "InternalError", "We encountered an internal error. Please try again."),
    "slow down": (503, "SlowDown", "Please reduce your request rate."),
    "unavailable": (503, "ServiceUnavailable", "Service is unable to handle request."),
    "too many": (429, "TooManyRequests", "Too many requests"),
    "idle": (400, "RequestTimeout", _IDLE),
    "bad gateway": (502, "BadGateway", "a proxy before the store"),
    "expired": (400, "ExpiredToken", "The provided token has expired."),
    "denied": (403, "AccessDenied", "Access Denied"),
}
"""Status, code and message by name. Besides, ``reset`` closes the connection; ``timeout`` answers nothing;
``cut`` closes it in the middle of what is read, and resets what is written."""

_CUT_BYTES = 100_000
_LIST = b'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><Name>b</Name>'
_DATE = "Wed, 25 Nov 2026 10:00:00 GMT"


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
        if self.server.fault == "cut" and self.command in {"GET", "HEAD"}:
            self._cut()
        elif self.server.fault == "timeout":
            self.server.ended.wait(10)
            self.close_connection = True
        elif self.server.fault in {"reset", "cut"}:
            self._reset()
        else:
            status, code, message = FAULTS[self.server.fault]
            body = _BODY.format(code=code, message=message).encode()
            self.send_response(status)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def _cut(self) -> None:
        """What is asked for of the first half of an object, and no more."""
        found = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("range") or "")
        first = int(found[1]) if found else 0
        last = int(found[2]) if found and found[2] else _CUT_BYTES - 1
        self.send_response(206 if found else 200)
        if found:
            self.send_header("content-range", f"bytes {first}-{last}/{_CUT_BYTES}")
        for name, value in (("etag", '"1"'), ("last-modified", _DATE)):
            self.send_header(name, value)
        self.send_header("content-length", str(last - first + 1))
        self.end_headers()
        if self.command == "GET":
            begin = _LIST if "list-type" in self.path else b""
            self.wfile.write(begin.ljust(_CUT_BYTES // 2)[first : last + 1])
            self.wfile.flush()
            self._reset()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

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
