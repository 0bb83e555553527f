"""The two consoles: ``out`` for results, ``err`` for progress and messages, so that results can be piped."""

from __future__ import annotations

from rich.console import Console

from common.machine import terminal

out = Console()
err = Console(stderr=True)

_UNLIMITED = 10_000


def say(text: str) -> None:
    """Print a message on ``err``."""
    terminal.say(err, text)


def page() -> Console:
    """The console of tables: ``out``, or one without a limit of width where stdout is a pipe or a file."""
    return out if out.is_terminal else Console(width=_UNLIMITED)
