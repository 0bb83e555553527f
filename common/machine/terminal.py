"""Lines and progress on a console: wrapped and drawn on a terminal, plain in a pipe or a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

Arrival = Callable[[str, int], None]
"""Called with the name and the size in bytes of each file that was downloaded."""

_ATOM = re.compile(
    r"(?:\S*/|\()?(?:medallion|pip install|source) [^\n]*?(?:[;,.:)]+(?=\s|$)|$)|\S+", flags=re.MULTILINE
)
"""A command up to the end of its clause, or a word: neither is broken, so that a command can be copied.

The mark that ends the clause belongs to it, as to a word: no space comes before it.
"""


@contextmanager
def arrivals(console: Console, count: int, total_bytes: int) -> Iterator[Arrival]:
    """Yield a function to call once per downloaded file; it draws the progress of all ``count`` files."""
    if not console.is_terminal:
        arrived = 0

        def print_line(name: str, size_bytes: int) -> None:
            nonlocal arrived
            arrived += 1
            say(console, f"  {arrived}/{count} {name} ({megabytes(size_bytes)})")

        yield print_line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"0/{count}", total=total_bytes)

        def advance(name: str, size_bytes: int) -> None:
            done = int(bar.tasks[0].fields.get("arrived", 0)) + 1
            bar.update(task, advance=size_bytes, description=f"{done}/{count} {name[:24]:24}", arrived=done)

        yield advance


def visible(text: str) -> str:
    r"""The text with an escape for each character that would control the terminal, such as ``\x1b``.

    Escaped are control characters but line breaks and tabs, direction marks, invisible characters and lone
    surrogates. So neither a value nor a name in a message controls the terminal.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else escape(letter) for letter in text)


def escape(letter: str) -> str:
    r"""The escape of a character, as Python writes it: ``\x1b``, ``\u202e``."""
    return letter.encode("unicode_escape").decode("ascii")


def say(console: Console, message: str) -> None:
    """Print a message: wrapped between words on a terminal; not wrapped elsewhere, so that grep finds it."""
    message = visible(message)
    text = wrapped(message, console.width) if console.is_terminal else message
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def wrapped(message: str, width: int, *, indent: str = "  ", used: int = 0) -> str:
    """The message with line breaks between words; a command stays on one line, whatever its length.

    Args:
        message: Its own line breaks and leading spaces are kept.
        indent: Put before each continuation line, besides the leading spaces of its line.
        used: Columns of the first line that are taken already.
    """
    lines: list[str] = []
    for number, line in enumerate(message.split("\n")):
        lead = line[: len(line) - len(line.lstrip(" "))]
        taken = used if number == 0 else 0
        lines += _filled(lead, (found[0] for found in _ATOM.finditer(line)), width, lead + indent, taken)
    return "\n".join(lines)


def packed(parts: Iterable[str], width: int, separator: str = ", ") -> list[str]:
    """Lines of parts with separators; a line breaks between two parts, never inside one."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(separator) + len(part) < width:
            lines[-1] += separator + part
        else:
            if lines:
                lines[-1] += separator.rstrip() if separator[0] in ",;" else ""
            lines.append(part)
    return lines


def _filled(lead: str, atoms: Iterable[str], width: int, indent: str, used: int) -> list[str]:
    lines, is_empty = [lead], True
    for atom in atoms:
        if is_empty:
            lines[-1] += atom
        elif used + len(lines[-1]) + 1 + len(atom) <= width:
            lines[-1] += f" {atom}"
        else:
            lines.append(indent + atom)
            used = 0
        is_empty = False
    return lines


def count_of(count: int, unit: str) -> str:
    """A number with its unit, which stands in the plural: ``1 row``, ``2,000 keys or groups``."""
    return f"{count:,} " + (re.sub(r"s\b", "", unit) if count == 1 else unit)


def megabytes(size_bytes: int) -> str:
    """A size for people: ``46 MB``, ``0.2 MB``; rounded up below 10 MB, so that it is never 0."""
    millions = size_bytes / 1_000_000
    return f"{millions:.0f} MB" if millions >= 10 else f"{math.ceil(millions * 10) / 10:.1f} MB"  # noqa: PLR2004
