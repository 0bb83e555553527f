"""What ``medallion check`` says, chapter by chapter: tests/spec/check.

The head of a table has a declaration with ``…``, each row what stands there, and what is said of such a
pipeline: ``nothing``, or its sentences, divided by ``<br>``. ``WRITE_CHAPTERS=1`` writes what is said now.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from common.config.settings import load_settings
from common.declare import Bronze, Gold, Pipeline, Publish, Quality, Silver
from common.errors import PipelineError
from orchestration.access.declaration.load_file import Draft
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import draft_findings
from orchestration.author.check.settings import doubtful_settings
from tests.support.documents import chapters
from tests.support.documents.chapters import Row

FOLDER = Path(__file__).parents[4] / "spec" / "check"
ROWS = {row.place: row for chapter in sorted(FOLDER.glob("*.md")) for row in chapters.rows(chapter)}
SETTINGS = load_settings(overrides=[])
NOTHING = "nothing"


def said_of(row: Row) -> list[str]:
    """What is said, in the sense of the table's head."""
    kind = row.head[1]
    try:
        made = row.value(0)
        pipeline = pipeline_of(*made if isinstance(made, tuple) else (made,), bronze=row.names["BRONZE"])
        if kind == "notes":
            return [note.replace(f"{Path.cwd()}/", "") for note in notes(pipeline)]
        found = draft_findings(Draft(pipeline), SETTINGS)
        problems = (*found.problems, *doubtful_settings(pipeline, SETTINGS))
        problems = found.doubts if kind == "doubts" else problems
    except PipelineError as error:
        problems = error.problems
    return [f"{one.place}: {one.message}" for one in problems]


def pipeline_of(*parts: Any, bronze: list[Any]) -> Pipeline:
    """A pipeline of declarations; what is no part of one has said all by being built."""

    def of(kind: Any) -> list[Any]:
        return [one for one in parts if isinstance(one, kind)]

    if whole := of(Pipeline):
        return whole[0]
    gold, publish, quality = of(Gold), of(Publish), of(Quality)
    return Pipeline(
        "p", bronze=of(Bronze) or bronze, silver=of(Silver), gold=gold, publish=publish, quality=quality
    )


@pytest.mark.parametrize("place", ROWS)
def test_check_says_what_stands_in_the_chapter(place: str) -> None:
    row, said = ROWS[place], "<br>".join(said_of(ROWS[place])) or NOTHING
    if "WRITE_CHAPTERS" in os.environ:
        row.write({1: said})
    else:
        assert said.strip() == row.cells[1]
