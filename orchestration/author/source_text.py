"""Texts and names as Python source. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable


def literal(text: str) -> str:
    """A text as a Python literal."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def names(texts: Iterable[str]) -> str:
    """Texts as Python literals with commas between them."""
    return ", ".join(literal(text) for text in texts)
