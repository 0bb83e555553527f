"""A page of the repository as a page of the site: its links, and what the site's renderer needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from distribution.site.links import (
    PAGES,
    markdown_of,
    place_in_repository,
    place_in_site,
    with_blank_lines,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("README.md", "[x](docs/author/gold.md#a)", "[x](author/gold.md#a)"),
        ("README.md", "![a flow](docs/flow.svg)", "![a flow](flow.svg)"),
        ("README.md", "[`Upsert`; `History`](docs/author/gold.md)", "[`Upsert`; `History`](author/gold.md)"),
        ("docs/author/gold.md", "[x](../../README.md)", "[x](../index.md)"),
        ("docs/author/gold.md", "[x](../README.md)", "[x](../pages.md)"),
        ("docs/author/gold.md", "[x](../run/operate.md#alerts)", "[x](../run/operate.md#alerts)"),
        ("docs/run/proof.md", "[x](../../examples/earthquakes/README.md)", "[x](../examples/earthquakes.md)"),
        ("CHANGELOG.md", "[x](docs/tutorial.md)", "[x](tutorial.md)"),
        ("examples/earthquakes/README.md", "[x](../../docs/run/operate.md)", "[x](../run/operate.md)"),
        ("docs/run/proof.md", "see [a test](../../tests/spec/x.py).", "see a test."),
        ("docs/README.md", "[decisions](decisions/)", "decisions"),
        ("docs/tutorial.md", "[x](#here), [y](https://a.example/b)", "[x](#here), [y](https://a.example/b)"),
        ("README.md", "```\n[x](docs/a.md)\n```\n", "```\n[x](docs/a.md)\n```\n"),
    ],
)
def test_a_link_of_the_repository_is_a_link_of_the_site(page: str, link: str, there: str) -> None:
    """One to a file that the site does not have is its text."""
    assert markdown_of(link, page) == there


def test_each_page_has_one_place_in_the_site() -> None:
    pages = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    places = [place_in_site(page) for page in {*pages, *PAGES}]
    assert len(set(places)) == len(places)
    assert [place_in_repository(place) for place in places if place] == list({*pages, *PAGES})


def test_lists_and_tables_begin_after_a_blank_line() -> None:
    """But for one inside of a list, and for rows of a table."""
    text = "Two:\n- one\n  more of it\n- two\n\n| a |\n|---|\n| 1 |\n\nTable:\n| b |\n|---|\n# H\n1. x"
    assert with_blank_lines(text) == (
        "Two:\n\n- one\n  more of it\n- two\n\n| a |\n|---|\n| 1 |\n\nTable:\n\n| b |\n|---|\n# H\n1. x"
    )
