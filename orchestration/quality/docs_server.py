"""Serves the Data Docs and the profiles of a pipeline on loopback, read-only.

The Data Docs load style sheets and scripts of public servers where those can be reached. This server adds a
style sheet and a first page of its own, so that the pages can be read without a network. It forbids the pages
to load images of other servers, which would tell them that the page was opened.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' https: data:; img-src 'self' data:; connect-src 'self'"
)
_STYLE = """<style>
@layer medallion { :root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; }
table { border-collapse: collapse; }
td, th { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; }
.fa-check-circle::before { content: "\\2713"; color: #2a8; }
.fa-times::before { content: "\\2717"; color: #c33; }
.failed { color: #c33; font-weight: bold; } .passed { color: #2a8; } }
.modal, .ge-walkthrough-modal, footer, img[alt='Great Expectations'] { display: none !important; }
</style>"""
_NEWEST = 200
"""Runs on the first page."""


class _Handler(SimpleHTTPRequestHandler):
    """Files below one folder, for requests that name this machine's loopback address."""

    def do_GET(self) -> None:  # the library's name
        """Send a file, or the first page; the Data Docs get a style sheet."""
        if not self._is_loopback():
            self.send_error(403, "This server answers requests to 127.0.0.1 and localhost only")
            return
        path = Path(self.translate_path(self.path))
        if urlsplit(self.path).path == "/":
            self._send_page(first_page(Path(self.directory)))
        elif path.suffix == ".html" and path.is_file() and "data_docs" in path.parts:
            text = path.read_text(encoding="utf-8")
            self._send_page(text.replace("<head>", f"<head>{_STYLE}", 1))
        else:
            super().do_GET()

    def _send_page(self, text: str) -> None:
        content = text.encode()
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


def first_page(folder: Path) -> str:
    """A list of runs, newest first, and of profiles, with links; it needs no script."""
    sites = folder / "gx" / "uncommitted" / "data_docs"
    pages = sorted(sites.glob("*/validations/**/*.html"), key=lambda page: page.parent.name, reverse=True)
    runs = "".join(_run(folder, page) for page in pages[:_NEWEST])
    profiles = "".join(
        f"<li><a href='/{quote(page.relative_to(folder).as_posix())}'>{escape(page.stem)}</a></li>"
        for page in sorted((folder / "profiles").glob("*.html"))
    )
    listed = f"<h2>Profiles</h2><ul>{profiles}</ul>" if profiles else ""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Data Docs</title>"
        f"{_STYLE}</head><body><h1>Data Docs</h1>"
        "<table><tr><th>run (UTC)</th><th>table and version</th><th>result</th></tr>"
        f"{runs}</table>{listed}</body></html>"
    )


def _run(folder: Path, page: Path) -> str:
    moment = page.parent.name
    shown = f"{moment[:4]}-{moment[4:6]}-{moment[6:8]} {moment[9:11]}:{moment[11:13]}:{moment[13:15]}"
    result = _result(folder, page)
    link = quote(page.relative_to(folder).as_posix())
    return (
        f"<tr><td>{escape(shown)}</td><td><a href='/{link}'>{escape(page.stem)}</a></td>"
        f"<td class='{result}'>{result}</td></tr>"
    )


def _result(folder: Path, page: Path) -> str:
    """``passed`` or ``failed``, from the result that Great Expectations has stored; empty if it is gone."""
    parts = page.relative_to(folder).parts
    stored = folder / "gx" / "uncommitted" / "validations" / Path(*parts[5:]).with_suffix(".json")
    try:
        return "passed" if json.loads(stored.read_text(encoding="utf-8"))["success"] else "failed"
    except (OSError, ValueError, KeyError):
        return ""
