"""The links of a Markdown page, changed one by one; code is left alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_FENCED = re.compile(r"^(`{3,}).*?^\1`*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")

Change = Callable[[str, str, str], str]
"""Gets mark (``!`` for a picture), text and relative target of a link; returns what stands there instead."""


def changed(text: str, change: Change, prose: Callable[[str], str] = str) -> str:
    """The page with other links.

    Args:
        text: The page.
        change: Called for each link to a file; those to other hosts and within the page stay.
        prose: Called for each part of the page between blocks of code, after its links are changed.
    """
    parts, done = [], 0
    for code in _FENCED.finditer(text):
        parts += [prose(_LINK.sub(lambda link: _one(link, change), text[done : code.start()])), code[0]]
        done = code.end()
    return "".join([*parts, prose(_LINK.sub(lambda link: _one(link, change), text[done:]))])


def _one(link: re.Match[str], change: Change) -> str:
    target = link[3]
    if "://" in target or target.startswith(("#", "mailto:")):
        return link[0]
    return change(link[1], link[2], target)
