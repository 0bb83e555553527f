"""W3, flat cost: the same micro-batch into tables of a size, of ten times it and of a hundred times.

Three pipelines in one process, each with tables grown to another size in rows, live files, commits and
tombstones. Their real queries run one at a time and take turns: of each turn the first micro-batch is
thrown away, the others are measured. A commit is an append of 1,000 records, from Kafka to bronze and from
bronze to silver; a MERGE is that of 1,000 neighbouring keys, which the table has, into gold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from common.spark.session import build_session
from tests.bench.measure.stats import Goal, median, number, ratio
from tests.bench.reporting.report import Section, table
from tests.bench.run import Run
from tests.bench.workloads.shop import (
    COMMITS,
    FILES,
    HOPS,
    ROWS,
    ROWS_PER_FILE,
    Measured,
    Shop,
    Size,
    settings_in,
)

MEASURED = 4
"""Micro-batches of a turn."""
MOST_COMMIT, MOST_MERGE, MOST_WHOLE = 1.15, 1.5, 1.5


@dataclass(frozen=True, slots=True)
class Flat:
    """All that was measured.

    Attributes:
        rounds: Turns of each table.
        batches: All micro-batches that count.
        sizes: All tables, as they were before their turns.
    """

    rounds: int
    batches: tuple[Measured, ...]
    sizes: tuple[Size, ...]

    def cpu(self, hop: str, times: int) -> float:
        """Median CPU seconds from a micro-batch's rows to its commit."""
        return self._median(hop, times, lambda one: one.write.cpu)

    def whole_cpu(self, hop: str, times: int) -> float:
        """Median CPU seconds of a whole micro-batch."""
        return self._median(hop, times, lambda one: one.whole.cpu)

    def seconds(self, hop: str, times: int) -> float:
        """Median seconds from a micro-batch's rows to its commit."""
        return self._median(hop, times, lambda one: one.write.seconds)

    def _median(self, hop: str, times: int, figure: Callable[[Measured], float]) -> float:
        return median([figure(one) for one in self.batches if (one.hop, one.times) == (hop, times)])


def measured(run: Run, sizes: Sequence[int], rounds: int) -> Flat:
    """Grow the tables, then measure each hop in turns."""
    folder = run.scratch("flat")
    settings = settings_in(folder, run.broker.bootstrap_servers, run.settings)
    spark = build_session(settings, "bench", folder / "log")
    batches: list[Measured] = []
    tables: list[Size] = []
    try:
        shops = []
        for times in sizes:
            shops.append(Shop(spark, folder / f"times{times}", run.broker, times, run.settings))
            shops[-1].grow()
            run.say(f"flat: tables of {times} times {FILES} files and {COMMITS} commits are there")
        for hop in HOPS:
            tables += [shop.size(hop) for shop in shops]
            for number_ in range(rounds + 1):
                order = shops[:: 1 if number_ % 2 else -1]
                turns = [one for shop in order for one in shop.turn(hop, MEASURED)]
                if number_:  # the first compiles
                    batches += turns
            found = Flat(rounds, tuple(batches), tuple(tables))
            told = ", ".join(f"{times}x {found.cpu(hop, times):.3f}" for times in sizes)
            run.say(f"flat: CPU seconds of a {hop}: {told}")
    finally:
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.kill()
        gateway.proc.wait()
    return Flat(rounds, tuple(batches), tuple(tables))


def flat(run: Run) -> Section:
    """W3."""
    sizes = (1, 10) if run.quick else (1, 10, 100)
    found = measured(run, sizes, run.sized(run.rounds, 5, 2))
    return Section(
        "flat",
        "Flat cost: the same micro-batch into larger tables",
        lines(found, sizes, run.settings),
        goals(found, sizes[-1]),
        found,
    )


def goals(found: Flat, times: int) -> list[Goal]:
    """By the largest table that was measured: of the write alone, and of the whole micro-batch."""
    told = "" if times == 100 else f"of {times} times the table, not of 100"
    return [
        Goal(f"W3 {hop}, CPU{part} at {times} times the table / at 1", ratio(*grown), bound, "at most", told)
        for hop, (layer, _) in HOPS.items()
        for part, grown, bound in (
            (
                "",
                (found.cpu(hop, times), found.cpu(hop, 1)),
                MOST_MERGE if layer == "gold" else MOST_COMMIT,
            ),
            (
                " of the whole micro-batch",
                (found.whole_cpu(hop, times), found.whole_cpu(hop, 1)),
                MOST_WHOLE,
            ),
        )
    ]


def lines(found: Flat, sizes: Sequence[int], settings: Sequence[str] = ()) -> list[str]:
    """The section's text."""
    rows = []
    for size in found.sizes:
        hop, times = size.hop, size.times
        cpu, whole = found.cpu(hop, times), found.whole_cpu(hop, times)
        rows.append(
            (
                hop,
                f"{size.rows:,}",
                f"{size.files:,}",
                f"{size.commits:,}",
                f"{found.seconds(hop, times) * 1000:,.0f}",
                f"{cpu * 1000:,.0f}",
                number(ratio(cpu, found.cpu(hop, sizes[0]))),
                f"{whole * 1000:,.0f}",
                number(ratio(whole, found.whole_cpu(hop, sizes[0]))),
                f"{size.checkpoint_cpu * 1000:,.0f}",
            )
        )
    head = (
        "micro-batch",
        "rows there",
        "live files",
        "commits",
        "ms",
        "CPU ms",
        "times the smallest",
        "CPU ms, whole",
        "times the smallest",
        "CPU ms of a checkpoint",
    )
    given = f" and {', '.join(settings)}" if settings else ""
    what = (
        f"A micro-batch of {ROWS:,} rows into tables grown in rows, live files, commits and as many "
        f"tombstones, sources as large as targets, by the product's own queries with its default settings "
        f"but for triggers{given}: one query at a time, sizes in turns, their order turned round each time; "
        f"median of {found.rounds} rounds of {MEASURED} micro-batches each; those after a start, and the "
        "first round, are thrown away."
    )
    columns = (
        "From the micro-batch's rows to its commit; whole: from the moment the rows were in its source. The "
        f"MERGE is of {ROWS:,} neighbouring keys, in files of {ROWS_PER_FILE:,} rows with a range of keys "
        "each. CPU is that of Spark's JVM and its Python. A checkpoint of the log is due every 100 commits, "
        "and is in no other column."
    )
    return [what, "", columns, "", *table(head, rows)]
