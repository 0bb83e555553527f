"""Listens at an address and serves the app in a thread of the process.

The address is taken before anything else starts, so that a wrong or used one fails at once. The address and
the thread end with the process; a request that is running then is cut off.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from common.config.addresses import split_address
from common.errors import AddressError

if TYPE_CHECKING:
    from starlette.applications import Starlette

LOOPBACK = "127.0.0.1"

_STOP_SECONDS = 3.0
_WHY = {
    errno.EADDRINUSE: "another process listens there; name another port, or port 0 for a free one",
    errno.EACCES: "this user may not use that port; name one above 1023",
    errno.EADDRNOTAVAIL: "this machine does not have that address; name one of its own, such as 127.0.0.1",
}


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``, ``[::1]:port``, ``:port`` or ``port``; without a host, loopback.

    Raises:
        AddressError: The text is no address.
    """
    found = split_address(text)
    if found is None:
        raise AddressError(f"{text!r} is no address to listen at; write it like 127.0.0.1:8484")
    return found


def listen(text: str) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        AddressError: The text is no address, or the address cannot be listened at; says why.
    """
    host, port = parse_address(text)
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=64
        )
    except OSError as error:
        why = _WHY.get(error.errno or 0, error.strerror or str(error))
        raise AddressError(f"http.address {text}: the page cannot listen at {host}:{port}: {why}.") from error


def url(listener: socket.socket) -> str:
    """The address of the page; for a socket that listens at all addresses, that of loopback."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)  # noqa: S104  # compared, not listened at
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only processes of this machine reach the socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


@contextmanager
def serving(app: Starlette, listener: socket.socket) -> Iterator[str]:
    """Serve an app inside the block; yields the address of the page. Closes the socket at the end."""
    import uvicorn  # loaded with the page: `check` and `status` start without it

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run, args=([listener],), name="medallion-http", daemon=True)
    try:
        thread.start()
        yield url(listener)
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)
        listener.close()
