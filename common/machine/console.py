"""The two consoles: ``out`` for results, ``err`` for progress and messages (so results can be piped)."""

from __future__ import annotations

from rich.console import Console

out = Console()
err = Console(stderr=True)


def say(text: str) -> None:
    """One line of progress, plain, on ``err``."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def page() -> Console:
    """Where tables go: ``out``, or one as wide as they need where no window limits it (a pipe, a file)."""
    return out if out.is_terminal else Console(width=160)
