"""The page of Spark's words, and eighty capabilities, each with its fate, a page and a test that there is."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import medallion
from common.declare import Json, Pipeline, Silver, Topic, View
from common.declare.declared import SPELT
from orchestration.author.check.pipeline import check
from tests.unit.test_docs import anchors

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "author" / "streaming-guide.md"
TEXT = PAGE.read_text(encoding="utf-8")
_, *LINES_OF_TABLE = (ROOT / "tests" / "runs" / "capabilities.tsv").read_text(encoding="utf-8").splitlines()
ROWS = [tuple(line.split("\t")) for line in LINES_OF_TABLE]
OF_OTHERS = {"StreamingQueryListener", "MedallionOperator"}

LINES = Silver(
    "lines",
    reads="bronze.lines",
    value=Json("id string, at timestamp, text string"),
    columns=["id", "at", "text"],
    key=["id"],
    event_time="at",
    watermark="1 day",
)


def test_each_of_eighty_capabilities_works_or_is_refused() -> None:
    """One line each, in order."""
    assert "tests/runs/capabilities.tsv" in TEXT
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 81)]
    assert {row[0]: row[2] for row in ROWS if row[2] != "works"} == {"21": "refused"}
    assert len({row[1] for row in ROWS}) == 80


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_has_a_page_and_a_test(row: tuple[str, ...]) -> None:
    _, _, _, page, tests = row
    file, _, anchor = page.partition("#")
    assert (ROOT / file).is_file()
    assert not anchor or anchor in anchors(ROOT / file)
    assert tests
    for test in tests.split():
        assert "def test_" in (ROOT / "tests" / test).read_text(encoding="utf-8")


def test_each_class_and_attribute_that_the_page_names_can_be_declared() -> None:
    """Also where one is within another: ``KafkaSink(value=Protobuf(…, framing="registry"))``."""
    found = [call for span in re.findall(r"`([^`\n]+)`", TEXT) for call in declarations(span)]
    assert len(found) > 60  # the page names that many
    for name, attributes in found:
        fields = {
            field.metadata.get(SPELT, field.name) for field in dataclasses.fields(getattr(medallion, name))
        }
        assert set(attributes) <= fields, (name, attributes)


def declarations(span: str) -> Iterator[tuple[str, list[str]]]:
    """Classes in a code span, which may leave out values: ``Topic(topics=, pattern=)``, ``Json(…)``."""
    if re.fullmatch(r"[A-Z][a-z]\w+", span) and span not in OF_OTHERS:
        yield span, []
    if not re.fullmatch(r"[A-Z][a-z]\w+\(.*\)", span):
        return
    text = re.sub(r"=(?=[,)])", "=None", span.replace("…", "None"))
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            yield call.func.id, [each.arg or "" for each in call.keywords]


def test_the_statements_of_the_page_are_views_without_a_mistake() -> None:
    statements = re.findall(r"`(select .+?)`", TEXT)
    assert len(statements) == 2
    views = [View(f"v{place}", sql=sql) for place, sql in enumerate(statements)]
    assert check(Pipeline("shop", bronze=[Topic("lines")], silver=[LINES], gold=views)) == ()
