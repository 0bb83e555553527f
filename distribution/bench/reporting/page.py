"""The pages of docs that a bench writes, and what their figures are measured with.

``distribution/bench/figures/tables.md`` has the sections of all workloads. A section is found by its title
and replaced whole; the others stay. ``docs/performance.md`` has the goals, kept row by row: a run puts its
own goals in, each with its date, and leaves those of workloads that it did not run. The rest of that page is
written by hand.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "performance.md"
TABLES = Path(__file__).parents[1] / "figures" / "tables.md"


def section(title: str, lines: Sequence[str], machine: str) -> str:
    """A section's Markdown; ``machine`` says what it was measured on, and when."""
    return "\n".join([f"## {title}", "", *lines, "", machine, ""])


def put(title: str, lines: Sequence[str], machine: str) -> str:
    """Put a section in the place of the one of that title, or at the end; hands the section back."""
    text = section(title, lines, machine)
    TABLES.write_text(replaced(TABLES.read_text(encoding="utf-8"), title, text), encoding="utf-8")
    return text


def replaced(page: str, title: str, text: str) -> str:
    """The page with a section in the place of the one of that title, or at its end."""
    new, found = _place(title).subn(lambda _: f"{text}\n", page)
    return (new if found else f"{page.rstrip()}\n\n{text}").rstrip() + "\n"


def put_goals(rows: Sequence[Sequence[str]], machine: str) -> None:
    """Bring the table of goals up to date: the first section of docs/performance.md.

    Args:
        rows: Cells of ``GOAL_HEAD`` but for the date. A row of the same first cell is replaced.
        machine: What they were measured on, and when.
    """
    PAGE.write_text(with_goals(PAGE.read_text(encoding="utf-8"), rows, machine), encoding="utf-8")


GOALS = "Goals"
GOAL_HEAD = ("goal", "bound", "measured", "", "date")


def with_goals(page: str, rows: Sequence[Sequence[str]], machine: str) -> str:
    """The page with these goals in its table."""
    old = _place(GOALS).search(page)
    lines = [line for line in old[0].splitlines() if line.startswith("|")][2:] if old else []
    known = {
        cells[0]: cells for cells in (tuple(c.strip() for c in line.strip("|").split("|")) for line in lines)
    }
    date = machine.rstrip(".").rpartition("; ")[2]
    known |= {row[0]: (*row, date) for row in rows}
    cells = [known[what] for what in sorted(known, key=_in_order)]
    made = section(GOALS, [_row(GOAL_HEAD), "|" + "---|" * len(GOAL_HEAD), *map(_row, cells)], machine)
    if old:
        return replaced(page, GOALS, made)
    head, mark, rest = page.partition("\n## ")
    return f"{head.rstrip()}\n\n{made}{mark}{rest}".rstrip() + "\n"


def _in_order(what: str) -> tuple[int, str]:
    """W2 before W10."""
    number = re.match(r"W(\d+)", what)
    return (int(number[1]) if number else 1_000, what)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _place(title: str) -> re.Pattern[str]:
    return re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def cpu_name() -> str:
    """Processors and their model, such as ``2 CPUs: Some Processor @ 2.80GHz``."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    names = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")]
    return f"{len(names)} CPUs: {names[0]}" if names else platform.processor()
