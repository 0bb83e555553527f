"""The statements of TPC-H and TPC-DS, kept by changes: the rows of their own text after every version.

Their tables are loaded, get rows, have rows corrected, lose keys that others join, are emptied and filled again.
What each statement is to have after that, Spark says of its text, and DuckDB, which has it from the benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from common.schema.ddl import Field
from common.sql.way import decided, way_of
from common.typed.statement import argument_types
from tests.runs.shards import in_turn
from tests.support.benchmarks.tpc import Drawer, answers, benchmark, differences
from tests.support.drawn.kept_view import Frames, KeptView
from tests.support.drawn.oracle import rows_of, rows_of_frames

ROWS = {"tpch": 20, "tpcds": 14}
STATEMENTS = {"tpch": range(1, 23), "tpcds": range(1, 100)}
OTHERWISE = {
    "tpch": {11: "Spark compares decimals of 38 digits by two places behind the point"},
    "tpcds": {},
}
"""Statements whose rows DuckDB gives otherwise than Spark does, and why."""
TOGETHER = 11
"""So many statements are kept in one test, over the same tables."""


def _together(name: str) -> list[Any]:
    numbers = STATEMENTS[name]
    return [
        pytest.param(name, numbers[first : first + TOGETHER], id=f"{name} from {numbers[first]}")
        for first in range(0, len(numbers), TOGETHER)
    ]


@pytest.mark.long
@pytest.mark.parametrize(("name", "numbers"), in_turn([*_together("tpch"), *_together("tpcds")], 4))
def test_a_statement_of_a_benchmark_has_the_rows_of_its_text(
    plain: Any, name: str, numbers: Sequence[int]
) -> None:
    of = benchmark(name)
    life = Drawer(of, Random(f"{name} {numbers[0]}")).life(ROWS[name])
    frames = Frames(plain, life)
    views = {number: KeptView(f"q{number}", of.statements[number], frames) for number in numbers}
    fields = {
        table: [Field(column, kind) for column, kind in columns.items()]
        for table, columns in of.columns.items()
    }
    faults: list[str] = []
    for number, view in views.items():
        told = decided(way_of(of.read(number)), argument_types(of.statements[number], fields)).kept
        if view.kept.way.kept != told:
            faults.append(f"{name} {number} is kept {view.kept.way.kept}, and was said to be {told}")
    for version in range(life.last + 1):
        for table in of.columns:
            frames.rows(table, version).createOrReplaceTempView(table)
        theirs = answers(of, life, version, [*views])
        for number in list(views):
            answer = None if number in OTHERWISE[name] else theirs[number]
            fault = _fault(views[number], version, answer)
            if fault:
                faults.append(f"{name} {number}, {views[number].kept.way.kept}, version {version}: {fault}")
                del views[number]
    assert not faults, "\n".join(faults)


def _fault(view: KeptView, version: int, theirs: Any) -> str:
    """What is wrong with a view after a micro-batch; ``theirs`` are DuckDB's rows, where they are compared."""
    (want,) = rows_of(view.frames.spark, [view.sql])
    found = _written(view, version)
    if isinstance(found, Exception) or isinstance(want, PySparkException):
        is_both = isinstance(found, PySparkException) and isinstance(want, PySparkException)
        return "" if is_both else f"it gives {str(found)[:300]}, and Spark {str(want)[:300]}"
    if found != want:
        return f"too much {dict(found - want)}, lacks {dict(want - found)}"[:600]
    if not isinstance(theirs, list) or _has_other_empty_groups(view.sql, want):
        return ""
    return str(differences([*want.elements()], theirs) or "")[:600]


def _written(view: KeptView, version: int) -> Counter[Any] | Exception:
    """The rows of a view after a micro-batch, or how it fails."""
    try:
        view.write(version, version)
    except (PySparkException, AssertionError) as error:
        return error
    if version == 0 and view.first is not None:
        (found,) = rows_of_frames([view.first])
        if isinstance(found, PySparkException):
            return found
        view.rows = found
    return view.rows


def _has_other_empty_groups(sql: str, rows: Any) -> bool:
    """Of no rows DuckDB has the group of all rows of a ROLLUP, and Spark has none."""
    return "rollup" in sql.lower() and not rows
