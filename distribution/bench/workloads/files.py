"""W5, files: how many a table is made of after a while under load, with the product's own maintenance.

``medallion up`` under a steady stream. Gold's queries compact what they write by themselves; bronze and
silver are compacted by ``medallion maintain``, for which the job has to stand still: so it is stopped,
maintained and started again, while the stream goes on. An hour is worked out from what was counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from distribution.bench.contenders.ours import Ours
from distribution.bench.data import topic
from distribution.bench.data.events import Stream
from distribution.bench.data.sender import sending
from distribution.bench.measure.machine import Meter, Usage
from distribution.bench.measure.oracle import Tables, differences, expected
from distribution.bench.measure.settling import all_paths, settled
from distribution.bench.measure.stats import Goal, ratio
from distribution.bench.reporting.report import Section, table
from distribution.bench.run import OURS, Run

MOST_FILES = 60
FULL_BYTES = 48 * 1024 * 1024
"""Maintenance leaves files from this size on as they are, and makes one of smaller ones."""
HOUR = 3_600.0
_SETTLE_SECONDS = 300.0
_MAINTAIN_SECONDS = 900.0
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Count:
    """A table at a moment: live files and their bytes, and commits so far."""

    files: int
    bytes: int
    commits: int


@dataclass(frozen=True, slots=True)
class Part:
    """One stretch of running and the maintenance at its end.

    Attributes:
        seconds: From its start to its stop.
        usage: Of ``medallion up`` in that time.
        before: Each table before maintenance.
        after: And after it.
        maintained: What maintenance used; for so long nothing ran.
    """

    seconds: float
    usage: Usage
    before: Mapping[str, Count]
    after: Mapping[str, Count]
    maintained: Usage


@dataclass(frozen=True, slots=True)
class Files:
    """All stretches.

    Attributes:
        per_second: Messages per second.
        seconds: Of stream that is in the tables at the end.
        failures: What makes the figures void.
    """

    per_second: int
    seconds: float
    parts: tuple[Part, ...]
    failures: tuple[str, ...] = ()

    def hourly(self, name: str) -> float:
        """Live files of a table after an hour of stream and maintenance; counted, if it was an hour.

        Else worked out from its bytes, in proportion to the time and in the smallest files that
        maintenance leaves alone; never fewer than were counted. To take files for bytes would have the
        one file of a short run stand for sixty.
        """
        count = self.parts[-1].after[name]
        if self.seconds >= HOUR:
            return count.files
        return max(count.files, math.ceil(count.bytes * HOUR / self.seconds / FULL_BYTES))

    def written_hourly(self, name: str) -> float:
        """Live files that come per hour where nobody maintains the table: as the first stretch left them."""
        first = self.parts[0]
        return ratio(first.before[name].files * HOUR, first.seconds)


def counts(tables: Tables) -> dict[str, Count]:
    """Each table that there is, as it is now."""
    found = {}
    for name, path in all_paths(tables).items():
        if DeltaTable.is_deltatable(str(path)):
            now = DeltaTable(str(path))
            sizes = now.get_add_actions(flatten=True).column("size_bytes").to_pylist()
            found[name] = Count(len(sizes), sum(sizes), now.version() + 1)
    return found


def measured(run: Run, per_second: int, seconds: int, parts: int) -> Files:
    """Run, stop, maintain, so many times; the last time with everything sent and in the tables."""
    folder, ours = run.scratch("files"), run.ours()
    source, tables = topic.made(run.broker, "files"), ours.tables(folder)
    stream = Stream(seed=5, start=time.time_ns() // 1_000 + _SECOND, per_second=per_second)
    found: list[Part] = []
    sent, failures = 0, []
    with sending(source, stream, folder) as sender:
        for part in range(parts):
            with (
                ours.run(folder, source) as started,
                Meter({OURS: started.pid, "broker": run.broker.pid}) as meter,
            ):
                begun = meter.at_birth(OURS, started.began)
                while meter.read().at - begun.at < seconds / parts:
                    time.sleep(1.0)
                    started.check()
                if part == parts - 1:
                    sent = sender.stop()
                    failures += settled(ours, folder, started, stream, sent, seconds=_SETTLE_SECONDS)
                started.stop()
                usage = meter.read().since(begun, OURS)
            before = counts(tables)
            maintained = _maintained(run, ours, source)
            after = counts(tables)
            found.append(Part(usage.seconds, usage, before, after, maintained))
            told = ", ".join(f"{name} {before[name].files} to {after[name].files}" for name in after)
            run.say(f"files: part {part + 1} of {parts}, live files: {told}")
    if not failures:
        failures = differences(tables, expected(stream, sent))
    return Files(per_second, sent / per_second, tuple(found), tuple(failures))


def _maintained(run: Run, ours: Ours, source: topic.Source) -> Usage:
    folder = run.folder / "files"
    with ours.command(folder, source, "maintain") as started, Meter({OURS: started.pid}) as meter:
        begun = meter.at_birth(OURS, started.began)
        started.await_end(_MAINTAIN_SECONDS)
        return meter.read().since(begun, OURS)


def files(run: Run) -> Section:
    """W5."""
    title = "Files: after a while, with maintenance"
    seconds = run.sized(run.seconds, 600, 60)
    found = measured(run, run.per_second or 2_000, seconds, 1 if run.quick else 2)
    return Section("files", title, lines(found, run.settings), goals(found), found, found.failures)


def goals(found: Files) -> list[Goal]:
    """By the table with the most files."""
    worst = max(found.parts[-1].after, key=found.hourly)
    told = f"{worst}, " + (
        "counted" if found.seconds >= HOUR else f"worked out from {found.seconds:.0f} s of stream"
    )
    measured_ = None if found.failures else found.hourly(worst)
    return [Goal("W5 live files per table and hour", measured_, MOST_FILES, "at most", told)]


def lines(found: Files, settings: tuple[str, ...] = ()) -> list[str]:
    """The section's text."""
    given = f" and {', '.join(settings)}" if settings else ""
    times = "once, at the end" if len(found.parts) == 1 else f"{len(found.parts)} times, at equal distances"
    what = (
        f"`medallion up` with its default settings{given} under {found.per_second:,} messages a second, "
        f"{found.seconds:.0f} s of them. The job was stopped for `medallion maintain` {times}, the stream "
        "was not. Counted: live files before and after the last maintenance, commits and bytes. Worked out, "
        "in proportion to the time: files per hour with maintenance, from the bytes, in files of "
        f"{FULL_BYTES // 2**20} MiB, the smallest that it leaves alone (counted, where it was an hour); and "
        "files per hour without it, from the first stretch."
    )
    last = found.parts[-1]
    rows = [
        (
            name,
            f"{last.before[name].files:,}",
            f"{count.files:,}",
            f"{count.commits:,}",
            f"{count.bytes / 2**20:,.1f} MiB",
            f"{found.hourly(name):,.0f}",
            f"{found.written_hourly(name):,.0f}" if name in found.parts[0].before else "-",
        )
        for name, count in last.after.items()
    ]
    head = (
        "table",
        "live files before",
        "after",
        "commits",
        "bytes after",
        "files per hour",
        "without maintenance",
    )
    cpu, ran = (sum(getattr(part, name).cpu for part in found.parts) for name in ("maintained", "usage"))
    stood = sum(part.maintained.seconds for part in found.parts)
    note = (
        f"Maintenance took {stood:.0f} s on the clock in all, start and end of its process included, and "
        f"{cpu:.0f} CPU s, {ratio(cpu, cpu + ran):.0%} of all that was used.".replace("%", " %")
    )
    return [what, "", *table(head, rows), "", note]
