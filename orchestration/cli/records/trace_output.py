"""The way of a record as a tree for the terminal."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from orchestration.records.trace.words import Line


def tree(line: Line) -> Tree:
    """A line and those below it."""
    root = Tree(_text(line))
    for one in line.below:
        root.add(tree(one))
    return root


def _text(line: Line) -> Text:
    """Two spaces keep the parts of a line apart."""
    parts = ((line.name, "bold"), (line.text, ""), (line.at, "dim"))
    return Text("  ").join(Text(text, style=style) for text, style in parts if text)
