"""Lines of text files: each a row as it stands, whatever it looks like; ORC is refused by name."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from common.declare import Files, Pipeline, Silver, Text, View
from common.errors import PipelineError
from tests.conftest import make_settings
from tests.support.engine import Engine

LINES = [
    "a b a",
    "  two blanks before",
    '{"no": "json',
    'a "quote',
    "h\u00e9 \U0001f600",
    "tab\there",
    "\ufefflast",
]


@pytest.mark.long
def test_each_line_is_a_row_as_it_stands(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "2026" / "01").mkdir(parents=True)
    (folder / "one.txt").write_text("\n".join(LINES[:4]) + "\n\n", encoding="utf-8", newline="")
    with gzip.open(folder / "2026" / "01" / "two.log.gz", "wt", encoding="utf-8", newline="") as out:
        out.write("\n".join(LINES[4:]))
    (folder / "2026" / "bad.txt").write_bytes(b"fine\nnot \xff UTF-8\n")
    lines = Silver(
        "lines",
        reads="bronze.lines",
        value=Text(),
        columns={"line": "value", "file": "_kafka.value", "at": "_kafka.timestamp", "n": "_kafka.offset"},
        key=["n"],
        event_time="at",
        watermark="1 day",
    )
    words = View(
        "words",
        sql="select word, count(*) as n from silver.lines lateral view explode(split(line, ' ')) w as word "
        "group by word",
    )
    pipeline = Pipeline("p", bronze=[Files("lines", str(folder), "jsonl")], silver=[lines], gold=[words])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    engine.run()
    rows = engine.rows("silver.lines")
    assert Counter(row["line"] for row in rows) == Counter([*LINES, "fine"])
    (aside,) = engine.rows("silver.lines__quarantine")
    assert (aside["value"], aside["reasons"]) == (b"not \xff UTF-8", ["not_utf8"])
    found = {row["word"]: row["n"] for row in engine.rows("gold.words")}
    assert found == Counter(word for line in [*LINES, "fine"] for word in line.split(" "))
    assert engine.faults() == ()


@pytest.mark.parametrize(
    ("kind", "way"), [("orc", "write the files as Parquet"), ("text", 'format="jsonl" keeps a line')]
)
def test_other_names_of_formats_say_the_way(kind: Any, way: str) -> None:
    with pytest.raises(PipelineError, match=way):
        Files("lines", "in", kind)
