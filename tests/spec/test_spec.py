"""What silver and gold do, as tables: a folder per chapter of the documentation, each case run in two ways.

All cases are judged together in a warm session, as by ``medallion test``, and run as the streaming queries of
a job. The chapters' pages show texts of these files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestration.author.cases.output import failure_text
from orchestration.author.cases.read.load import load_files
from orchestration.author.cases.run_case import Outcome
from orchestration.author.cases.session import CaseSession
from orchestration.author.cases.suite import load_suite
from tests.conftest import make_settings

SPEC = Path(__file__).parent
ROOT = SPEC.parents[1]
FILES = sorted(SPEC.glob("*/*.cases.yaml"))
NAMES = [f"{case.place.file.relative_to(SPEC).as_posix()}: {case.name}" for case in load_files(FILES).cases]
ONCE_MORE = (
    "elements/nested",
    "a record without an element is a row of no table",
    'in mode="recompute" a measure may be any',
    "days of a calendar have 23 hours",
    "windows may overlap",
    "a row exactly at the end of a session",
    "a semi join",
    "an inner join of a gold table",
    "columns may be chosen and renamed",
    "with a condition each key has the newest",
    "a history has an interval for each time",
    "a column that is not tracked",
    "a snapshot that comes late",
    "a deletion ends the interval",
    "a record of another type is in no quarantine",
    "a table that is ahead makes no row of the other late",
    "events of 1970 and before",
    "an event before 1970",
    'with late="keep"',
    "of a dropped row only its place",
    "a point of PostGIS",
    "a day that only Spark can read",
    "folder of nulls",
    "an empty one too",
    "bytes are what was sent",
    "rows without a key are one group",
    "a subquery as a value",
    "a row that a condition no longer takes",
    "each element of a record is in its own place",
    "a line of CSV has each field",
    "a datum of Avro is read",
    "an envelope of Debezium is read",
    "months are groups of a view",
    "one row may join two sessions",
    "pairs of two streams",
    "each record is in the table whose condition it meets",
    "several_sources/several_sources",
    "views/views",
)
"""Words of cases whose kind another case shows already: they are judged with the long tests."""
JUDGED = [
    pytest.param(name, marks=[pytest.mark.long] if any(words in name for words in ONCE_MORE) else [])
    for name in NAMES
]
PAGES = {
    "what_happens_to_a_row": "docs/records/what-happens-to-a-row.md",
    "many_types": "docs/author/many-types.md",
    "formats": "docs/records/what-happens-to-a-row.md",
    "gold": "docs/author/gold.md",
    "views": "docs/author/gold.md",
    "change_events": "docs/author/debezium.md",
    "elements": "docs/author/elements.md",
    "several_sources": "docs/author/several-sources.md",
    "stateful": "docs/author/stateful.md",
}
TEXTS = {
    "check": "docs/author/declarations.md",
    "plan": "docs/change/plan.md",
    "commands": "docs/reference/errors.md",
    "troubles": "docs/run/failures.md",
    "views": "docs/author/gold.md",
}
"""The pages of chapters that are played without tables, by ``tests/support/documents/chapters.py``."""


def run_all(
    session: CaseSession, folder: Path, request: pytest.FixtureRequest, *, as_streams: bool
) -> Mapping[str, Outcome]:
    """The outcome of each case that this run of pytest has chosen, by its name."""
    chosen = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    settings = make_settings(folder, "none:1")
    suite = load_suite(FILES, settings)
    assert suite.problems == ()
    pairs = zip(NAMES, suite.cases, strict=True)
    given = {name: (*case, settings) for name, case in pairs if name in chosen}
    outcomes = session.run(list(given.values()), as_streams=as_streams)
    return dict(zip(given, outcomes, strict=True))


@pytest.fixture(scope="module")
def together(
    case_session: CaseSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Mapping[str, Outcome]:
    return run_all(case_session, tmp_path_factory.mktemp("spec"), request, as_streams=False)


@pytest.fixture(scope="module")
def streams(
    case_session: CaseSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Mapping[str, Outcome]:
    return run_all(case_session, tmp_path_factory.mktemp("spec"), request, as_streams=True)


@pytest.mark.parametrize("name", JUDGED)
def test_the_tables_are_those_of_the_case(together: Mapping[str, Outcome], name: str) -> None:
    assert together[name].has_passed, failure_text(together[name])


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_tables_of_streaming_queries_are_those_of_the_case(
    streams: Mapping[str, Outcome], name: str
) -> None:
    assert streams[name].has_passed, failure_text(streams[name])


def test_each_case_that_is_only_judged_with_the_long_tests_is_one() -> None:
    assert [words for words in ONCE_MORE if not any(words in name for name in NAMES)] == []


def test_each_chapter_has_a_page_that_names_it() -> None:
    assert {file.parent.name for file in FILES} == set(PAGES)
    assert {file.parent.name for file in SPEC.glob("*/*.md")} == set(TEXTS)
    for chapter, page in {**PAGES, **TEXTS}.items():
        assert f"tests/spec/{chapter}" in (ROOT / page).read_text(encoding="utf-8"), page


def test_the_examples_of_the_pages_are_texts_of_the_files() -> None:
    """Every block of YAML, and the whole example of a topic of many types."""
    many = blocks("many_types")
    assert many["python"] == [(SPEC / "many_types" / "pipeline.py").read_text(encoding="utf-8")]
    assert blocks("stateful")["python"] == [(SPEC / "stateful" / "pipeline.py").read_text(encoding="utf-8")]
    assert many["json"] == [(SPEC / "many_types" / "logs.jsonl").read_text(encoding="utf-8")]
    for chapter, page in PAGES.items():
        chapters = {other for other, its_page in PAGES.items() if its_page == page}
        texts = [file.read_text(encoding="utf-8") for file in FILES if file.parent.name in chapters]
        shown = blocks(chapter).get("yaml", [])
        assert shown, chapter
        for block in shown:
            assert any(block in text for text in texts), block


def blocks(chapter: str) -> dict[str, list[str]]:
    """The blocks of a chapter's page, by language."""
    page = (ROOT / PAGES[chapter]).read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
        found.setdefault(language, []).append(text)
    return found
