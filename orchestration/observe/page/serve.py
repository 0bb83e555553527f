"""Serves the page of a pipeline, and watches its alerts, beside a job or alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from socket import socket
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline
from common.machine import extras
from common.machine.console import say
from common.machine.file_modes import umask
from orchestration.observe.page.server import is_loopback, listen, serving

if TYPE_CHECKING:
    from orchestration.observe.page.live import Live


@contextmanager
def page_of(
    pipeline: Pipeline, settings: Settings, address: str | None, own: Sequence[str] = ()
) -> Iterator[str | None]:
    """Serve page, metrics and health and watch alerts inside the block; yields the page's address or None.

    Alerts are watched where the settings have rules or channels; there is a page where they have an address.

    Args:
        address: Where to listen; unset: the setting ``http.address``.
        own: The tables whose queries this process runs, by which it is ready or not; empty: all.

    Raises:
        AddressError: The address is wrong or cannot be listened at.
        MissingExtraError: The packages of the page are not installed.
        SettingsError: The address of a channel of alerts is wrong.
    """
    wanted = address or settings.http.address
    if wanted is None and not settings.alerts.active_rules:
        yield None
        return
    if wanted is not None:
        extras.require("page", "the page, metrics and health")
    listener = None if wanted is None else listen(wanted)
    # Loaded where it is needed only: its parts take a tenth of a second.
    from orchestration.observe.page.live import Live

    live = Live(pipeline, settings, Layout.of(pipeline, settings), own)
    with ExitStack() as stack:
        stack.enter_context(umask(settings.umask))  # before the folder of the alerts is created
        # The page ends first: a job's last alerts may take some seconds.
        if settings.alerts.active_rules:
            stack.enter_context(_watching(live))
        yield None if listener is None else stack.enter_context(_page(live, listener))


@contextmanager
def _page(live: Live, listener: socket) -> Iterator[str]:
    # Loaded with the page only: starlette and what it needs take a third of a second.
    from orchestration.observe.page.app import LOOPBACK_HOSTS, build_app

    is_private = is_loopback(listener)
    with serving(build_app(live, hosts=LOOPBACK_HOSTS if is_private else None), listener) as page:
        say(f"page at {page}")
        if not is_private:
            text = "the page has no login: whoever reaches its address sees numbers and quarantined records"
            say(text, level="warning")
        yield page


@contextmanager
def alerts_of(pipeline: Pipeline, settings: Settings) -> Iterator[None]:
    """Watch alerts inside the block, without a page, where the settings have rules or channels.

    Raises:
        SettingsError: The address of a channel is wrong.
    """
    if not settings.alerts.active_rules:
        yield
        return
    from orchestration.observe.page.live import Live

    live = Live(pipeline, settings, Layout.of(pipeline, settings))
    with umask(settings.umask), _watching(live):
        yield


@contextmanager
def _watching(live: Live) -> Iterator[None]:
    from orchestration.observe.alerts.scope import blind_rules
    from orchestration.observe.alerts.watch import Watch, watching

    settings = live.settings.alerts
    watch = Watch(live.pipeline.name, settings, live.layout.alerts, live.facts)
    channels = ", ".join(settings.channels) or "no channel: they are shown and not sent"
    say(f"alerts: {len(settings.active_rules)} rules, {channels}")
    for sentence in blind_rules(settings.active_rules, live.pipeline):
        say(sentence, level="warning")
    with watching(watch):
        yield
