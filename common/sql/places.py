"""Where a word of an SQL text stands: its line and column, and its place in a Python file that has the text.

Pure. A place of a text is its offset in characters, from 0; lines and columns count from 1.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

_LITERAL = re.compile(r"(?P<prefix>[A-Za-z]*)(?P<quotes>\"\"\"|'''|\"|')")
_ESCAPE = re.compile(
    r"\\(?:N\{[^}]*\}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r\n|[\s\S])"
)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The line and the column of a place."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def place_in_python(source: str, near: int, text: str, offset: int) -> tuple[int, int] | None:
    """The line and the column of a place of a text that a Python file has as a literal.

    Args:
        near: The line of the declaration with the text.

    Returns:
        None where no literal, or several outside of the declaration, have the text; where a letter before the
        place is written as an escape of unknown length.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == text]
    own = [node for call in ast.walk(tree) if _begins(call, near) for node in found if _is_in(node, call)]
    chosen = own or (found if len(found) == 1 else [])
    if not chosen:
        return None
    node = chosen[0]
    lines = source.splitlines(keepends=True)
    begin = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
    for place, (row, column) in enumerate(_places(ast.get_source_segment(source, node) or "")):
        if place == offset:
            return node.lineno + row, column + (begin if row == 0 else 0) + 1
    return None


def _begins(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.Call) and node.lineno == line


def _is_in(node: ast.expr, call: ast.AST) -> bool:
    return any(each is node for each in ast.walk(call))


def _places(literal: str) -> Iterator[tuple[int, int]]:
    """Row and column, from 0, of each character that a literal of one or several parts stands for."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({literal})").readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.STRING:
            row, column = token.start[0] - 1, token.start[1] - (1 if token.start[0] == 1 else 0)
            yield from _of_part(token.string, row, column)


def _of_part(part: str, row: int, column: int) -> Iterator[tuple[int, int]]:
    opened = _LITERAL.match(part)
    if opened is None or "f" in opened["prefix"].lower():
        return
    place, end = opened.end(), len(part) - len(opened["quotes"])
    column += place
    while place < end:
        written = _ESCAPE.match(part, place) if "r" not in opened["prefix"].lower() else None
        letters = written[0] if written is not None else part[place]
        meant = _meant(letters)
        for _ in range(meant):
            yield row, column
        place += len(letters)
        if letters.endswith("\n"):
            row, column = row + 1, 0
        else:
            column += len(letters)


def _meant(letters: str) -> int:
    """How many characters some letters of a literal stand for."""
    if letters in {"\\\n", "\\\r\n"}:
        return 0
    is_unknown = len(letters) == 2 and letters[0] == "\\" and letters[1] not in "\\'\"abfnrtv01234567"  # noqa: PLR2004
    return 2 if is_unknown else 1  # Python leaves an escape that it does not know as it is
