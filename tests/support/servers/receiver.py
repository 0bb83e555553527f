"""A real HTTP receiver of OpenLineage events, which keeps what it gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """The address of the receiver, and the events that it has got, in their order."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, job: str) -> list[dict[str, Any]]:
        """The events of one job."""
        return [event for event in self.events if event["job"]["name"] == job]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that runs while the block does."""
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.events.append(json.loads(content))
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
