"""The routes: the page, its numbers as JSON, metrics and health. Every answer is computed from the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from common.errors import MedallionError, TableMissingError, UsageError
from common.machine.service_manager import silent_seconds
from orchestration.access.query.shown_values import part
from orchestration.observe.metrics.exposition import CONTENT_TYPE, prometheus_text
from orchestration.observe.page import records, traces
from orchestration.observe.page.live import SPANS, Live
from orchestration.observe.page.spark_metrics import spark_text
from orchestration.observe.status.document import document

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOLDER = Path(__file__).with_name("assets")

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_SILENT_SECONDS = 300.0
"""For so long the loop that supervises the queries may do something else, as a start of a query does."""

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


def build_app(live: Live, *, hosts: frozenset[str] | None = None) -> Starlette:
    """The app of a pipeline.

    Args:
        hosts: Names by which requests may call this host; unset: any. With loopback names only, a page of
            another site cannot reach the app by a name of its own that it points to this machine.
    """

    def answering(answer: Callable[[Live, Request], Response]) -> Callable[[Request], Any]:
        @functools.wraps(answer)
        async def endpoint(request: Request) -> Response:
            try:
                return await run_in_threadpool(answer, live, request)
            except TableMissingError as error:
                return JSONResponse({"error": str(error)}, 404)
            except UsageError as error:
                return JSONResponse({"error": str(error)}, 400)
            except MedallionError as error:
                return JSONResponse({"error": str(error)}, 503)

        return endpoint

    app = Starlette(
        routes=[
            Route("/", answering(_page)),
            Route("/metrics", answering(_metrics)),
            Route("/healthz", _healthz),
            Route("/readyz", answering(_readyz)),
            Route("/api/status", answering(_status)),
            Route("/api/history", answering(_history)),
            Route("/api/quality", answering(_quality)),
            Route("/api/quarantine/{table}", answering(_quarantine)),
            Route("/api/quarantine/{table}/record", answering(_record)),
            Route("/api/trace", answering(_trace)),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ]
    )
    app.add_middleware(_Guard, hosts=hosts)
    return app


class _Guard:
    """Sets the security headers of every answer, and refuses requests for other hosts' names."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        named = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        host = named.rpartition(":")[0] if named.rpartition(":")[2].isdigit() else named
        if self._hosts is not None and host not in self._hosts:
            refusal = PlainTextResponse("this address is for localhost only\n", 421)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _page(live: Live, request: Request) -> Response:
    html = _template().render(
        pipeline=live.pipeline.name,
        shows_records=live.settings.http.show_records,
        keys=traces.keys(live.pipeline),
    )
    return Response(html, media_type="text/html")


@functools.cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html")


def _metrics(live: Live, request: Request) -> Response:
    status = live.status()
    text = prometheus_text(status)
    if live.settings.http.spark_metrics:
        text += spark_text([table.table for table in status.tables])
    return Response(text, media_type=CONTENT_TYPE)


async def _healthz(request: Request) -> Response:
    """Answers without a thread: requests that wait for a slow store may hold all of them."""
    silent = silent_seconds()
    if silent is not None and silent > _SILENT_SECONDS:
        return PlainTextResponse(f"the queries have not been supervised for {silent:.0f} s\n", 503)
    return PlainTextResponse("ok\n")


def _readyz(live: Live, request: Request) -> Response:
    reasons = live.unready()
    return PlainTextResponse("\n".join(reasons or ["ready"]) + "\n", 503 if reasons else 200)


def _status(live: Live, request: Request) -> Response:
    return JSONResponse(document(live.status()))


def _history(live: Live, request: Request) -> Response:
    span = request.query_params.get("span", "hour")
    if span not in SPANS:
        raise UsageError("span is hour or day")
    return JSONResponse(live.history(span))


def _quality(live: Live, request: Request) -> Response:
    return JSONResponse({"suites": [part(one) for one in live.quality()]})


def _quarantine(live: Live, request: Request) -> Response:
    given = request.query_params
    found = records.listed(
        live, request.path_params["table"], given.get("reason"), records.number(given.get("limit"), 20)
    )
    return JSONResponse({"records": found})


def _record(live: Live, request: Request) -> Response:
    if not live.settings.http.show_records:
        return _hidden()
    given = request.query_params
    found = records.shown(
        live,
        request.path_params["table"],
        given.get("topic", ""),
        records.number(given.get("partition")),
        records.number(given.get("offset")),
    )
    return JSONResponse({"records": found})


def _trace(live: Live, request: Request) -> Response:
    """A trace has keys of rows and their values, so it is for those who may see records."""
    if not live.settings.http.show_records:
        return _hidden()
    given = request.query_params
    return JSONResponse(traces.traced(live, given.get("table"), given.getlist("key"), given.get("offset")))


def _hidden() -> Response:
    return JSONResponse({"error": "the setting http.show_records is off"}, 403)
