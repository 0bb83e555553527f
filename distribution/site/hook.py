"""What the site has besides docs/: other pages of the repository, links between them, and the version."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from distribution.site.links import PAGES, markdown_of, place_in_repository

ROOT = Path(__file__).parents[2]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version is in the name, which each page shows at its top."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_name = f"{config.site_name} {project['version']}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are outside of docs/; the site begins with the README of the repository."""
    if (listed := files.get_file_from_path("README.md")) is not None:
        files.remove(listed)
    for there, here in PAGES.items():
        content = (ROOT / there).read_text(encoding="utf-8")
        files.append(File.generated(config, here, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """The page with the links of the site."""
    return markdown_of(markdown, place_in_repository(page.file.src_uri))
