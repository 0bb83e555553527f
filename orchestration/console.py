"""The two consoles: ``out`` for results, ``err`` for progress and messages (so results can be piped)."""

from __future__ import annotations

from rich.console import Console

out = Console()
err = Console(stderr=True)
