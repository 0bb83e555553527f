"""Serves the Data Docs and the profiles of a pipeline on loopback, read-only.

The Data Docs load style sheets and scripts of public servers where those can be reached. This server adds a
style sheet of its own, so that the pages can be read without a network, and forbids the pages to load images
of other servers, which would tell them that the page was opened.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' https: data:; img-src 'self' data:; connect-src 'self'"
)
_STYLE = b"""<style>
@layer medallion { body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; }
table { border-collapse: collapse; } td, th { border: 1px solid #8886; padding: .3rem .6rem; }
.modal, .ge-walkthrough-modal, img[alt='Great Expectations'] { display: none; } }
</style>"""


class _Handler(SimpleHTTPRequestHandler):
    """Files below one folder, for requests that name this machine's loopback address."""

    def do_GET(self) -> None:  # the library's name
        """Send a file; pages get a style sheet."""
        if not self._is_loopback():
            self.send_error(403, "This server answers requests to 127.0.0.1 and localhost only")
            return
        path = Path(self.translate_path(self.path))
        page = path / "index.html" if path.is_dir() and urlsplit(self.path).path.endswith("/") else path
        if page.suffix != ".html" or not page.is_file():
            super().do_GET()
            return
        content = page.read_bytes().replace(b"<head>", b"<head>" + _STYLE, 1)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def end_headers(self) -> None:
        """Add the policy on what pages may load."""
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Print nothing."""

    def _is_loopback(self) -> bool:
        """Whether the request names loopback: a page of another server could name itself as this machine."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return host in {"127.0.0.1", "localhost"}


@contextmanager
def docs_server(folder: Path, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """A server of a folder on 127.0.0.1; the caller runs ``serve_forever``.

    Raises:
        OSError: The port is taken.
    """
    handler = functools.partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        yield server
