"""How many statements of TPC-H and TPC-DS are kept by changes; ``tpc_kept.tsv`` says of each how, or why not.

``WRITE_TABLES=1`` writes the table on the page, and the file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from common.schema.ddl import Field
from common.sql.way import Way, decided, way_of
from common.typed.statement import argument_types
from tests.support.benchmarks.tpc import benchmark

PAGE = Path("docs/author/gold.md")
EACH = Path(__file__).parent / "tpc_kept.tsv"
BEGIN, END = "<!-- statements of benchmarks -->\n", "<!-- end -->\n"
NAMES = {"tpch": "TPC-H", "tpcds": "TPC-DS"}
KEPT = {"tpch": 22, "tpcds": 91}


def ways(name: str) -> dict[int, Way]:
    of = benchmark(name)
    fields = {
        table: [Field(column, kind) for column, kind in columns.items()]
        for table, columns in of.columns.items()
    }
    return {
        number: decided(way_of(of.read(number)), argument_types(sql, fields))
        for number, sql in of.statements.items()
    }


def shown(found: dict[str, dict[int, Way]]) -> str:
    lines = ["| benchmark | by row | by key | whole |", "|---|---|---|---|"]
    for name, each in found.items():
        kept = [way.kept for way in each.values()]
        counts = (str(kept.count(way)) for way in ("by row", "by key", "whole"))
        lines.append(f"| {NAMES[name]} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def listed(found: dict[str, dict[int, Way]]) -> str:
    lines = ["benchmark\tstatement\tkept\twhy"]
    for name, each in found.items():
        for number, way in sorted(each.items()):
            why = _short(way.why) if way.kept == "whole" else ""
            lines.append(f"{NAMES[name]}\t{number}\t{way.kept}\t{why}".rstrip())
    return "\n".join(lines) + "\n"


def _short(why: str) -> str:
    text = re.sub(r"\s+", " ", why)
    return text if len(text) <= 150 else f"{text[:90].rstrip()} … {text[-55:].lstrip()}"


def test_the_statements_of_two_benchmarks_are_kept_as_the_page_says() -> None:
    found = {name: ways(name) for name in NAMES}
    counts = {name: sum(way.kept != "whole" for way in each.values()) for name, each in found.items()}
    assert counts == KEPT
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    wanted = before + BEGIN + shown(found) + END + rest.partition(END)[2]
    if os.environ.get("WRITE_TABLES"):
        PAGE.write_text(wanted, encoding="utf-8")
        EACH.write_text(listed(found), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted
    assert EACH.read_text(encoding="utf-8") == listed(found)
