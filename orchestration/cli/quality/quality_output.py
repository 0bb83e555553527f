"""Output of ``medallion quality``: results, state and history of suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rich.console import Group
from rich.text import Text

from common.machine.terminal import visible
from orchestration.access.query.shown_values import part
from orchestration.cli.access.query_output import shown_time
from orchestration.cli.grid import Column, Grid
from orchestration.quality.evaluate import FailingRows
from orchestration.quality.judgement import ExpectationResult, SuiteResult
from orchestration.quality.state import PastRun, SuiteState


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
    names = [one.name for one in fields(ExpectationResult) if one.name != "details"]
    return {**part(result), "checked": [part(one, *names) for one in result.checked]}


def examples_document(found: FailingRows) -> dict[str, Any]:
    """Examples of failing rows for ``--json``."""
    rows = [dict(zip(found.columns, map(_plain, row), strict=False)) for row in found.rows]
    return {"expectation": found.expectation, "column": found.column, "rows": rows}


def _examples(found: FailingRows) -> Group:
    name = found.expectation.removeprefix("expect_")
    title = Text(f"rows that do not meet {name} of {visible(found.column)}, by key:")
    lines = [
        tuple("null" if value is None else visible(str(_plain(value))) for value in row) for row in found.rows
    ]
    return Group(title, Grid(tuple(Column(name) for name in found.columns), lines))


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _mark(one: ExpectationResult) -> Text:
    if one.is_met:
        return Text("✓", style="green")
    return Text("✗", style="bold red") if one.severity == "error" else Text("!", style="yellow")


_STYLES = {"passed": "green", "warned": "yellow", "failed": "bold red", "never run": "dim"}


def state_table(found: Sequence[SuiteState]) -> Group:
    """The state of suites and gates, and what their last runs did not meet."""
    columns = (
        Column("table"),
        Column("state"),
        Column("gate"),
        Column("version", "right"),
        Column("evaluated", "right"),
        Column("published", "right"),
        Column("last run", is_time=True, rank=1),
    )
    lines: list[Sequence[Text | str]] = []
    for one in found:
        last = one.last
        lines.append(
            (
                one.suite.table,
                Text(one.word, style=_STYLES[one.word]),
                one.suite.gate or "",
                "" if one.newest is None else str(one.newest),
                "" if last is None else str(last.version),
                _published(one),
                "" if last is None else shown_time(last.at),
            )
        )
    parts: list[Any] = [Grid(columns, lines)]
    for one in found:
        if one.last is not None and (one.last.failures or one.last.warnings):
            parts += [Text(), _not_met(one.last)]
    return Group(*parts)


def history_table(state: SuiteState, limit: int) -> Grid:
    """The newest runs of a suite."""
    columns = (
        Column("run", is_time=True),
        Column("by"),
        Column("version", "right"),
        Column("since", "right", rank=2),
        Column("rows", "right"),
        Column("result"),
        Column("failed", "right"),
        Column("warned", "right"),
        Column("seconds", "right", rank=1),
    )
    lines: list[Sequence[Text | str]] = [
        (
            shown_time(run.at),
            run.reason,
            str(run.version),
            "" if run.since is None else str(run.since),
            "" if run.rows is None else f"{run.rows:,}",
            Text("failed", style="bold red") if run.failures else Text("passed", style="green"),
            str(len(run.failures) or ""),
            str(len(run.warnings) or ""),
            f"{run.seconds:.2f}",
        )
        for run in state.runs[:limit]
    ]
    return Grid(columns, lines, title=f"runs of the suite of {state.suite.table}, newest first")


def failing_rows_group(table: str, version: int, found: Sequence[FailingRows]) -> Group:
    """The failing rows of a run."""
    parts: list[Any] = [Text(f"{table}, version {version}: rows that failed the suite")]
    for one in found:
        parts += [_examples(one), Text()]
    return Group(*parts)


def _published(state: SuiteState) -> str:
    if state.suite.gate != "publish":
        return ""
    return "none yet" if state.published is None else str(state.published)


def _not_met(run: PastRun) -> Grid:
    columns = (Column(""), Column("expectation"), Column("column"), Column("found"))
    lines = [
        (_mark(one), one.expectation.removeprefix("expect_"), visible(one.column), visible(one.observed))
        for one in (*run.failures, *run.warnings)
    ]
    return Grid(columns, lines, title=f"{run.table}, version {run.version}, does not meet:")
