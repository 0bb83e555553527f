"""How long work shows itself on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

Arrival = Callable[[str, int], None]
"""Called with the name and the size in bytes of each thing that has arrived."""


@contextmanager
def arrivals(console: Console, count: int, total_bytes: int) -> Iterator[Arrival]:
    """A function to call for each of ``count`` things as it arrives; shows how far all of them are."""
    if not console.is_terminal:
        arrived = 0

        def tell(name: str, size_bytes: int) -> None:
            nonlocal arrived
            arrived += 1
            say(console, f"  {arrived}/{count} {name} ({megabytes(size_bytes)})")

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"0/{count}", total=total_bytes)

        def advance(name: str, size_bytes: int) -> None:
            done = int(bar.tasks[0].fields.get("arrived", 0)) + 1
            bar.update(task, advance=size_bytes, description=f"{done}/{count} {name[:40]:40}", arrived=done)

        yield advance


def say(console: Console, message: str) -> None:
    """One plain line: never wrapped, coloured, or read as markup, so that it can be searched for."""
    console.print(message, markup=False, highlight=False, soft_wrap=True)


def megabytes(size_bytes: int) -> str:
    """A size as people say it: ``46 MB``, ``0.2 MB``; never rounded down to nothing."""
    millions = size_bytes / 1_000_000
    return f"{millions:.0f} MB" if millions >= 10 else f"{math.ceil(millions * 10) / 10:.1f} MB"  # noqa: PLR2004
