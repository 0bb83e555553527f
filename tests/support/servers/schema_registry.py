"""A schema registry with the answers of Confluent's: subjects, versions, ids, references, refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

NO_SUBJECT = (404, {"error_code": 40401, "message": "Subject not found."})
NO_VERSION = (404, {"error_code": 40402, "message": "Version not found."})
NO_SCHEMA = (404, {"error_code": 40403, "message": "Schema not found"})
INCOMPATIBLE = (409, {"error_code": 409, "message": "Schema being registered is incompatible"})


class SchemaRegistry(ThreadingHTTPServer):
    """Keeps schemas in memory.

    Attributes:
        ids: The schemas; an id is a place in the list, from 1 on.
        subjects: The ids of the versions of each subject.
        closed: Subjects that take no further version.
        is_up: Whether it answers; else with status 503.
        logins: What clients have logged in with.
        asked: Requests, as method and path.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ids: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.closed: set[str] = set()
        self.is_up = True
        self.logins: set[str | None] = set()
        self.asked: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(  # noqa: PLR0911  # one return per request
        self, parts: list[str], sent: dict[str, Any] | None
    ) -> tuple[int, dict[str, Any]]:
        """The status and the content for a path, and for what is sent to it."""
        if not self.is_up:
            return 503, {}
        match parts:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.ids):
                return 200, self.ids[int(number) - 1]
            case ["schemas", "ids", _]:
                return NO_SCHEMA
            case ["subjects", subject, "versions", number]:
                versions = self.subjects.get(subject, [])
                if int(number) > len(versions):
                    return NO_VERSION if versions else NO_SUBJECT
                found = versions[int(number) - 1]
                return 200, self.ids[found - 1] | {"subject": subject, "id": found, "version": int(number)}
            case ["subjects", subject, "versions"] if sent is not None:
                return self._registered(subject, sent)
            case ["subjects", subject] if sent is not None:
                return self._looked_up(subject, sent)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _registered(self, subject: str, sent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if subject in self.closed:
            return INCOMPATIBLE
        for each in sent.get("references", ()):
            if each["version"] > len(self.subjects.get(each["subject"], [])):
                return 422, {"error_code": 42201, "message": "Invalid schema: a reference is not there"}
        schema = _plain(sent)
        if schema not in self.ids:
            self.ids.append(schema)
        number = self.ids.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return 200, {"id": number}

    def _looked_up(self, subject: str, sent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return NO_SUBJECT
        schema, versions = _plain(sent), self.subjects[subject]
        if schema not in self.ids or self.ids.index(schema) + 1 not in versions:
            return NO_SCHEMA
        number = self.ids.index(schema) + 1
        return 200, schema | {"subject": subject, "id": number, "version": versions.index(number) + 1}


def _plain(sent: dict[str, Any]) -> dict[str, Any]:
    """A schema without what differs between two texts of it."""
    kind = sent.get("schemaType", "AVRO")
    text = json.dumps(json.loads(sent["schema"])) if kind == "AVRO" else sent["schema"]
    found = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
    return found | ({"references": sent["references"]} if sent.get("references") else {})


class _Handler(BaseHTTPRequestHandler):
    server: SchemaRegistry

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, sent: dict[str, Any] | None) -> None:
        path = urlsplit(self.path).path
        with self.server.lock:
            self.server.asked.append((self.command, path))
            self.server.logins.add(self.headers["Authorization"])
            status, found = self.server.answer([unquote(part) for part in path.split("/")[1:]], sent)
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the method it replaces
        """Nothing on the console."""


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """A registry that answers within the block."""
    with SchemaRegistry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
