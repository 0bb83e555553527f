"""Tables of texts that stand beside the module that reads them: a line per row, a tab between two cells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def rows(module: str, name: str) -> Iterator[list[str]]:
    """The rows of a table without its head and its comments, which begin with ``#``.

    Args:
        module: ``__file__`` of the module.
        name: The table's file, in the folder of the module.
    """
    lines = Path(module).with_name(name).read_text(encoding="utf-8").splitlines()
    return (line.split("\t") for line in lines[1:] if not line.startswith("#"))
