"""Serves the page of a pipeline beside a job, or alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline
from common.machine.console import say
from orchestration.http.server import is_loopback, listen, serving


@contextmanager
def page_of(
    pipeline: Pipeline, settings: Settings, address: str | None, own: Sequence[str] = ()
) -> Iterator[str | None]:
    """Serve page, metrics and health inside the block; yields the page's address, None without one.

    Args:
        pipeline: The pipeline.
        settings: The settings.
        address: Where to listen; unset: the setting ``http.address``.
        own: The tables whose queries this process runs, by which it is ready or not; empty: all.

    Raises:
        AddressError: The address is wrong or cannot be listened at.
    """
    wanted = address or settings.http.address
    if wanted is None:
        yield None
        return
    listener = listen(wanted)
    # Loaded with the page only: starlette and what it needs take a third of a second.
    from orchestration.http.app import LOOPBACK_HOSTS, build_app
    from orchestration.http.live import Live

    live = Live(pipeline, settings, Layout.of(pipeline, settings), own)
    is_private = is_loopback(listener)
    with serving(build_app(live, hosts=LOOPBACK_HOSTS if is_private else None), listener) as page:
        say(f"page at {page}")
        if not is_private:
            say("the page has no login: whoever reaches its address sees numbers and quarantined records")
        yield page
