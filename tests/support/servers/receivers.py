"""Real receivers of alerts on loopback: an HTTP server that keeps what it is sent, and an SMTP server."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DEADLINE_SECONDS = 30.0


@dataclass
class Inbox:
    """What a receiver was sent.

    Attributes:
        address: The channel's address, for apprise.
        received: The messages in the order of their arrival: ``title``, ``message``, ``type``.
        status: The HTTP status that the receiver answers with.
        delay: Seconds before the receiver answers.
    """

    address: str = ""
    received: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    delay: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def titles(self) -> list[str]:
        """The titles of all messages."""
        with self.lock:
            return [str(one["title"]) for one in self.received]

    @property
    def text(self) -> str:
        """All titles and bodies."""
        with self.lock:
            return "\n".join(f"{one['title']}\n{one['message']}" for one in self.received)

    def await_title(self, text: str, seconds: float = DEADLINE_SECONDS) -> dict[str, Any]:
        """The first message whose title contains a text; waits for it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.lock:
                for one in self.received:
                    if text in one["title"]:
                        return one
            time.sleep(0.02)
        raise AssertionError(f"no message with {text!r} in its title; there are: {self.titles}")


@contextmanager
def http_receiver() -> Iterator[Inbox]:
    """An HTTP server for apprise's ``json://``."""
    inbox = Inbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["content-length"])))
            time.sleep(inbox.delay)
            if inbox.status < 300:
                with inbox.lock:
                    inbox.received.append(content)
            self.send_response(inbox.status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    inbox.address = f"json://127.0.0.1:{server.server_port}/hook"
    try:
        yield inbox
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def smtp_receiver() -> Iterator[Inbox]:
    """An SMTP server for apprise's ``mailto://``."""
    from aiosmtpd.controller import Controller

    inbox = Inbox()

    class Keeper:
        async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802
            mail = message_from_bytes(envelope.content)
            with inbox.lock:
                inbox.received.append({"title": _title(mail), "message": _body(mail), "type": "mail"})
            return "250 OK"

    with socket.create_server(("127.0.0.1", 0)) as free:  # the controller calls its own port, and takes no 0
        port = free.getsockname()[1]
    controller = Controller(Keeper(), hostname="127.0.0.1", port=port)
    controller.start()
    try:
        inbox.address = f"mailto://127.0.0.1:{port}/?from=medallion@shop.example&to=night@shop.example"
        yield inbox
    finally:
        controller.stop()


def _title(mail: Message) -> str:
    from email.header import decode_header, make_header

    return str(make_header(decode_header(str(mail["subject"]))))


def _body(mail: Message) -> str:
    parts = [part for part in mail.walk() if part.get_content_maintype() == "text"]
    return "\n".join(part.get_payload(decode=True).decode() for part in parts)  # type: ignore[union-attr]
