"""Mistakes as people read them: the code, what is wrong, and the line of the file with a mark below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape

from common.errors import Problem
from common.machine.terminal import visible, wrapped
from orchestration.author.check.locate import Spot, locate

_WIDEST = 200
"""Most characters of a line of a file that are shown."""


def print_problems(
    console: Console,
    problems: Sequence[Problem],
    file: Path | None,
    *,
    what: Literal["problem", "warning"] = "problem",
) -> None:
    """Print mistakes by declaration, each with its line of the file."""
    number, colour = len(problems), "red" if what == "problem" else "yellow"
    _print(console, f"[bold {colour}]{number} {what}{'' if number == 1 else 's'}[/] in {_shown(str(file))}")
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.place.partition(",")[0], []).append(problem)
    for table, group in groups.items():
        _print(console, f"\n[bold]{_shown(table)}[/]")
        for problem in group:
            _, _, rest = problem.place.partition(", ")
            text = f"{rest}: {problem.message}" if rest else problem.message
            text = wrapped(text, console.width, indent=" " * 12, used=12) if console.is_terminal else text
            _print(console, f"  [bold]{problem.code}[/]  {_shown(text)}")
            for line in frame(problem):
                _print(console, f"  [dim]{_shown(line)}[/]")


def documents(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Mistakes as JSON: ``source`` is the file and the line, ``line`` and ``column`` count from 1."""
    return [_document(problem, locate(problem)) for problem in problems]


def _document(problem: Problem, spot: Spot | None) -> dict[str, Any]:
    return {
        "code": problem.code,
        "place": problem.place,
        "message": str(problem.message),
        "source": f"{spot.file}:{spot.line}" if spot else problem.source,
        "line": spot.line if spot else None,
        "column": spot.column if spot else None,
    }


def frame(problem: Problem) -> Iterator[str]:
    """The place of a mistake, its line and a mark below it; nothing where the place is not known."""
    spot = locate(problem)
    if spot is None:
        if problem.source:
            yield f"  --> {problem.source}"
        return
    yield f"  --> {spot.file}:{spot.line}:{spot.column}"
    number = str(spot.line)
    text = spot.text.replace("\t", " ")[:_WIDEST]
    yield f"  {number} | {text}"
    if spot.column <= len(text):
        yield f"  {' ' * len(number)} | {' ' * (spot.column - 1)}{'^' * min(spot.length, _WIDEST)}"


def _shown(text: str) -> str:
    """The text as it is, neither markup nor control characters."""
    return escape(visible(text))


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
