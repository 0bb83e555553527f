"""Pages of the repository as pages of the site, and the links between them. Pure.

A link in a page is relative to the page's place in the repository, so that it can be followed on a code host.
Pages below ``docs/`` keep their place in the site; those of ``PAGES`` have another one there. A file of the
repository that is no page of the site is named there and not linked.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from distribution.markdown_links import changed

PAGES: Mapping[str, str] = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LICENSE": "LICENSE.txt",
    "examples/earthquakes/README.md": "examples/earthquakes.md",
    "examples/orders_cdc/README.md": "examples/orders_cdc.md",
    "examples/nexmark/README.md": "examples/nexmark.md",
    "examples/brokerage/README.md": "examples/brokerage.md",
}
"""Path in the site, by path in the repository, where they differ by more than the folder ``docs/``."""

_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def markdown_of(text: str, page: str) -> str:
    """A page's Markdown as the site needs it: with the site's links, and blank lines before lists and tables.

    A code host takes lists and tables without a blank line before them; the renderer of the site does not.

    Args:
        text: The page as it is in the repository.
        page: Its path in the repository, such as ``docs/author/gold.md``.
    """
    return changed(text, lambda mark, words, target: _site_link(mark, words, target, page), with_blank_lines)


def place_in_site(path: str) -> str | None:
    """The path in the site of a file of the repository; None if the site does not have it, as any folder."""
    if path in PAGES:
        return PAGES[path]
    is_file = path.startswith("docs/") and posixpath.splitext(path)[1]
    return path.removeprefix("docs/") if is_file else None


def place_in_repository(path: str) -> str:
    """The path in the repository of a page of the site."""
    return next((there for there, here in PAGES.items() if here == path), f"docs/{path}")


def _site_link(mark: str, text: str, target: str, page: str) -> str:
    path, hash_, anchor = target.partition("#")
    here = place_in_site(page) or page
    there = place_in_site(posixpath.normpath(posixpath.join(posixpath.dirname(page), path)))
    if there is None:
        return text
    relative = posixpath.relpath(there, posixpath.dirname(here) or ".")
    return f"{mark}[{text}]({relative}{hash_}{anchor})"


def with_blank_lines(text: str) -> str:
    """The text with a blank line before each list and table that follows a line of a paragraph."""
    lines: list[str] = []
    block = ""
    for line in text.split("\n"):
        starts = "list" if _ITEM.match(line) else "table" if line.startswith("|") else ""
        if starts and block == "paragraph":
            lines.append("")
        lines.append(line)
        if starts:
            block = starts
        elif not line.strip() or line.startswith("#"):
            block = ""
        elif not block:
            block = "paragraph"
    return "\n".join(lines)
