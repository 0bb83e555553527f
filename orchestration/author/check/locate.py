"""Finds where in a file a mistake stands: the line of the attribute or of the word, and its columns.

A problem names a declaration and its first line. What it is about follows from its words: the attribute with
which the message begins, the column or measure of its place, and the word in quotes.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common.errors import Problem

_SOURCE = re.compile(r"(.+?):(\d+)(?::(\d+))?")
_QUOTED = re.compile(r"'([^']+)'")
_ENTRY = re.compile(r", (?:column|measure|by|on|tables) '([^']*)'")
_PART = re.compile(r", (\w+)$")
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file."""

    file: Path
    line: int  # the line, from 1
    column: int  # the first column, from 1
    length: int  # number of characters
    text: str  # the whole line

    @property
    def word(self) -> str:
        """The characters of the place."""
        return self.text[self.column - 1 : self.column - 1 + self.length]


def locate(problem: Problem) -> Spot | None:
    """Where the words are that a problem is about; None where the problem names no line of a file."""
    found = _SOURCE.fullmatch(problem.source)
    if found is None:
        return None
    file, line, column = Path(found[1]), int(found[2]), int(found[3] or 0)
    lines = _lines(file)
    if not 0 < line <= len(lines):
        return None
    if column:
        token = re.match(r"`[^`]*`|[\w.-]+|.", lines[line - 1][column - 1 :])
        return Spot(file, line, column, len(token[0]) if token else 1, lines[line - 1])
    first = last = line
    node = None
    if file.suffix == ".py" and (tree := _tree(file)) is not None and (node := _node(tree, line, problem)):
        first, last = node.lineno, node.end_lineno or node.lineno
    begin = _characters(lines[first - 1], node.col_offset) if node is not None else 0
    for number in range(first, min(last, len(lines)) + 1):
        text, start = lines[number - 1], begin if number == first else 0
        for word in _words(problem):
            at = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(text, start)
            if at is not None:
                return Spot(file, number, at.start() + 1, len(word), text)
    text = lines[first - 1]
    if node is None:
        begin = len(text) - len(text.lstrip())
    end = _characters(text, node.end_col_offset or 0) if node is not None and first == last else len(text)
    return Spot(file, first, begin + 1, max(1, len(text[begin:end].rstrip())), text)


def _words(problem: Problem) -> Iterator[str]:
    """The words in quotes, before what the message proposes; of a path also its last part."""
    said = problem.message.partition("; ")[0]
    if ": expected " in said:  # the words in quotes are the right ones
        said = ""
    for word in _QUOTED.findall(said):
        yield word
        yield word.rpartition(".")[2]
    yield from re.findall(r"(\w+)\(\)", said)
    yield from re.findall(r"\(got '([^']+)'\)$", problem.message)


@functools.lru_cache(maxsize=8)
def _read(file: Path, changed: int) -> str:  # a part of the key of the cache
    return file.read_text(encoding="utf-8", errors="replace")


def _lines(file: Path) -> list[str]:
    try:
        state = file.stat()
        if state.st_size > _MOST_BYTES:
            return []
        return _read(file, state.st_mtime_ns).splitlines()
    except OSError:
        return []


def _tree(file: Path) -> ast.Module | None:
    try:
        return ast.parse("\n".join(_lines(file)))
    except (SyntaxError, ValueError):
        return None


def _node(tree: ast.Module, line: int, problem: Problem) -> ast.expr | None:
    """The expression that a problem is about: an attribute, an entry of it, or the name of the class."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == line]
    if not calls:
        return None
    call = max(calls, key=lambda each: _fits(each, problem))
    entry = _ENTRY.search(problem.place)
    if entry is not None and (value := _entry(call, entry[1])) is not None:
        return value
    given = {each.arg: each for each in call.keywords if each.arg}
    part = _PART.search(problem.place)
    names = [part[1]] if part else []
    names += re.findall(r"\w+", problem.message.partition("; ")[0])[:3]
    for name in names:
        if name in given:
            is_unknown = f"{name!r} is not a" in problem.message
            return _name_of(given[name]) if is_unknown else given[name].value
    if problem.message.startswith("name: ") and call.args:
        return call.args[0]
    return call.func


def _fits(call: ast.Call, problem: Problem) -> int:
    """How well a call fits the place of a problem."""
    table = problem.place.partition(",")[0].removeprefix("quality of ")
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    named = [each.value for each in call.args[:1] if isinstance(each, ast.Constant)]
    named += [
        each.value.value
        for each in call.keywords
        if each.arg in {"name", "table"} and isinstance(each.value, ast.Constant)
    ]
    points = 2 * (bool(name) and problem.place.startswith(name)) + (", value" in problem.place)
    return points + 2 * any(str(each) in {table, table.rpartition(".")[2]} for each in named)


def _entry(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a dict's key in a call, or the item of a list."""
    for node in ast.walk(call):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    return value
    lists = (each.value for each in call.keywords if isinstance(each.value, ast.List | ast.Tuple))
    items = (item for each in lists for item in each.elts)
    return next((item for item in items if isinstance(item, ast.Constant) and item.value == name), None)


def _name_of(keyword: ast.keyword) -> ast.expr:
    """The name of a keyword as an expression with its place."""
    end = keyword.col_offset + len((keyword.arg or "").encode())
    return ast.Name(
        keyword.arg or "",
        lineno=keyword.lineno,
        end_lineno=keyword.lineno,
        col_offset=keyword.col_offset,
        end_col_offset=end,
    )


def _characters(line: str, offset: int) -> int:
    """The characters of a line before an offset in bytes, as ``ast`` counts."""
    return len(line.encode()[:offset].decode(errors="ignore"))
