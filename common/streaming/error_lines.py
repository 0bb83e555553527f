"""The cause in the text of a stack trace of Java or Python, as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLASS_NAME = re.compile(r"^: |^(?:[a-z_][\w$]*\.)+([\w$]*(?:Exception|Error)): ")
"""A colon of py4j before the JVM's error, or the error's class."""

_NO_CAUSE = (
    "at ", "File ", "...", "===", "JVM", "^",
    "An error occurred while calling ",
    "During handling of the above exception", "The above exception was the direct cause",
)  # fmt: skip
"""Beginnings of lines that do not tell the cause: stack frames, headings, and py4j's name of the call."""

_TRACEBACK = "Traceback (most recent call last):"


def one_line(text: str) -> str:
    """The cause in a Java or Python stack trace's text, as one line of at most 400 characters.

    The last ``Caused by`` or the last Python traceback names the root cause. Stack frames and leading class
    names are left out; a message of one word keeps the name of its class (``IOException: /tmp/a``).
    """
    line = next(filter(None, map(_without_class_names, _cause_lines(text))), "") or "no cause was given"
    return line if len(line) <= 400 else line[:399] + "…"  # noqa: PLR2004


def _cause_lines(text: str) -> Iterator[str]:
    """The lines that may tell the root cause, the likeliest first."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    starts = [
        n for n, line in enumerate(lines) if line.startswith("Caused by: ") or line.endswith(_TRACEBACK)
    ]
    if starts:
        first, lines = lines[starts[-1]], lines[starts[-1] + 1 :]
        if first.endswith(_TRACEBACK):
            # The lines of the frames are indented; the first that is not names the exception.
            lines = [line for line in lines if not line[0].isspace()]
        else:
            yield first.removeprefix("Caused by: ")
    told = [line.strip() for line in lines]
    yield from (line for line in told if not _without_class_names(line).startswith(_NO_CAUSE))
    # Of a call whose error has no text, py4j's name of the call is all that is known.
    yield from told


def _without_class_names(line: str) -> str:
    """A line without leading names of error classes; a message of one word keeps the last name."""
    name = ""
    while found := _CLASS_NAME.match(line):
        name, line = found[1] or name, line[found.end() :]
    line = line.removesuffix(" SQLSTATE: XX000").strip()
    return f"{name}: {line}" if name and line and " " not in line else line
