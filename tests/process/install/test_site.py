"""The documentation as a site: built as `make site` does, nothing of it is fetched from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.observe.test_page import CHROMIUM, browser  # noqa: F401
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.long
pytest.importorskip("mkdocs", reason="mkdocs is in requirements-dev.lock")

_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*?\bsrc=\"?([^\" >]+)|<link[^>]*?\bhref=\"?([^\" >]+)"
)
NARROW, WIDE = 360, 1440


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run mkdocs in the repository, with the site in a folder."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder), *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as files."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_each_page_has_the_version_and_fetches_nothing_of_other_hosts(site: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert f"Medallion {version}" in text, page
        fetched = {src or href for src, href in _FETCHED.findall(text)}
        assert [each for each in fetched if "//" in each and not each.startswith("data:")] == [], page


def test_a_dead_link_or_anchor_fails_the_build(tmp_path: Path) -> None:
    """As pages that are written now would have them."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for each in (ROOT / "docs").rglob("*"):
        if each.is_file():
            place = docs / each.relative_to(ROOT / "docs")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(each.read_bytes())
    (docs / "glossary.md").write_text(
        "# Glossary\n[a](comparison.md#no-such) [b](nowhere.md)\n", encoding="utf-8"
    )
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    moved = settings.replace("docs_dir: docs", f"docs_dir: {docs}").replace(
        "distribution/site", f"{ROOT}/distribution/site"
    )
    (tmp_path / "mkdocs.yml").write_text(moved, encoding="utf-8")
    done = build(tmp_path / "site", "-f", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert "does not contain an anchor '#no-such'" in done.stderr
    assert "nowhere.md" in done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")
def test_the_search_works_in_files_and_no_page_is_wider_than_its_screen(
    site: Path,
    browser: Browser,  # noqa: F811
) -> None:
    """Without a server and without a network, on a telephone and on a desk."""
    for width in (NARROW, WIDE):
        page = browser.new_page(viewport={"width": width, "height": 900})
        for path in (
            "index.html",
            "install/settings.html",
            "records/what-happens-to-a-row.html",
            "author/gold.html",
        ):
            page.goto((site / path).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    page.goto((site / "index.html").as_uri())
    page.locator("input[name=query]").click()
    page.locator("input[name=query]").press_sequentially("quarantine replay")
    found = page.locator(".md-search-result__item a").first
    found.wait_for(timeout=20_000)
    assert "quarantine" in found.inner_text().lower()
