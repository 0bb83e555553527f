"""Schemas of messages that are sent: the id that a registry gives, and what its other answers mean."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from common.declare import Avro
from common.errors import PipelineError, RegistryError
from common.schema.registry import RegistryServer
from common.schema.sent import Registered, frame
from tests.support.servers.schema_registry import schema_registry

SCHEMA = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "k", "type": "string"}]})
VALUE = Avro(SCHEMA, framing="registry")
LOGIN = "Bearer se\ncret"


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """The address of a server that answers every request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the method
            """Nothing on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def said(status: int, code: int) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        body = json.dumps({"error_code": code, "message": "what it says"}).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (500, 50001, RegistryError),
        (500, 50002, RegistryError),
        (503, 50003, RegistryError),
        (429, 429, RegistryError),
        (401, 401, PipelineError),
        (422, 42201, PipelineError),
    ],
)
def test_what_passes_is_waited_for_and_what_does_not_stops_the_publication(
    status: int, code: int, kind: type[Exception]
) -> None:
    """A registry that has lost its store answers with codes of its own, and passes."""
    with answering(said(status, code)) as address, pytest.raises(kind, match="what it says"):
        frame(VALUE, Registered(address, None, "t-value", True), "gold.sent, value")


def test_an_answer_that_is_no_http_is_waited_for() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"nothing of HTTP\r\n\r\n")

    with answering(answer) as address, pytest.raises(RegistryError, match="does not answer with a schema"):
        frame(VALUE, Registered(address, None, "t-value", True), "gold.sent, value")


def test_a_login_is_in_no_error() -> None:
    """One with the end of a line in it cannot be sent; the client's own error has it."""
    with schema_registry() as server, pytest.raises(RegistryError) as told:
        RegistryServer(server.address, LOGIN).schema(1)
    assert "cret" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


def test_a_login_is_sent_to_no_other_server() -> None:
    with schema_registry() as other:
        other.ids.append({"schema": SCHEMA})

        def away(request: BaseHTTPRequestHandler) -> None:
            request.send_response(302)
            request.send_header("Location", f"{other.address}/schemas/ids/1")
            request.send_header("Content-Length", "0")
            request.end_headers()

        with answering(away) as address:
            assert RegistryServer(address, "Bearer secret").schema(1) == {"schema": SCHEMA}
        assert other.logins == {None}


def test_a_registry_that_is_away_is_waited_for() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RegistryError, match="does not answer with a schema"):
            frame(VALUE, Registered(address, None, "t-value", False), "gold.sent, value")


def test_a_folder_gives_the_id_whatever_else_is_in_it(tmp_path: Path) -> None:
    at = Registered(str(tmp_path), None, "t-value", False)
    (tmp_path / "3.avsc").write_text("{")
    (tmp_path / "4.avsc").write_bytes(b"\xff")
    (tmp_path / "draft.avsc").write_text(SCHEMA)
    with pytest.raises(PipelineError, match=r"no file <id>\.avsc in .* has the schema"):
        frame(VALUE, at, "gold.sent, value")
    (tmp_path / "17.avsc").write_text(json.dumps(json.loads(SCHEMA), indent=4))
    assert frame(VALUE, at, "gold.sent, value") == b"\0\0\0\0\x11"
