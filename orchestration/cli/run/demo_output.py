"""The end of the demo: the balance of all records, a gold table with its chart, and commands to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from common.declare import Aggregate, Pipeline
from orchestration.cli.access.query_output import plain
from orchestration.cli.grid import Column, Grid
from orchestration.observe.status.row_balance import Balance

_SHORTEST_BAR, _LONGEST_BAR = 10, 100
_SHADES = ("grey37", "steel_blue", "dark_cyan", "gold3", "dark_orange", "red3", "magenta")
_ROWS = 12


def account(balance: Balance) -> RenderableType:
    """The number of records in each place, and whether they add up to the offsets read."""
    grid = Table(
        title=f"where every record is: {balance.table}", title_justify="left", show_header=False, box=None
    )
    grid.add_column(justify="right")
    grid.add_column()
    if balance.unread is not None:
        grid.add_row(f"{balance.bronze + balance.unread:,}", "offsets in Kafka")
        grid.add_row(f"{balance.unread:,}", "not read yet", style="dim")
    grid.add_row(f"{balance.bronze:,}", f"rows in {balance.reads}")
    grid.add_section()
    for count, name in (
        (balance.silver, f"rows in {balance.table}"),
        (balance.quarantined, f"rows in {balance.table}__quarantine, with their reasons"),
        (balance.dropped, "dropped by a rule"),
        (balance.tombstones, "tombstones: records without a value stay in bronze only"),
        (balance.duplicates, "duplicates"),
        (balance.late, f"late rows, behind the watermark, in {balance.table}__late"),
        *([(balance.other, "records of other tables, by its condition")] if balance.other else []),
        (balance.waiting, "not processed yet"),
    ):
        grid.add_row(f"{count:,}", name)
    verdict = (
        Text("balanced: every record is in exactly one place", style="bold green")
        if balance.difference == 0
        else Text(
            f"not balanced by {abs(balance.difference):,} records",
            style="bold red",
        )
    )
    return Group(grid, verdict)


def table(aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The largest groups of the gold table, by the first measure."""
    by, measures = list(aggregate.by or ()), list(aggregate.measures)
    ordered = sorted(rows, key=lambda row: _number(row[measures[0]]), reverse=True)
    columns = [
        *(Column(name, is_time=True) for name in by),
        Column(measures[0], "right"),
        *(Column(name, "right", rank=rank, is_time=True) for rank, name in enumerate(measures[1:], 1)),
    ]
    cells = [[str(plain(row[name])) for name in [*by, *measures]] for row in ordered[:_ROWS]]
    more = len(ordered) - _ROWS
    title = f"{aggregate.table}: {len(rows)} groups"
    return Grid(columns, cells, title=title, note=f"and {more} more" if more > 0 else "")


class Chart:
    """Bars that are as long as the width of the console allows."""

    def __init__(self, aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> None:
        self._by, self._measure = list(aggregate.by or ()), next(iter(aggregate.measures))
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        by, bars = self._by, self._bars()
        sums = {name: sum(bar.values()) for name, bar in bars.items()}
        names = max((cell_len(name) for name in bars), default=0)
        counts = max((len(f"{total:,.0f}") for total in sums.values()), default=0)
        size = max(_SHORTEST_BAR, min(_LONGEST_BAR, options.max_width - names - counts - 6))
        longest = max(sums.values(), default=1) or 1
        parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
        shade = {part: _SHADES[number % len(_SHADES)] for number, part in enumerate(parts)}
        yield Text(f"{self._measure} per {by[0]}", style="italic")
        for name in sorted(bars, key=lambda one: -sums[one]):
            line = Text(f" {name:<{names}}  ")
            for part, count in bars[name].items():
                line.append("█" * round(count / longest * size), style=shade[part])
            line.append(" " * (names + 3 + size - line.cell_len))
            yield line.append(f"  {sums[name]:>{counts},.0f}")
        if len(by) > 1:
            yield Text(" ").join(Text(f"■\u00a0{part}", style=shade[part]) for part in parts)

    def _bars(self) -> dict[str, dict[str, float]]:
        """The measure by first and second grouping column."""
        by = self._by
        parts = sorted({str(row[by[1]]) for row in self._rows}) if len(by) > 1 else [""]
        bars: dict[str, dict[str, float]] = {}
        for row in self._rows:
            bar = bars.setdefault(str(row[by[0]]), dict.fromkeys(parts, 0.0))
            bar[str(row[by[1]]) if len(by) > 1 else ""] += _number(row[self._measure])
        return bars


def next_commands(pipeline: Pipeline, after: Sequence[str] = ()) -> RenderableType:
    """Commands to type next, ``after`` some others; each on one line, so that it can be copied."""
    gold = pipeline.gold[-1].table if pipeline.gold else pipeline.bronze[0].table
    return _Commands(
        (
            (f'medallion query "select * from {gold} limit 5"', "SQL over the tables"),  # noqa: S608  # shown, not run
            ("medallion status --watch", "rows, lag and speed of every table"),
            ("medallion up", "run until Ctrl-C"),
            ("medallion produce --rate 2000", "more events, from another terminal"),
            ("medallion backfill", "process what is there, then end"),
            ("medallion quality run", "the data-quality suites"),
        ),
        after,
    )


class _Commands:
    """Commands with explanations: beside them where all fit, else above them."""

    def __init__(self, commands: Sequence[tuple[str, str]], after: Sequence[str]) -> None:
        self._commands, self._after = commands, after

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = f"try next (after: {'; '.join(self._after)})" if self._after else "try next"
        yield Text(head, style="italic", no_wrap=True, overflow="ignore")
        longest = max(len(command) for command, _ in self._commands)
        beside = all(longest + 4 + len(what) <= options.max_width for _, what in self._commands)
        for command, what in self._commands:
            if beside:
                yield Text.assemble((f" {command:<{longest}}", "bold"), (f"   {what}", "dim"))
            else:
                yield Text(f" # {what}", style="dim")
                yield Text(f" {command}", style="bold", no_wrap=True, overflow="ignore")


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
