"""W12, maintenance: files, freshness and CPU of a job that compacts its own tables, beside one that does not.

``medallion up`` under a steady stream with nobody typing, twice from nothing: with its default settings, and
with ``maintenance.cpu_share=0``. Live files are counted at the end of each run; the job says itself how long
its maintenance worked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from distribution.bench.contenders.ours import Ours
from distribution.bench.measure.stats import Goal, ratio
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import Run
from distribution.bench.workloads.files import Count, counts
from distribution.bench.workloads.freshness import Fresh, measured

MOST_FILES, MOST_TIMES, MOST_SHARE = 60, 1.5, 0.1
_SAID = re.compile(r"maintenance: (\d+) compactions, ([\d.]+) s of ([\d.]+) s")


@dataclass(frozen=True, slots=True)
class Kept:
    """One run.

    Attributes:
        fresh: Ages of its rows, and what it used.
        tables: Each table at the end.
        compactions: Compactions of its maintenance.
        share: Share of the time in which maintenance worked; not a number where it does not say so.
    """

    fresh: Fresh
    tables: Mapping[str, Count]
    compactions: int
    share: float

    @property
    def most_files(self) -> int:
        """Live files of the table with the most."""
        return max(count.files for count in self.tables.values())


def kept(run: Run, name: str, *settings: str) -> Kept:
    """Run the product once with these settings."""
    ours = Ours((*run.settings, *settings))
    ours.name = name
    seconds, warm_up = run.sized(run.seconds, 600, 120), run.sized(run.warm_up, 60, 30)
    per_second = run.per_second or 2_000
    fresh = measured(run, ours, per_second, seconds, warm_up)
    folder = run.folder / f"fresh-{name}-{per_second}"
    said = _SAID.search((folder / "up.log").read_text(encoding="utf-8", errors="replace"))
    share = math.nan if said is None else ratio(float(said[2]), float(said[3]))
    return Kept(fresh, counts(ours.tables(folder)), 0 if said is None else int(said[1]), share)


def maintenance(run: Run) -> Section:
    """W12."""
    without = kept(run, "ours-without-maintenance", "maintenance.cpu_share=0")
    with_ = kept(run, "ours-with-maintenance")
    failures = [
        f"{one.fresh.contender}: its tables do not equal the oracle's"
        for one in (without, with_)
        if not one.fresh.kept_up
    ]
    title = "Maintenance: a job that compacts its own tables"
    return Section(
        "maintenance", title, lines(with_, without), goals(with_, without), (with_, without), failures
    )


def goals(with_: Kept, without: Kept) -> list[Goal]:
    """Files, freshness, share of the time."""
    times = ratio(with_.fresh.gold("p99").seconds, without.fresh.gold("p99").seconds)
    return [
        Goal("W12 live files of the table with the most", with_.most_files, MOST_FILES, "at most", ""),
        Goal("W12 p99 from event to gold, times that without maintenance", times, MOST_TIMES, "at most", ""),
        Goal("W12 share of the time in which maintenance works", with_.share, MOST_SHARE, "at most", ""),
    ]


def lines(with_: Kept, without: Kept) -> list[str]:
    """The section's text."""
    fresh = with_.fresh
    what = (
        f"`medallion up` with its default settings under {fresh.per_second:,} messages a second for "
        f"{fresh.seconds:.0f} s with nobody typing, and the same with `maintenance.cpu_share=0`. Live files "
        f"are those at the end. Maintenance made {with_.compactions} compactions and worked for "
        f"{with_.share:.1%} of the time."
    )
    rows = [
        (name, f"{count.files:,}", f"{without.tables[name].files:,}", f"{count.bytes / 2**20:,.1f} MiB")
        for name, count in with_.tables.items()
        if name in without.tables
    ]
    costs = [
        (
            "with maintenance" if one is with_ else "without",
            f"{one.fresh.gold('p50').seconds:.1f} s",
            f"{one.fresh.gold('p99').seconds:.1f} s",
            f"{one.fresh.usage.cores:.2f}",
        )
        for one in (with_, without)
    ]
    return [
        what.replace("%", " %"),
        "",
        *table(("table", "live files", "without maintenance", "bytes"), rows),
        "",
        *table(("run", "p50 to gold", "p99 to gold", "cores"), costs),
    ]
