"""What a reader of Spark's guide writes first: each word is a mistake with its name here, or the reason."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from common import declare
from common.declare import Aggregate, DeltaTable, Files, FileSink, KafkaSink, Pipeline, Storage
from common.errors import PipelineError
from common.spark_words import HINTS, attribute_hint
from orchestration.access.declaration.load_file import load_draft

GUIDE = (Path(__file__).parents[3] / "docs" / "author" / "streaming-guide.md").read_text(encoding="utf-8")
KINDS = {kind: words for kind, words in HINTS.items() if kind != "class" and "." not in kind}
WORDS = [(kind, word) for kind, words in KINDS.items() for word in words]
VALUES = [tuple(owner.split(".")) for owner in HINTS if "." in owner and owner != ".trigger"]


def camel(word: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), word)


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (
            Files,
            {"name": "x", "path": "in", "format": "csv", "modifiedAfter": "2026"},
            "max_file_age=… leaves files out",
        ),
        (DeltaTable, {"name": "x", "path": "t", "skipChangeCommits": True}, 'changes="appends"'),
        (Storage, {"path": "/elsewhere"}, "it is location=… here"),
        (KafkaSink, {"topic": "t", "exactly_once": True}, "BatchSink with a transactional producer"),
        (FileSink, {"path": "out", "format": "orc"}, 'format="parquet" has the same types'),
        (Pipeline, {"name": "p", "multipleWatermarkPolicy": "max"}, 'watermark_policy="max"'),
        (Aggregate, {"name": "a", "reads": "silver.x", "outputMode": "update"}, "Aggregate(mode=…)"),
    ],
)
def test_a_word_of_spark_is_a_mistake_with_the_way_out(kind: Any, given: dict[str, Any], text: str) -> None:
    with pytest.raises(PipelineError) as raised:
        kind(**given)
    assert text in str(raised.value)


def test_a_misspelt_attribute_still_gets_the_nearest_one() -> None:
    with pytest.raises(PipelineError, match="did you mean 'only'"):
        Files("x", "in", "csv", onli="*.csv")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", [*HINTS["class"], "XML"])
@pytest.mark.parametrize("how", ["from medallion import {}", "import medallion; medallion.{}", "{}('x')"])
def test_a_format_that_there_is_not_says_why(tmp_path: Path, name: str, how: str) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text(how.format(name), encoding="utf-8")
    (problem, *_) = load_draft(file).problems
    assert HINTS["class"][name.capitalize()] in problem.message
    assert problem.code == "MED-1004"


@pytest.mark.parametrize(("kind", "word"), WORDS)
def test_each_word_is_no_attribute_and_is_in_the_guide(kind: str, word: str) -> None:
    """So a word that becomes an attribute is taken out of the list, and none is missing from the page."""
    assert word not in {field.name for field in dataclasses.fields(getattr(declare, kind))}
    assert attribute_hint(kind, camel(word)) == HINTS[kind][word]
    assert any(f"{form}" in GUIDE for form in (word, camel(word), word.replace("_", "."))), word


@pytest.mark.parametrize(("kind", "name"), VALUES)
def test_each_value_is_none_that_the_attribute_takes(kind: str, name: str) -> None:
    for value, hint in HINTS[f"{kind}.{name}"].items():
        with pytest.raises(PipelineError, match=re.escape(hint)):
            getattr(declare, kind)(**{"name": "x"} if kind == "Files" else {}, path="in", **{name: value})
