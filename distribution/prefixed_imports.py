"""The imports of a module, prefixed by the package that its modules are in once they are installed. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

_FROM = re.compile(rb"from\s+")


def prefixed(source: str, names: Collection[str], package: str) -> str:
    """A module's source with ``package.`` before what it imports of ``names``; its lines keep their numbers.

    ``import common.errors`` binds the name ``common``, so it becomes
    ``import medallion.common.errors; from medallion import common``. Texts are left alone: what the engine
    starts or looks up by a module's name, it names by its own ``__name__``.

    Args:
        source: The text of the module.
        names: Top-level packages that are in the package once they are installed.
        package: The package.
    """
    lines = source.encode().splitlines(keepends=True)
    insertions = sorted(_insertions(source, lines, names, package.encode()), reverse=True)
    for line, column, text in insertions:
        lines[line] = lines[line][:column] + text + lines[line][column:]
    return b"".join(lines).decode()


def _insertions(
    source: str, lines: list[bytes], names: Collection[str], package: bytes
) -> Iterator[tuple[int, int, bytes]]:
    """What is inserted where: line and column in bytes, both from 0."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _top(node.module or "") in names:
            found = _FROM.match(lines[node.lineno - 1], node.col_offset)
            assert found is not None  # noqa: S101  # the statement begins here
            yield node.lineno - 1, found.end(), package + b"."
        elif isinstance(node, ast.Import):
            ours = [alias for alias in node.names if _top(alias.name) in names]
            for alias in ours:
                yield alias.lineno - 1, alias.col_offset, package + b"."
            bound = sorted({_top(alias.name) for alias in ours if alias.asname is None})
            if bound and node.end_lineno is not None and node.end_col_offset is not None:
                again = b"; from %s import %s" % (package, ", ".join(bound).encode())
                yield node.end_lineno - 1, node.end_col_offset, again


def _top(module: str) -> str:
    return module.partition(".")[0]
