"""The two consoles: ``out`` for results, ``err`` for progress and messages, so that results can be piped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console

from common.machine import event_log, terminal

out = Console()
err = Console(stderr=True)

_UNLIMITED = 10_000
_REPORT_SECONDS = 10.0

Level = Literal["info", "warning", "error", "critical"]
"""Levels of messages, by the names of Python's logging."""


def say(text: str, *, level: Level = "info", **facts: object) -> None:
    """Print a message on ``err``, as a line of JSON where logs are JSON.

    Args:
        level: How grave it is, for whoever filters lines of JSON.
        facts: What the message is about, such as ``query``; keys of its line of JSON.
    """
    if event_log.is_json():
        event_log.emit(text, facts, level)
    else:
        terminal.say(err, text)


@contextmanager
def awaited(what: str) -> Iterator[None]:
    """Within the block, say every ten seconds what is awaited, and for how many seconds so far."""
    began, ended = time.monotonic(), threading.Event()

    def report() -> None:
        while not ended.wait(_REPORT_SECONDS):
            say(f"waiting for {what}, {time.monotonic() - began:.0f} s so far")

    reporter = threading.Thread(target=report, name="awaited", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def page() -> Console:
    """The console of tables: ``out``, or one without a limit of width where stdout is a pipe or a file."""
    return out if out.is_terminal else Console(width=_UNLIMITED)
