"""A small object store on loopback, which honours the conditions of puts or ignores them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ObjectServer(ThreadingHTTPServer):
    """The server; ``objects`` has the contents by path."""

    daemon_threads = True

    def __init__(self, *, has_conditions: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.has_conditions, self.objects = has_conditions, dict[str, bytes]()
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        """The URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectServer

    def log_message(self, *told: object) -> None:
        """Nothing."""

    @property
    def _key(self) -> str:
        return self.path.partition("?")[0]

    def do_GET(self) -> None:  # a name of http.server
        content = self.server.objects.get(self._key)
        if "list-type=2" in self.path:  # no table is there
            self._answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        elif content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._answer(200, content, tag=content)

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.server.lock:
            known = self.server.objects.get(self._key)
            is_new, wanted = self.headers.get("if-none-match") == "*", self.headers.get("if-match")
            is_refused = (is_new and known is not None) or (wanted is not None and wanted != _tag(known))
            if not (is_refused and self.server.has_conditions):
                self.server.objects[self._key] = content
                self._answer(200, b"", tag=content)
                return
        self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")

    def do_POST(self) -> None:
        """Delete the named objects of a bucket."""
        told = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        names = re.findall("<Key>([^<]+)</Key>", told)
        for name in names:
            self.server.objects.pop(f"{self._key.rstrip('/')}/{name}", None)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _answer(self, status: int, body: bytes, *, tag: bytes | None = None) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("last-modified", formatdate(usegmt=True))
        if tag is not None:
            self.send_header("etag", _tag(tag))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(content: bytes | None) -> str:
    return "" if content is None else f'"{md5(content, usedforsecurity=False).hexdigest()}"'


@contextmanager
def object_server(*, has_conditions: bool) -> Iterator[ObjectServer]:
    """Run a store inside the block."""
    server = ObjectServer(has_conditions=has_conditions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
