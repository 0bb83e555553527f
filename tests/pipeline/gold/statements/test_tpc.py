"""The statements of TPC-H and TPC-DS, kept by changes: the rows of their own text after every version.

Their tables are loaded, get rows, have rows corrected, lose keys that others join, are emptied and filled again.
What each statement is to have after that, Spark says of its text, and DuckDB, which has it from the benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import duckdb
import pytest
from pyspark.errors import PySparkException

from tests.runs.shards import in_turn
from tests.support.drawn.kept_view import Frames, KeptView
from tests.support.drawn.oracle import rows_of, rows_of_frames
from tests.support.tpc import Drawer, answers, benchmark, differences

ROWS = {"tpch": 20, "tpcds": 14}
STATEMENTS = [(name, number) for name in ROWS for number in benchmark(name).statements]
TOGETHER = 11
"""So many statements are kept in one test, over the same tables."""


def _together(name: str) -> list[Any]:
    numbers = [number for of, number in STATEMENTS if of == name]
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
    kept = {number: view.kept.way for number, view in views.items()}
    faults: list[str] = []
    for version in range(life.last + 1):
        for table in of.columns:
            frames.rows(table, version).createOrReplaceTempView(table)
        theirs = answers(of, life, version, [*views])
        for number in list(views):
            fault = _fault(views[number], version, theirs[number])
            if fault:
                faults.append(f"{name} {number}, {kept[number].kept}, version {version}: {fault}")
                del views[number]
    assert not faults, "\n".join(faults)


def _fault(view: KeptView, version: int, theirs: Any) -> str:
    """What is wrong with a view after a micro-batch."""
    (want,) = rows_of(view.frames.spark, [view.sql])
    try:
        view.write(version, version)
    except PySparkException as error:
        return "" if isinstance(want, PySparkException) else f"it fails: {str(error)[:300]}"
    except AssertionError as error:
        return str(error)[:300]
    if version == 0 and view.first is not None:
        (found,) = rows_of_frames([view.first])
        if isinstance(found, PySparkException):
            return "" if isinstance(want, PySparkException) else f"it fails: {str(found)[:300]}"
        view.rows = found
    if isinstance(want, PySparkException):
        return f"it runs, though Spark does not: {str(want)[:300]}"
    if view.rows != want:
        return f"too much {dict(view.rows - want)}, lacks {dict(want - view.rows)}"[:600]
    if isinstance(theirs, duckdb.Error) or _has_other_empty_groups(view.sql, want):
        return ""
    return str(differences([*want.elements()], theirs) or "")[:600]


def _has_other_empty_groups(sql: str, rows: Any) -> bool:
    """Of no rows DuckDB has the group of all rows of a ROLLUP, and Spark has none."""
    return "rollup" in sql.lower() and not rows
