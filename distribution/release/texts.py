"""What a release writes into files of the repository: its version, and its date in the changelog. Pure."""

from __future__ import annotations

import re
from datetime import date

_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def version_of(pyproject: str) -> str:
    """The version that the project has."""
    found = _VERSION.search(pyproject)
    assert found is not None  # noqa: S101  # the file of this repository
    return found[1]


def with_version(pyproject: str, version: str) -> str:
    """The project's file with another version."""
    return _VERSION.sub(f'version = "{version}"', pyproject, count=1)


def section(changelog: str, name: str) -> str:
    """The text of a section without its heading: ``Unreleased`` or a version; empty if there is none."""
    found = list(_SECTION.finditer(changelog))
    ends = [*(one.start() for one in found[1:]), len(changelog)]
    for one, end in zip(found, ends, strict=True):
        if one[1].partition(" - ")[0] == name:
            return changelog[one.end() : end].strip()
    return ""


def dated(changelog: str, version: str, day: date) -> str:
    """The changelog with what is unreleased as the section of a version."""
    return changelog.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {day.isoformat()}\n", 1)


def follows(version: str, last: str) -> bool:
    """Whether a version is one of the next after another: a patch, a minor or a major version."""
    major, minor, patch = _numbers(last)
    return _numbers(version) in {(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)}


def former_version(changelog: str, version: str) -> str:
    """The newest other version that has a dated section."""
    names = (one[1].partition(" - ")[0] for one in _SECTION.finditer(changelog))
    return next(name for name in names if name not in {"Unreleased", version})


def _numbers(version: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch
