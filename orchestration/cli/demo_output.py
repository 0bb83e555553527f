"""What the demo shows at its end: the account of all rows, the gold table, its chart, what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from common.declare import Aggregate, Pipeline
from orchestration.cli.query_output import plain
from orchestration.status.row_balance import Balance

_BAR = 56
_SHADES = ("grey37", "steel_blue", "dark_cyan", "gold3", "dark_orange", "red3", "magenta")
_ROWS = 12


def account(found: Balance) -> RenderableType:
    """Where every row went, and whether that adds up."""
    grid = Table(
        title=f"where every event went: {found.table}", title_justify="left", show_header=False, box=None
    )
    grid.add_column(justify="right")
    grid.add_column()
    if found.unread is not None:
        grid.add_row(f"{found.bronze + found.unread:,}", "offsets in Kafka")
        grid.add_row(f"{found.unread:,}", "not read yet", style="dim")
    grid.add_row(f"{found.bronze:,}", f"rows in {found.reads}")
    grid.add_section()
    for count, name in (
        (found.silver, f"rows in {found.table}"),
        (found.quarantined, f"rows in {found.table}__quarantine, with their reasons"),
        (found.dropped, "left out by a rule"),
        (found.tombstones, "without a value: they stay in bronze"),
        (found.duplicates, "duplicates"),
        (found.late, f"later than the watermark, in {found.table}__late"),
        (found.waiting, "not processed yet"),
    ):
        grid.add_row(f"{count:,}", name)
    verdict = (
        Text("every event is in exactly one of them", style="bold green")
        if found.difference == 0
        else Text(f"{found.difference:,} rows do not add up", style="bold red")
    )
    return Group(grid, verdict)


def table(aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The gold table's biggest groups."""
    by, measures = list(aggregate.by or ()), list(aggregate.measures)
    grid = Table(title=f"{aggregate.table}: {len(rows)} groups", title_justify="left")
    for name in by:
        grid.add_column(name)
    for name in measures:
        grid.add_column(name, justify="right")
    ordered = sorted(rows, key=lambda row: _number(row[measures[0]]), reverse=True)
    for row in ordered[:_ROWS]:
        grid.add_row(*(str(plain(row[name])) for name in [*by, *measures]))
    if len(ordered) > _ROWS:
        grid.caption = f"and {len(ordered) - _ROWS} more"
    return grid


def chart(aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A bar per first grouping column, as long as the first measure, split by the second column."""
    by, measure = list(aggregate.by or ()), next(iter(aggregate.measures))
    classes = sorted({str(row[by[1]]) for row in rows}) if len(by) > 1 else [""]
    groups: dict[str, dict[str, float]] = {}
    for row in rows:
        bar = groups.setdefault(str(row[by[0]]), dict.fromkeys(classes, 0.0))
        bar[str(row[by[1]]) if len(by) > 1 else ""] += _number(row[measure])
    longest = max((sum(bar.values()) for bar in groups.values()), default=1) or 1
    grid = Table(title=f"{measure} per {by[0]}", title_justify="left", show_header=False, box=None)
    grid.add_column()
    grid.add_column()
    grid.add_column(justify="right")
    shade = {name: _SHADES[i % len(_SHADES)] for i, name in enumerate(classes)}
    for name, bar in sorted(groups.items(), key=lambda item: -sum(item[1].values())):
        line = Text()
        for part, count in bar.items():
            line.append("█" * round(count / longest * _BAR), style=shade[part])
        grid.add_row(name, line, f"{sum(bar.values()):,.0f}")
    legend = Text(" ").join(Text(f"■ {name}", style=shade[name]) for name in classes if name)
    return Group(grid, legend) if legend else grid


def next_commands(pipeline: Pipeline) -> RenderableType:
    """What to type next."""
    gold = pipeline.gold[-1].table if pipeline.gold else pipeline.bronze[0].table
    grid = Table(title="try next", title_justify="left", show_header=False, box=None)
    for command, what in (
        (f'medallion query "select * from {gold} limit 5"', "SQL over the tables"),  # noqa: S608  # shown, not run
        ("medallion status", "where every table stands; --watch for live"),
        ("medallion up", "run until Ctrl-C; in another terminal: medallion produce --rate 2000"),
        ("medallion backfill", "catch up with what is there, and end"),
        ("medallion quality run", "the pipeline's data-quality suites"),
    ):
        grid.add_row(Text(command, style="bold"), Text(what, style="dim"))
    return Group(grid, Text("(source .venv/bin/activate first, or type .venv/bin/medallion)", style="dim"))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
