"""The long description that a package index shows: links and pictures hold there, or are left out. Pure."""

from __future__ import annotations

import re

from distribution.markdown_links import changed


def described(metadata: str, repository: str) -> str:
    """The metadata of a package with addresses of its repository.

    Args:
        metadata: ``METADATA`` or ``PKG-INFO``: fields, an empty line, the README.
        repository: Address of the repository on a code host, such as ``https://host/owner/name``; empty:
            links to files become text, and pictures are left out.
    """
    fields, _, readme = metadata.partition("\n\n")
    version = re.search(r"^Version: (\S+)$", fields, re.MULTILINE)
    tag = f"v{version[1]}" if version is not None else "main"
    repository = repository.rstrip("/")

    def absolute(mark: str, text: str, target: str) -> str:
        if not repository:
            return "" if mark else text
        return f"{mark}[{text}]({repository}/{'raw' if mark else 'blob'}/{tag}/{target})"

    urls = _project_urls(repository, tag) if repository else ""
    return f"{fields}{urls}\n\n{changed(readme, absolute)}"


def _project_urls(repository: str, tag: str) -> str:
    places = {
        "Source": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/README.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    return "".join(f"\nProject-URL: {name}, {url}" for name, url in places.items())
