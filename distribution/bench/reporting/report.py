"""What a run found, and how it is told: one JSON file, Markdown sections, and one page with plots.

A workload is a function ``(Run) -> Section``. A section carries its Markdown lines (a paragraph on what
was run, then a table), its goals, its raw figures, and what went wrong; nothing in it is typed by hand.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distribution.bench.measure.stats import Goal, number
from distribution.bench.reporting import page
from distribution.bench.reporting.plots import Plot, html

JSON_FILE, MARKDOWN_FILE, HTML_FILE = (
    "bench.json",
    "bench.md",
    "bench.html",
)


@dataclass(frozen=True, slots=True)
class Section:
    """What one workload found.

    Attributes:
        name: Of the workload, as ``--only`` takes it.
        title: Of its section in distribution/bench/figures/tables.md.
        lines: Markdown: what was run, and a table.
        goals: What should have come out.
        raw: Every figure behind the lines, for the JSON file.
        failures: Tables that were not as they should be, and anything else that makes figures void.
        plots: For the page.
        pictures: Those that a page of docs shows too, by their file's name.
    """

    name: str
    title: str
    lines: Sequence[str]
    goals: Sequence[Goal] = ()
    raw: Any = None
    failures: Sequence[str] = ()
    plots: Sequence[Plot] = ()
    pictures: Mapping[str, Plot] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All sections of a run, and what they were measured on."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    sections: list[Section] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """Of all sections."""
        return [f"{section.name}: {failure}" for section in self.sections for failure in section.failures]

    def write(self, folder: Path, *, to_docs: bool) -> None:
        """Write the three files, and goals and sections to docs/, but for those with a failure."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JSON_FILE).write_text(json.dumps(plain(self), indent=1), encoding="utf-8")
        parts = [page.section(one.title, one.lines, machine_line(self.machine)) for one in self.sections]
        goals = [goal for section in self.sections for goal in section.goals]
        if goals:
            parts.insert(0, page.section(page.GOALS, goal_lines(goals), machine_line(self.machine)))
        (folder / MARKDOWN_FILE).write_text("\n".join(parts), encoding="utf-8")
        (folder / HTML_FILE).write_text(self._html(goals), encoding="utf-8")
        if to_docs:
            whole = [section for section in self.sections if not section.failures]
            goals = [goal for section in whole for goal in section.goals]
            for one in whole:
                page.put(one.title, one.lines, machine_line(self.machine))
                for name, plot in one.pictures.items():
                    page.PAGE.with_name(name).write_text(f"{plot.svg()}\n", encoding="utf-8")
            if goals:
                page.put_goals(goal_rows(goals), machine_line(self.machine))

    def _html(self, goals: Sequence[Goal]) -> str:
        plots = [plot for one in self.sections for plot in (*one.plots, *one.pictures.values())]
        tables = [(one.title, list(one.lines)) for one in self.sections]
        if goals:
            tables.insert(0, (page.GOALS, goal_lines(goals)))
        return html("Benchmark", machine_line(self.machine), tables, plots)


def machine_line(machine: dict[str, Any]) -> str:
    """What figures were measured on, in a line."""
    return (
        f"{machine['machine']}, {machine['cpu']}, {machine['memory_gib']} GiB; Spark {machine['spark']}, "
        f"delta-rs {machine['delta_rs']}, Polars {machine['polars']}, Python {machine['python']}; "
        f"commit {machine['commit']}; {machine['at'][:10]}."
    )


def goal_lines(goals: Sequence[Goal]) -> list[str]:
    """The goals as a table."""
    return table(page.GOAL_HEAD[:-1], goal_rows(goals))


def goal_rows(goals: Sequence[Goal]) -> list[tuple[str, str, str, str]]:
    """A row per goal: what, its bound, what was measured, the verdict."""
    return [
        (
            goal.what,
            f"{goal.direction} {number(goal.bound)}",
            "-" if goal.measured is None else number(goal.measured),
            goal.verdict,
        )
        for goal in goals
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def plain(value: Any) -> Any:
    """A value as JSON has it: what is not a number is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
