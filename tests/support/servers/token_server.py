"""A real OAuth token endpoint: it checks the client's login, and signs a JWT with a key that it publishes."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"
_KEY_ID = "test"
_SECONDS = 600


@dataclass(frozen=True)
class TokenServer:
    """Two addresses of one server: ``/token`` gives tokens, ``/jwks`` the public key."""

    http: str
    https: str


@contextmanager
def token_server(clients: dict[str, str], certificate: Path) -> Iterator[TokenServer]:
    """A server that runs while the block does.

    Args:
        clients: The secret of each client that gets tokens; the client's name is the token's subject.
        certificate: A PEM file with key and certificate of the address with TLS.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            numbers = key.public_key().public_numbers()
            parts = {"n": _number(numbers.n), "e": _number(numbers.e)}
            public = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, **parts}
            self._answer(200, {"keys": [public]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            client, _, secret = login.partition(":")
            if clients.get(client) != secret:
                self._answer(401, {"error": "invalid_client", "error_description": "wrong client or secret"})
                return
            given = {"access_token": _token(key, client), "token_type": "bearer", "expires_in": _SECONDS}
            self._answer(200, given)

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
            """Print nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ExitStack() as stack:
        plain, secured = (stack.enter_context(_serving(Handler, tls)) for tls in (None, context))
        yield TokenServer(f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{secured}")


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _token(key: rsa.RSAPrivateKey, subject: str) -> str:
    now = int(time.time())
    claims = {"sub": subject, "aud": AUDIENCE, "iat": now, "exp": now + _SECONDS, "scope": "kafka"}
    parts = [_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": _KEY_ID}, claims)]
    signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, _text(signature)])


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))
