"""Output of ``medallion quality``: results, state and history of suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.text import Text

from common.machine.terminal import visible
from orchestration.cli.grid import Column, Grid
from orchestration.quality.judgement import ExpectationResult, SuiteResult
from orchestration.quality.run import FailingRows


def suite_tables(result: SuiteResult, examples: Sequence[FailingRows] = ()) -> Group:
    """The result of a suite, with examples of failing rows."""
    mark = ("passed", "green") if result.is_met else ("failed", "bold red")
    rows = f", {result.rows:,} rows" if result.rows is not None else ""
    since = f" since version {result.since}" if result.since is not None else ""
    title = Text.assemble(f"{result.table}, version {result.version}{since}{rows}: ", mark)
    columns = (
        Column(""),
        Column("expectation"),
        Column("column"),
        Column("expected", rank=1),
        Column("found"),
    )
    lines = [
        (
            _mark(one),
            one.expectation.removeprefix("expect_"),
            visible(one.column),
            visible(one.expected),
            visible(one.observed),
        )
        for one in result.checked
    ]
    parts: list[Any] = [title, Grid(columns, lines), Text()]
    for found in examples:
        parts += [_examples(found), Text()]
    return Group(*parts)


def document(result: SuiteResult) -> dict[str, Any]:
    """A result for ``--json``."""
    found = asdict(result)
    found["at"] = result.at and result.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for one in found["checked"]:
        one.pop("details")
    return found


def examples_document(found: FailingRows) -> dict[str, Any]:
    """Examples of failing rows for ``--json``."""
    rows = [dict(zip(found.columns, map(_plain, row), strict=False)) for row in found.rows]
    return {"expectation": found.expectation, "column": found.column, "rows": rows}


def _examples(found: FailingRows) -> Group:
    name = found.expectation.removeprefix("expect_")
    title = Text(f"rows that do not meet {name} of {visible(found.column)}, by key:")
    lines = [tuple(visible(str(_plain(value))) for value in row) for row in found.rows]
    return Group(title, Grid(tuple(Column(name) for name in found.columns), lines))


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _mark(one: ExpectationResult) -> Text:
    if one.is_met:
        return Text("✓", style="green")
    return Text("✗", style="bold red") if one.severity == "error" else Text("!", style="yellow")
