"""What a release writes and reads in the repository's texts, and the long description of a package index."""

from __future__ import annotations

from datetime import date

import pytest

from distribution.description import described
from distribution.release import texts

CHANGELOG = """# Changelog

## Unreleased

### Added
- A thing.

## 0.1.0 - 2026-11-22

### Added
- The first.
"""
METADATA = "Metadata-Version: 2.4\nName: medallion-lakehouse\nVersion: 0.2.0\n\n# Medallion\n{}\n"


def test_the_version_is_set_where_the_project_has_it() -> None:
    project = '[build-system]\nrequires = ["x>=1"]\n[project]\nname = "x"\nversion = "0.1.0"\n'
    assert texts.version_of(project) == "0.1.0"
    assert texts.with_version(project, "0.2.0") == project.replace("0.1.0", "0.2.0")


def test_what_is_unreleased_becomes_the_section_of_the_version() -> None:
    after = texts.dated(CHANGELOG, "0.2.0", date(2026, 12, 1))
    assert texts.section(after, "0.2.0") == "### Added\n- A thing."
    assert texts.section(after, "Unreleased") == ""
    assert texts.section(after, "0.1.0") == "### Added\n- The first."
    assert "## 0.2.0 - 2026-12-01\n" in after
    assert texts.former_version(after, "0.2.0") == texts.former_version(CHANGELOG, "0.2.0") == "0.1.0"


@pytest.mark.parametrize(
    ("version", "follows"),
    [("0.1.1", True), ("0.2.0", True), ("1.0.0", True), ("0.1.0", False), ("0.3.0", False), ("0.2.1", False)],
)
def test_a_version_follows_the_former_one_without_a_gap(version: str, follows: bool) -> None:  # noqa: FBT001
    assert texts.follows(version, "0.1.0") is follows


def test_links_and_pictures_of_the_description_have_the_address_of_the_tag() -> None:
    readme = "[the tutorial](docs/tutorial.md#x) ![a flow](docs/flow.svg) [z](https://z.example) [here](#see)"
    found = described(METADATA.format(readme), "https://host.example/owner/name/")
    fields, _, text = found.partition("\n\n")
    assert "Project-URL: Source, https://host.example/owner/name\n" in fields
    assert "Project-URL: Changelog, https://host.example/owner/name/blob/v0.2.0/CHANGELOG.md" in fields
    assert "[the tutorial](https://host.example/owner/name/blob/v0.2.0/docs/tutorial.md#x)" in text
    assert "![a flow](https://host.example/owner/name/raw/v0.2.0/docs/flow.svg)" in text
    assert "[z](https://z.example) [here](#see)" in text


def test_without_an_address_links_are_text_and_pictures_are_left_out() -> None:
    found = described(METADATA.format("[the tutorial](docs/tutorial.md), ![a flow](docs/flow.svg)."), "")
    assert found == METADATA.format("the tutorial, .")
